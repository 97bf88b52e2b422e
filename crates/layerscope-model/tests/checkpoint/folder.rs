//! Which files are found, and how shards come together.

use layerscope_model::checkpoint::Dtype;

use super::*;

const INDEX: &str = "model.safetensors.index.json";

fn one(name: &str, value: f32) -> Vec<u8> {
    safetensors_of(&[(name, "F32", &[1], &f32_bytes(&[value]))])
}

fn index(entries: &[(&str, &str)]) -> Vec<u8> {
    let entries: Vec<_> = entries.iter().map(|(tensor, shard)| format!("{tensor:?}:{shard:?}")).collect();
    format!(r#"{{"metadata":{{"total_size":8}},"weight_map":{{{}}}}}"#, entries.join(",")).into_bytes()
}

#[test]
fn a_folder_without_weights_lists_what_was_looked_for() {
    let line = Folder::with(&[("config.json", b"{}")]).error();
    assert_says(&line, &["no weights", "`model.safetensors`", "`model.safetensors.index.json`"]);
    assert_says(&line, &["`pytorch_model.bin`", "`pytorch_model.bin.index.json`"]);
    let line = Folder::with(&[("config.json", b"{}"), ("model.onnx", b"x"), ("tf_model.h5", b"x")]).error();
    assert_says(&line, &["model.onnx is an ONNX model", "Layerscope reads safetensors, pytorch_model.bin and GGUF"]);
}

#[test]
fn safetensors_go_before_torch_files_and_single_files_before_shards() {
    let folder = Folder::with(&[("pytorch_model.bin", b"junk"), ("model.safetensors", &one("a", 1.0)), (INDEX, b"junk")]);
    assert_eq!(folder.open().unwrap().read("a", &[1]).unwrap(), [1.0]);
}

#[test]
fn a_checkpoint_describes_itself() {
    let file = safetensors_of(&[("b", "F32", &[2], &[0; 8]), ("a", "F16", &[1, 2], &[0; 4]), ("c", "F32", &[], &[0; 4])]);
    let folder = Folder::with(&[("model.safetensors", &file)]);
    let checkpoint = folder.open().unwrap();
    assert_eq!(checkpoint.folder(), folder.0);
    assert_eq!(checkpoint.names().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(checkpoint.bytes_on_disk(), file.len() as u64);
    assert_eq!(checkpoint.dtypes(), [(Dtype::F32, 2), (Dtype::F16, 1)]);
    let info = checkpoint.info("a").unwrap();
    assert_eq!((info.shape.as_slice(), info.dtype, info.elements()), ([1, 2].as_slice(), Dtype::F16, 2));
    assert_eq!(info.file, folder.0.join("model.safetensors"));
    assert!(checkpoint.info("d").is_none());
    assert_eq!([Dtype::F32, Dtype::Bf16, Dtype::F8E4m3, Dtype::Bool].map(|dtype| dtype.to_string()), ["f32", "bf16", "f8e4m3", "bool"]);
}

#[test]
fn shards_come_together() {
    let shards = [("x-1.safetensors", one("a", 1.0)), ("x-2.safetensors", one("b", 2.0))];
    let map = index(&[("a", "x-1.safetensors"), ("b", "x-2.safetensors")]);
    let folder = Folder::with(&[(INDEX, &map), (shards[0].0, &shards[0].1), (shards[1].0, &shards[1].1)]);
    let checkpoint = folder.open().unwrap();
    assert_eq!(checkpoint.names().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(checkpoint.read("b", &[1]).unwrap(), [2.0]);
    assert_eq!(checkpoint.info("b").unwrap().file, folder.0.join("x-2.safetensors"));
    assert_eq!(checkpoint.bytes_on_disk(), (shards[0].1.len() + shards[1].1.len()) as u64);
}

#[test]
fn the_index_decides_between_shards() {
    let both = safetensors_of(&[("a", "F32", &[1], &f32_bytes(&[9.0])), ("b", "F32", &[1], &f32_bytes(&[2.0]))]);
    let folder = Folder::with(&[(INDEX, &index(&[("a", "x"), ("b", "y")])), ("x", &one("a", 1.0)), ("y", &both)]);
    assert_eq!(folder.open().unwrap().read("a", &[1]).unwrap(), [1.0]);
    // A tensor the index does not know is read too, unless two shards hold it.
    folder.write("x", &safetensors_of(&[("a", "F32", &[1], &[0; 4]), ("extra", "F32", &[1], &[0; 4])]));
    assert!(folder.open().unwrap().info("extra").is_some());
    folder.write("y", &safetensors_of(&[("b", "F32", &[1], &[0; 4]), ("extra", "F32", &[1], &[0; 4])]));
    assert_says(&folder.error(), &["tensor `extra`", "in several shards"]);
}

#[test]
fn a_missing_shard_is_named() {
    let folder =
        Folder::with(&[(INDEX, &index(&[("a", "x-1.safetensors"), ("b", "x-2.safetensors")])), ("x-1.safetensors", &one("a", 1.0))]);
    assert_says(&folder.error(), &["x-2.safetensors: missing", INDEX, "`b`"]);
}

#[test]
fn a_tensor_the_index_promises_must_be_in_its_shard() {
    let folder = Folder::with(&[(INDEX, &index(&[("a", "x"), ("b", "x")])), ("x", &one("a", 1.0))]);
    assert_says(&folder.error(), &[&format!("{}x: tensor `b`: missing", std::path::MAIN_SEPARATOR), INDEX]);
}

#[test]
fn an_index_cannot_leave_its_folder() {
    for shard in ["../x", "/etc/passwd", "sub/x", "..", ".", "", "a\\b", "C:x", "a\nb"] {
        let line = Folder::with(&[(INDEX, &index(&[("a", shard)]))]).error();
        assert_says(&line, &[INDEX, "`a`", "not a file name in the same folder"]);
    }
}

#[test]
fn a_broken_index_is_refused() {
    let refuse = |content: &[u8], part: &str| assert_says(&Folder::with(&[(INDEX, content)]).error(), &[INDEX, part]);
    refuse(b"nonsense", "not an index of shards: expected");
    refuse(b"{}", "missing field `weight_map`");
    refuse(br#"{"weight_map":[]}"#, "expected an object");
    refuse(br#"{"weight_map":{"a":1}}"#, "expected a string");
    refuse(br#"{"weight_map":{}}"#, "names no tensor");
    refuse(br#"{"weight_map":{"a":"x","a":"y"}}"#, "assigns `a` to both `x` and `y`");
}

#[test]
#[cfg(unix)]
fn a_link_that_leads_nowhere_is_refused() {
    let folder = Folder::new();
    std::os::unix::fs::symlink("nowhere", folder.0.join("model.safetensors")).unwrap();
    assert_says(&folder.error(), &["model.safetensors: No such file"]);
}

#[test]
fn what_is_not_a_file_of_weights_is_refused() {
    let folder = Folder::new();
    std::fs::create_dir(folder.0.join("model.safetensors")).unwrap();
    assert_says(&folder.error(), &["model.safetensors: not a regular file"]);
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
    assert_says(&Folder::with(&[("model.safetensors", pointer)]).error(), &["Git LFS pointer", "git lfs pull"]);
    assert_says(&Folder::with(&[("pytorch_model.bin", pointer)]).error(), &["Git LFS pointer", "git lfs pull"]);
}
