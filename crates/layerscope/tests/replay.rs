//! Seeds of the fuzzer, and every input that it ever found a fault with: all of them are answered. See `tools/fuzz.sh`.

#[allow(dead_code)] // the fuzzer uses the rest
#[path = "../../../fuzz/src/memory.rs"]
mod memory;
#[allow(dead_code)]
#[path = "../../../fuzz/src/targets/mod.rs"]
mod targets;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use layerscope_corpus::{Grouping, Settings, Tokenizer, Wrap, write_spool};

#[test]
fn seeds_and_crashes_are_answered() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let inputs = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.expect("an input").path());
    for target in targets::TARGETS {
        let mut seeds = 0;
        for input in inputs(fuzz.join("seeds").join(target.name)).chain(inputs(fuzz.join("crashes").join(target.name))) {
            println!("{}", input.display());
            (target.run)(&std::fs::read(&input).expect("an input"));
            seeds += 1;
        }
        assert!(seeds > 0, "{} has no seeds", target.name);
    }
    std::fs::remove_dir_all(targets::folder()).expect("removable");
}

/// A few bytes of a tokenizer name an id of 20 million: the ids below it have no tokens, and their names would take gigabytes.
#[test]
fn a_huge_id_takes_no_memory_for_the_names_of_others() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("replay-huge-id");
    std::fs::create_dir_all(&folder).expect("a folder");
    let text = folder.join("text.txt");
    std::fs::write(&text, "the cat\n").expect("a text");
    let model = serde_json::json!({ "type": "WordLevel", "vocab": { "the": 0, "cat": 20_000_000 }, "unk_token": "the" });
    let json = serde_json::json!({ "version": "1.0", "added_tokens": [], "pre_tokenizer": { "type": "Whitespace" }, "model": model });
    let tokenizer = Tokenizer::from_json(&folder, json.to_string().as_bytes(), serde_json::Value::Null, Wrap::None).expect("a tokenizer");
    let settings = Settings { grouping: Grouping::Surface, ..Settings::new([text.display().to_string()], 16) };
    let spool = write_spool(&settings, &tokenizer, &folder.join("spool"), &mut |_| {}, &AtomicBool::new(false)).expect("a spool");
    assert_eq!(spool.groups().iter().map(|group| group.key).collect::<Vec<_>>(), [0, 20_000_000]);
}
