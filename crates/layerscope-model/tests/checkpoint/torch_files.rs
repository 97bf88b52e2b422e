//! PyTorch files made by `tools/make_torch_files.py`, the good ones and the bad ones.

use layerscope_model::checkpoint::Dtype;

use super::*;

const RAMP: [f32; 6] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/torch").join(name)
}

fn open(name: &str) -> Checkpoint {
    Checkpoint::open(&data(name)).unwrap()
}

fn refused(name: &str) -> String {
    let line = Checkpoint::open(&data(name)).unwrap_err().one_line(&data(name));
    assert_says(&line, &["pytorch_model.bin: "]);
    line
}

/// The error of a file with one pattern replaced by another of the same length.
fn patched(name: &str, old: &[u8], new: &[u8]) -> String {
    let mut content = std::fs::read(data(name).join("pytorch_model.bin")).unwrap();
    let at = content.windows(old.len()).position(|window| window == old).unwrap();
    content[at..at + old.len()].copy_from_slice(new);
    Folder::with(&[("pytorch_model.bin", &content)]).error()
}

#[test]
fn a_state_dict_reads_exactly() {
    let checkpoint = open("plain");
    assert_eq!(checkpoint.names().collect::<Vec<_>>(), ["bias", "brain", "empty", "half", "scalar", "steps", "weight"]);
    assert_eq!(checkpoint.read("weight", &[2, 3]).unwrap(), RAMP);
    assert_eq!(checkpoint.read("bias", &[2]).unwrap(), [-1.0, 0.5]);
    assert_eq!(checkpoint.read("half", &[4]).unwrap(), [1.0, -2.5, 65504.0, 2f32.powi(-24)]);
    let brain = checkpoint.read("brain", &[4]).unwrap();
    assert_eq!(brain.iter().map(|value| value.to_bits()).collect::<Vec<_>>(), [0x3f80_0000, 0xc020_0000, 0x7f62_0000, 0x0001_0000]);
    assert_eq!(checkpoint.read("scalar", &[]).unwrap(), [7.0]);
    assert_eq!(checkpoint.read("empty", &[0, 3]).unwrap(), [0.0; 0]);
    assert_eq!(checkpoint.dtypes(), [(Dtype::F32, 4), (Dtype::F16, 1), (Dtype::Bf16, 1), (Dtype::I64, 1)]);
    assert_says(&checkpoint.read("steps", &[2]).unwrap_err().to_string(), &["tensor `steps`: stored as i64"]);
    assert_says(&checkpoint.read("weight", &[3, 2]).unwrap_err().to_string(), &["expected shape [3, 2], found [2, 3]"]);
}

#[test]
fn other_forms_of_tensors_read_too() {
    let checkpoint = open("forms");
    assert_eq!(checkpoint.read("marked", &[2, 3]).unwrap(), RAMP);
    assert_eq!(checkpoint.read("parameter", &[2, 3]).unwrap(), RAMP.map(|value| value + 10.0));
    assert_eq!(checkpoint.read("noted", &[2, 3]).unwrap(), RAMP.map(|value| value + 20.0));
    assert_says(&checkpoint.read("odd", &[2]).unwrap_err().to_string(), &["stored as u16"]);
}

#[test]
fn tensors_may_share_a_storage() {
    let checkpoint = open("shared");
    assert_eq!(checkpoint.read("first", &[2, 3]).unwrap(), RAMP);
    assert_eq!(checkpoint.read("tied", &[2, 3]).unwrap(), RAMP);
    assert_eq!(checkpoint.read("second_row", &[3]).unwrap(), [3.0, 4.0, 5.0]);
}

#[test]
fn views_are_gathered() {
    let checkpoint = open("transposed");
    assert_eq!(checkpoint.read("weight", &[3, 2]).unwrap(), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    assert_eq!(checkpoint.read("column", &[2]).unwrap(), [1.0, 4.0]);
    let cube: Vec<f32> = (0..24).map(|index| (index % 6 / 3 * 12 + index % 3 * 4 + index / 6) as f32).collect();
    assert_eq!(checkpoint.read("cube", &[4, 2, 3]).unwrap(), cube);
}

#[test]
fn shards_come_together() {
    let checkpoint = open("sharded");
    assert_eq!(checkpoint.read("a", &[2, 3]).unwrap(), RAMP);
    assert_eq!(checkpoint.read("b", &[2, 3]).unwrap(), RAMP.map(|value| value + 6.0));
    assert!(checkpoint.info("b").unwrap().file.ends_with("pytorch_model-00002-of-00002.bin"));
}

#[test]
fn a_pickle_that_wants_to_run_code_is_refused_by_name() {
    // Python pickles os.system under the name of the module that implements it.
    assert_says(&refused("malicious"), &["its pickle wants to run `posix.system`; refused: use safetensors"]);
    assert_says(&patched("malicious", b"posix", b"\x1b[31m"), &[r"wants to run `\u{1b}[31m.system`"]);
    assert_says(&patched("plain", b"_rebuild_tensor_v2", b"_rebuild_tensor_v9"), &["wants to run `torch._utils._rebuild_tensor_v9`"]);
    assert_says(&patched("plain", b"FloatStorage", b"FloatStorags"), &["wants to run `torch.FloatStorags`"]);
}

#[test]
fn what_is_no_state_dict_is_refused() {
    assert_says(&refused("nested"), &["its entry `state_dict` is a mapping, not a tensor", "safetensors"]);
    assert_says(&refused("tensor"), &["holds a tensor instead of a mapping from names to tensors", "safetensors"]);
}

#[test]
fn other_formats_are_refused_with_a_way_out() {
    assert_says(&refused("legacy"), &["PyTorch's old format", "use safetensors"]);
    assert_says(&refused("script"), &["a TorchScript program", "use safetensors"]);
    assert_says(&refused("compressed"), &["its entry `pytorch_model/data.pkl` is compressed", "use safetensors"]);
    assert_says(&patched("plain", b"little", b"big\0\0\0"), &["big-endian", "use safetensors"]);
    assert_says(&Folder::with(&[("pytorch_model.bin", b"\x80\x02}q\0.")]).error(), &["PyTorch's old format", "use safetensors"]);
    assert_says(&Folder::with(&[("pytorch_model.bin", b"hello")]).error(), &["neither a zip archive nor a pickle"]);
    assert_says(&Folder::with(&[("pytorch_model.bin", b"")]).error(), &["neither a zip archive nor a pickle"]);
}

#[test]
fn a_truncated_archive_is_refused() {
    assert_says(&refused("truncated"), &["not a readable zip archive, it may be truncated"]);
    let whole = std::fs::read(data("plain").join("pytorch_model.bin")).unwrap();
    for length in 4..whole.len() {
        let line = Folder::with(&[("pytorch_model.bin", &whole[..length])]).error();
        assert_says(&line, &["truncated"]);
    }
}

#[test]
fn bad_tensors_are_named() {
    assert_says(&refused("expanded"), &["tensor `weight`: shape [1000, 3] with strides [0, 1] repeats the same numbers", "safetensors"]);
    let checkpoint = open("nan");
    assert_says(&checkpoint.read("weight", &[3]).unwrap_err().to_string(), &["tensor `weight`: value 2 is NaN"]);
    // The shape (2, 3) with strides (3, 1) becomes (2, 9) with strides (9, 1).
    let (old, new) = (b"K\x02K\x03\x86q\x09K\x03K\x01", b"K\x02K\x09\x86q\x09K\x09K\x01");
    assert_says(&patched("plain", old, new), &["tensor `weight`: shape [2, 9] in f32", "ends past its storage of 24 bytes"]);
    assert_says(&patched("plain", b"X\x01\0\0\x000", b"X\x01\0\0\x00z"), &["tensor `weight`: its storage `z` is missing"]);
}

#[test]
fn a_file_that_shrinks_after_opening_is_an_error() {
    let content = std::fs::read(data("transposed").join("pytorch_model.bin")).unwrap();
    let folder = Folder::with(&[("pytorch_model.bin", &content)]);
    let checkpoint = folder.open().unwrap();
    folder.write("pytorch_model.bin", &content[..100]);
    assert_says(&checkpoint.read("weight", &[3, 2]).unwrap_err().one_line(&folder.0), &["became shorter while it was read"]);
}
