//! Damaged files: whatever one does to the bytes, opening and reading give a result or an error, and little memory is asked for.

use std::alloc::{GlobalAlloc, Layout, System};

use super::*;

/// The system's allocator, which remembers the largest single request of the whole test program.
struct Watched;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Watched = Watched;

// SAFETY: every call is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the promises of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Opens and reads `content` in place of the file, and reports what was done to it should that panic.
fn survive(folder: &Folder, name: &str, content: &[u8], what: &str) {
    folder.write(name, content);
    let attempt = std::panic::catch_unwind(|| {
        if let Ok(checkpoint) = folder.open() {
            for tensor in checkpoint.names() {
                drop(checkpoint.read(tensor, &checkpoint.info(tensor).unwrap().shape));
            }
        }
    });
    assert!(attempt.is_ok(), "{name}: panicked after {what}");
    let largest = LARGEST.load(Ordering::Relaxed);
    assert!(largest < 4 << 20, "{name}: {largest} bytes asked for after {what}");
}

/// Cuts the file at every length, damages every byte in several ways, and then several bytes at once.
fn damage(name: &str, whole: &[u8], others: &[(&str, &[u8])]) {
    let folder = Folder::with(others);
    for length in 0..whole.len() {
        survive(&folder, name, &whole[..length], &format!("cutting it to {length} bytes"));
    }
    let mut content = whole.to_vec();
    for at in 0..whole.len() {
        for change in [whole[at] ^ 1, whole[at] ^ 0x80, whole[at].wrapping_add(1), 0, 0xff] {
            content[at] = change;
            survive(&folder, name, &content, &format!("setting byte {at} to {change}"));
        }
        content[at] = whole[at];
    }
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % below
    };
    for round in 0..1000 {
        let mut content = whole.to_vec();
        for _ in 0..2 + random(4) {
            let at = random(content.len());
            content[at] = random(256) as u8;
        }
        // Copying a stretch elsewhere keeps it plausible, in the wrong place.
        let length = random(16);
        let (from, to) = (random(content.len() - length), random(content.len() - length));
        content.copy_within(from..from + length, to);
        survive(&folder, name, &content, &format!("random damage, round {round}"));
    }
}

fn torch(name: &str, file: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/torch").join(name).join(file)).unwrap()
}

#[test]
fn a_damaged_safetensors_file_never_panics() {
    let tensors: [(&str, &str, &[usize], &[u8]); 3] =
        [("a", "F32", &[2, 3], &[0; 24]), ("b", "F16", &[2], &[0; 4]), ("c", "BF16", &[], &[0; 2])];
    damage("model.safetensors", &safetensors_of(&tensors), &[]);
}

#[test]
fn a_damaged_gguf_file_never_panics() {
    damage("model.gguf", &gguf_files::sound(), &[]);
}

#[test]
fn a_damaged_index_never_panics() {
    let index = br#"{"metadata":{"total_size":8},"weight_map":{"a":"x","b":"y"}}"#;
    let shard = |name| safetensors_of(&[(name, "F32", &[1], &[0; 4])]);
    damage("model.safetensors.index.json", index, &[("x", &shard("a")), ("y", &shard("b"))]);
}

#[test]
fn a_damaged_state_dict_never_panics() {
    damage("pytorch_model.bin", &torch("plain", "pytorch_model.bin"), &[]);
}

#[test]
fn a_damaged_file_of_views_never_panics() {
    damage("pytorch_model.bin", &torch("transposed", "pytorch_model.bin"), &[]);
}

#[test]
fn damaged_other_forms_never_panic() {
    damage("pytorch_model.bin", &torch("forms", "pytorch_model.bin"), &[]);
}

#[test]
fn damaged_bad_files_never_panic() {
    for name in ["malicious", "legacy", "nested", "expanded", "script"] {
        damage("pytorch_model.bin", &torch(name, "pytorch_model.bin"), &[]);
    }
}
