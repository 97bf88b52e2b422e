//! GGUF: everything a header can get wrong.

use super::*;

/// A text as the format writes it.
fn text(value: &str) -> Vec<u8> {
    [&(value.len() as u64).to_le_bytes(), value.as_bytes()].concat()
}

/// A metadata entry: its name, the number of its kind, and its bytes.
fn entry(name: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    [text(name), kind.to_le_bytes().to_vec(), value.to_vec()].concat()
}

/// A row of the table of tensors.
fn row(name: &str, dimensions: &[u64], kind: u32, offset: u64) -> Vec<u8> {
    let dimensions_bytes: Vec<u8> = dimensions.iter().flat_map(|size| size.to_le_bytes()).collect();
    let count = (dimensions.len() as u32).to_le_bytes().to_vec();
    [text(name), count, dimensions_bytes, kind.to_le_bytes().to_vec(), offset.to_le_bytes().to_vec()].concat()
}

/// A file of version 3 with this header and this many bytes of zeros behind it.
pub(super) fn gguf(entries: &[Vec<u8>], rows: &[Vec<u8>], data: usize) -> Vec<u8> {
    let mut file = b"GGUF\x03\0\0\0".to_vec();
    file.extend((rows.len() as u64).to_le_bytes());
    file.extend((entries.len() as u64).to_le_bytes());
    file.extend(entries.concat());
    file.extend(rows.concat());
    file.resize(file.len().next_multiple_of(32) + data, 0);
    file
}

/// The error of opening this file, or else of reading its tensors.
fn refused(content: &[u8]) -> String {
    let folder = Folder::with(&[("model.gguf", content)]);
    let path = folder.0.join("model.gguf");
    let error = match Checkpoint::open(&path) {
        Ok(checkpoint) => read_all(&checkpoint).expect_err("refused"),
        Err(error) => error,
    };
    error.one_line(&path)
}

/// A small file with a value of every kind and two tensors.
pub(super) fn sound() -> Vec<u8> {
    let list = |kind: u32, count: u64, values: &[u8]| [&kind.to_le_bytes()[..], &count.to_le_bytes(), values].concat();
    let entries = [
        entry("general.architecture", 8, &text("x")),
        entry("a", 0, &[1]),
        entry("b", 3, &[1, 0]),
        entry("c", 6, &1.5f32.to_le_bytes()),
        entry("d", 7, &[1]),
        entry("e", 12, &1.5f64.to_le_bytes()),
        entry("f", 9, &list(8, 2, &[text("p"), text("q")].concat())),
        entry("g", 9, &list(5, 3, &[0; 12])),
        entry("h", 11, &[0xff; 8]),
    ];
    gguf(&entries, &[row("w", &[32, 2], 8, 0), row("v", &[3], 0, 96)], 96 + 12)
}

#[test]
fn a_sound_file_has_its_values_and_tensors() {
    let folder = Folder::with(&[("model.gguf", &sound())]);
    let checkpoint = Checkpoint::open(&folder.0.join("model.gguf")).unwrap();
    assert_eq!(checkpoint.names().collect::<Vec<_>>(), ["v", "w"]);
    assert_eq!((read_all(&checkpoint).unwrap(), checkpoint.info("w").unwrap().shape.clone()), (67, vec![2, 32]));
    let metadata = checkpoint.metadata().unwrap();
    assert_eq!((metadata.text("general.architecture"), metadata.count("a"), metadata.flag("d")), (Some("x"), Some(1), Some(true)));
    assert_eq!((metadata.count("h"), metadata.get("h").unwrap().to_string()), (None, "-1".to_owned()));
    assert_eq!(metadata.get("f").unwrap().to_string(), "a list of 2");
}

#[test]
fn other_files_and_versions_are_refused_by_name() {
    let versioned = |version: u32| [b"GGUF".as_slice(), &version.to_le_bytes(), &[0; 16]].concat();
    assert_says(&refused(b"GGUF"), &["the version ends past the 4 bytes of the file, which may be truncated"]);
    assert_says(&refused(b"PK\x03\x04rest"), &["does not begin with `GGUF`"]);
    assert_says(&refused(&versioned(1)), &["GGUF version 1", "convert the model again"]);
    assert_says(&refused(&versioned(3 << 24)), &["a big-endian GGUF file", "convert the model again"]);
    assert_says(&refused(&versioned(4)), &["GGUF version 4; Layerscope reads versions 2 and 3"]);
    assert_says(&refused(b"version https://git-lfs.github.com/spec/v1\n"), &["a Git LFS pointer"]);
}

#[test]
fn counts_and_lengths_are_checked_against_the_file() {
    let mut many = gguf(&[], &[], 0);
    many[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
    assert_says(&refused(&many), &["of the metadata ends past the 32 bytes of the file, which may be truncated"]);
    many[8..16].copy_from_slice(&(1u64 << 60).to_le_bytes());
    many[16..24].fill(0);
    assert_says(&refused(&many), &["tensor 0 of 1152921504606846976 in the table ends past"]);
    let long = |kind: u32, value: &[u8]| refused(&gguf(&[entry("k", kind, value)], &[], 0));
    assert_says(&long(8, &u64::MAX.to_le_bytes()), &["`k` of the metadata ends past"]);
    let list = |kind: u32, count: u64| [kind.to_le_bytes().to_vec(), count.to_le_bytes().to_vec()].concat();
    assert_says(&long(9, &list(12, u64::MAX)), &["`k` of the metadata has 18446744073709551615 values, which overflows"]);
    assert_says(&long(9, &list(0, 1 << 40)), &["`k` of the metadata ends past"]);
    assert_says(&long(9, &list(8, 1 << 40)), &["`k` of the metadata ends past"]);
    assert_says(&long(9, &list(9, 1)), &["`k` of the metadata is a list of lists"]);
    assert_says(&long(9, &list(99, 1)), &["`k` of the metadata is a list of the unknown kind 99"]);
    assert_says(&long(13, &[0; 8]), &["`k` of the metadata has the unknown kind 13"]);
    assert_says(&long(7, &[2]), &["`k` of the metadata should be 0 or 1, found 2"]);
    assert_says(&long(8, &[&2u64.to_le_bytes()[..], &[0xff, 0xfe]].concat()), &["`k` of the metadata is not UTF-8"]);
    assert_says(&refused(&gguf(&[entry("k", 0, &[1]), entry("k", 0, &[2])], &[], 0)), &["`k` of the metadata appears twice"]);
    assert_says(&refused(&gguf(&[entry("split.count", 2, &[3, 0])], &[], 0)), &["one of 3 parts of a split model; join them"]);
    assert_says(&refused(&gguf(&[entry("general.alignment", 4, &24u32.to_le_bytes())], &[], 0)), &["a power of two, found 24"]);
}

#[test]
fn tensors_lie_inside_the_file_and_apart() {
    let table = |rows: &[Vec<u8>], data: usize| refused(&gguf(&[], rows, data));
    assert_says(&table(&[row("w", &[8], 0, 0)], 31), &["tensor `w`: shape [8] in f32 ends past", "truncated"]);
    assert_says(&table(&[row("w", &[8], 0, u64::MAX - 31)], 32), &["tensor `w`: shape [8] in f32 ends past"]);
    assert_says(&table(&[row("w", &[8], 0, 4)], 64), &["tensor `w`: begins at byte 4 of the data, not a multiple of 32"]);
    assert_says(&table(&[row("w", &[1 << 40, 1 << 40], 0, 0)], 0), &["tensor `w`: shape [1099511627776, 1099511627776] overflows"]);
    assert_says(&table(&[row("w", &[u64::MAX], 0, 0)], 0), &["tensor `w`: shape"]);
    assert_says(&table(&[row("w", &[1; 5], 0, 0)], 4), &["tensor `w`: 5 dimensions, more than the 4"]);
    assert_says(&table(&[row("w", &[33], 8, 0)], 64), &["tensor `w`: rows of 33 numbers are no whole blocks of 32 in q8_0"]);
    assert_says(&table(&[row("w", &[32, 8], 12, 0)], 256), &["rows of 32 numbers are no whole blocks of 256 in q4_k"]);
    assert_says(&table(&[row("w", &[256], 10, 0)], 256), &["tensor `w`: stored as Q2_K; Layerscope reads F32, F16"]);
    assert_says(&table(&[row("w", &[256], 77, 0)], 256), &["tensor `w`: stored as the unknown kind 77"]);
    assert_says(&table(&[row("w", &[1], 0, 0), row("w", &[1], 0, 32)], 64), &["tensor `w`: appears twice"]);
    assert_says(&table(&[row("w", &[16], 0, 0), row("v", &[1], 0, 32)], 64), &["tensor `v`: overlaps `w`"]);
    assert_says(&table(&[row("w", &[2], 28, 0)], 16), &["tensor `w`: stored as f64; Layerscope reads"]);
    assert_says(&table(&[row("a\nb", &[1], 0, 0)], 4), &["a tensor's name has control characters"]);
    let mut infinite = gguf(&[], &[row("w", &[32], 8, 0)], 34);
    let at = infinite.len() - 33;
    infinite[at] = 0x7c;
    infinite[at + 1] = 1;
    assert_says(&refused(&infinite), &["tensor `w`: value 0 is inf; weights must be finite"]);
}
