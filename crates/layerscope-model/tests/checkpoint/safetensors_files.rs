//! Safetensors: exact values, and everything a header can get wrong.

use half::{bf16, f16};

use super::*;

fn file(content: &[u8]) -> Folder {
    Folder::with(&[("model.safetensors", content)])
}

/// The error of a header with this much data behind it.
fn refused(header: &str, data: usize) -> String {
    file(&safetensors(header, data)).error()
}

#[test]
fn f32_values_come_out_bit_by_bit() {
    // More than one piece, and not a whole number of them.
    let values: Vec<f32> = (0..600_001).map(|index| (index as f32).sin()).collect();
    let folder = file(&safetensors_of(&[("first", "F32", &[1], &f32_bytes(&[-0.0])), ("w", "F32", &[600_001], &f32_bytes(&values))]));
    let checkpoint = folder.open().unwrap();
    assert_eq!(checkpoint.read("w", &[600_001]).unwrap(), values);
    assert_eq!(checkpoint.read("first", &[1]).unwrap()[0].to_bits(), (-0.0f32).to_bits());
}

#[test]
fn several_threads_read_at_once() {
    let numbers = |tensor: usize| (0..30_000).map(|index| (tensor * index) as f32).collect::<Vec<_>>();
    let tensors: Vec<(String, Vec<u8>)> = (0..20).map(|tensor| (format!("w{tensor}"), f32_bytes(&numbers(tensor)))).collect();
    let entries: Vec<(&str, &str, &[usize], &[u8])> =
        tensors.iter().map(|(name, bytes)| (name.as_str(), "F32", &[100, 300][..], bytes.as_slice())).collect();
    let folder = file(&safetensors_of(&entries));
    let checkpoint = folder.open().unwrap();
    let read = layerscope_compute::parallel::in_order(4, tensors.len(), |tensor| checkpoint.read(&tensors[tensor].0, &[100, 300]));
    assert!(read.iter().enumerate().all(|(tensor, values)| *values.as_ref().unwrap() == numbers(tensor)));
}

#[test]
fn every_finite_f16_and_bf16_converts_exactly() {
    let (mut f16s, mut bf16s) = (Vec::new(), Vec::new());
    let (mut expected_f16, mut expected_bf16) = (Vec::new(), Vec::new());
    for bits in 0..=u16::MAX {
        if f16::from_bits(bits).is_finite() {
            let (exponent, fraction) = ((bits >> 10 & 31) as i32, (bits & 1023) as f64);
            let size = if exponent == 0 { fraction * 2f64.powi(-24) } else { (1024.0 + fraction) * 2f64.powi(exponent - 25) };
            f16s.extend(bits.to_le_bytes());
            expected_f16.push(if bits >> 15 == 1 { -size as f32 } else { size as f32 });
        }
        if bf16::from_bits(bits).is_finite() {
            bf16s.extend(bits.to_le_bytes());
            expected_bf16.push(f32::from_bits((bits as u32) << 16));
        }
    }
    let (f16_shape, bf16_shape) = ([expected_f16.len()], [expected_bf16.len()]);
    let folder = file(&safetensors_of(&[("half", "F16", &f16_shape, &f16s), ("brain", "BF16", &bf16_shape, &bf16s)]));
    let checkpoint = folder.open().unwrap();
    let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
    assert_eq!(bits(checkpoint.read("half", &f16_shape).unwrap()), bits(expected_f16));
    assert_eq!(bits(checkpoint.read("brain", &bf16_shape).unwrap()), bits(expected_bf16));
}

#[test]
fn metadata_padding_scalars_and_empty_tensors_are_fine() {
    let header = r#"{"__metadata__":{"format":"pt"},"e":{"dtype":"F32","shape":[0,3],"data_offsets":[0,0]},"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}    "#;
    let folder = file(&safetensors(header, 4));
    let checkpoint = folder.open().unwrap();
    assert_eq!(checkpoint.names().collect::<Vec<_>>(), ["e", "s"]);
    assert_eq!(checkpoint.read("e", &[0, 3]).unwrap(), [0.0; 0]);
    assert_eq!(checkpoint.read("s", &[]).unwrap(), [0.0]);
}

#[test]
fn a_missing_or_wrongly_shaped_tensor_is_named_with_both_shapes() {
    let folder = file(&safetensors_of(&[("w", "F32", &[2, 3], &[0; 24])]));
    let checkpoint = folder.open().unwrap();
    let line = checkpoint.read("v", &[1]).unwrap_err().one_line(&folder.0);
    assert_eq!(line, format!("{}: tensor `v`: missing", folder.0.display()));
    let line = checkpoint.read("w", &[3, 2]).unwrap_err().one_line(&folder.0);
    assert_says(&line, &["model.safetensors: tensor `w`: expected shape [3, 2], found [2, 3]"]);
    assert_says(&checkpoint.read("w", &[6]).unwrap_err().to_string(), &["expected shape [6], found [2, 3]"]);
    assert_says(&checkpoint.read("w", &[usize::MAX, 2]).unwrap_err().to_string(), &["found [2, 3]"]);
}

#[test]
fn other_kinds_of_numbers_are_refused_by_name() {
    let kinds = [("F64", 8, "f64"), ("I64", 8, "i64"), ("U8", 1, "u8"), ("BOOL", 1, "bool"), ("F8_E4M3", 1, "f8e4m3"), ("C64", 8, "c64")];
    for (dtype, size, name) in kinds {
        let line = file(&safetensors_of(&[("w", dtype, &[1], &vec![0; size])])).error();
        assert_says(&line, &[&format!("tensor `w`: stored as {name}; Layerscope reads f32, f16 and bf16")]);
    }
}

#[test]
fn weights_that_are_not_finite_are_named_with_the_first_of_them() {
    for (value, name) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf"), (f32::NEG_INFINITY, "-inf")] {
        for at in [0, 5000, 299_999] {
            let mut values = vec![1.0; 300_000];
            (values[at], values[299_999]) = (value, value);
            let line = file(&safetensors_of(&[("w", "F32", &[300_000], &f32_bytes(&values))])).error();
            assert_says(&line, &[&format!("tensor `w`: value {at} is {name}; weights must be finite")]);
        }
    }
    let line = file(&safetensors_of(&[("w", "F16", &[2], &[0, 0, 0, 0x7c])])).error();
    assert_says(&line, &["value 1 is inf"]);
    let line = file(&safetensors_of(&[("w", "BF16", &[2], &[0, 0, 0xc0, 0x7f])])).error();
    assert_says(&line, &["value 1 is NaN"]);
}

#[test]
fn a_truncated_file_is_refused_wherever_it_is_cut() {
    let whole = safetensors_of(&[("w", "F32", &[2, 3], &[0; 24])]);
    for length in 0..whole.len() {
        assert_says(&file(&whole[..length]).error(), &["truncated"]);
    }
    assert_says(&file(b"1234567").error(), &["7 bytes are too few"]);
    assert_says(&file(&whole[..20]).error(), &["its header needs", "12 are there"]);
    assert_says(&file(&whole[..whole.len() - 1]).error(), &["tensor `w`", "ends at byte 24", "there are 23"]);
}

#[test]
fn a_header_over_the_limit_is_refused_before_it_is_read() {
    for length in [100_000_001, u64::MAX] {
        let mut content = length.to_le_bytes().to_vec();
        content.extend(b"{}");
        assert_says(&file(&content).error(), &["over the limit of 100000000"]);
    }
}

#[test]
fn a_header_that_is_not_what_it_should_be_is_refused() {
    assert_says(&refused("nonsense", 0), &["the header is not JSON: expected"]);
    assert_says(&refused("", 0), &["the header is not JSON: EOF"]);
    assert_says(&refused("{} {}", 0), &["the header is not JSON: trailing characters"]);
    assert_says(&refused("[]", 0), &["malformed header: invalid type: sequence, expected an object"]);
    assert_says(&refused(r#"{"w":1}"#, 0), &["malformed header: invalid type: integer `1`"]);
    assert_says(&refused(r#"{"w":{"dtype":"F32","shape":[1]}}"#, 4), &["malformed header: missing field `data_offsets`"]);
    assert_says(&refused(r#"{"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}"#, 4), &["malformed header", "`-1`"]);
    assert_says(&refused(&"[".repeat(100_000), 0), &["header"]);
    let line = refused("{\"a\\nb\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4);
    assert_says(&line, &[r"control characters: `a\nb`"]);
}

#[test]
fn a_name_must_not_appear_twice() {
    let header = r#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#;
    assert_says(&refused(header, 8), &["tensor `w`: appears twice"]);
}

#[test]
fn an_unknown_dtype_is_named() {
    assert_says(&refused(r#"{"w":{"dtype":"F3","shape":[1],"data_offsets":[0,4]}}"#, 4), &["tensor `w`: unknown dtype `F3`"]);
}

#[test]
fn offsets_must_cover_the_data_exactly() {
    let two = |first: &str, second: &str| {
        format!(r#"{{"a":{{"dtype":"F32","shape":[1],"data_offsets":{first}}},"b":{{"dtype":"F32","shape":[1],"data_offsets":{second}}}}}"#)
    };
    assert!(file(&safetensors(&two("[0,4]", "[4,8]"), 8)).open().is_ok());
    assert!(file(&safetensors(&two("[4,8]", "[0,4]"), 8)).open().is_ok());
    assert_says(&refused(&two("[0,4]", "[4,9]"), 8), &["tensor `b`: ends at byte 9 of the data, of which there are 8"]);
    assert_says(
        &refused(&two("[0,4]", "[18446744073709551611,18446744073709551615]"), 8),
        &["tensor `b`: ends at byte 18446744073709551615"],
    );
    assert_says(&refused(&two("[0,4]", "[8,4]"), 8), &["tensor `b`: begins at byte 8 of the data and ends at 4"]);
    assert_says(&refused(&two("[0,4]", "[2,6]"), 6), &["tensor `b`: begins at byte 2 of the data and overlaps `a`, which ends at 4"]);
    assert_says(&refused(&two("[0,4]", "[0,4]"), 4), &["overlaps"]);
    assert_says(&refused(&two("[0,4]", "[6,10]"), 10), &["tensor `b`", "bytes 4 to 6 before it belong to no tensor"]);
    assert_says(&refused(&two("[0,4]", "[4,8]"), 11), &["3 bytes after the last tensor belong to none"]);
}

#[test]
fn a_shape_must_fit_its_bytes() {
    let one = |shape: &str| format!(r#"{{"w":{{"dtype":"F32","shape":{shape},"data_offsets":[0,8]}}}}"#);
    assert_says(&refused(&one("[3]"), 8), &["tensor `w`: shape [3] in f32 needs 12 bytes, the header gives it 8"]);
    assert_says(&refused(&one("[4294967296,4294967296]"), 8), &["tensor `w`: shape [4294967296, 4294967296] overflows"]);
    assert_says(&refused(&one("[4611686018427387904]"), 8), &["overflows"]);
    assert_says(&refused(&one("[25000000000]"), 8), &["needs 100000000000 bytes, the header gives it 8"]);
}

#[test]
fn a_file_that_shrinks_after_opening_is_an_error() {
    let folder = file(&safetensors_of(&[("a", "F32", &[1], &[0; 4]), ("b", "F32", &[2], &[0; 8])]));
    let checkpoint = folder.open().unwrap();
    let path = folder.0.join("model.safetensors");
    let shorter = path.metadata().unwrap().len() - 1;
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(shorter).unwrap();
    assert_eq!(checkpoint.read("a", &[1]).unwrap(), [0.0]);
    assert_says(&checkpoint.read("b", &[2]).unwrap_err().one_line(&folder.0), &["became shorter while it was read"]);
}
