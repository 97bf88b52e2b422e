//! Pickles written by hand, most of them hostile.

use super::machine::MAX_INSTRUCTIONS;
use super::*;

fn fault(pickle: &[u8]) -> String {
    state_dict(pickle).unwrap_err()
}

/// A state dict whose entry `w` is what these instructions leave on the stack.
fn entry(instructions: &[u8]) -> Vec<u8> {
    [b"\x80\x02}X\x01\0\0\0w", instructions, b"s."].concat()
}

/// A tensor of two numbers, from element `offset` on.
fn tensor(offset: &[u8]) -> Vec<u8> {
    let storage = b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x007X\x03\0\0\0cpuK\x02tQ";
    [storage, offset, b"K\x02\x85K\x01\x85\x89}tR"].concat()
}

#[test]
fn a_tensor_is_described_not_built() {
    let pickle = entry(&tensor(b"K\x05"));
    let expected = PickledTensor { storage: "7", dtype: Dtype::F32, offset: 5, shape: vec![2], strides: vec![1] };
    assert_eq!(state_dict(&pickle), Ok(vec![("w", expected)]));
}

#[test]
fn integers_of_every_width_are_read() {
    for (offset, expected) in [(&b"M\x01\x02"[..], 513), (b"J\x01\0\x01\0", 65537), (b"\x8a\x05\0\0\0\0\x01", 1 << 32), (b"\x8a\0", 0)] {
        let pickle = entry(&tensor(offset));
        assert_eq!(state_dict(&pickle).unwrap()[0].1.offset, expected);
    }
    assert_eq!(fault(&entry(&tensor(b"J\xff\xff\xff\xff"))), "its pickle is broken: a negative size");
    assert_eq!(fault(&entry(&tensor(b"\x8a\x01\xff"))), "its pickle is broken: a negative size");
    assert_eq!(fault(&entry(&tensor(b"\x8a\x090123456789"))), "its pickle is broken: an integer is too long");
}

#[test]
fn every_way_to_name_a_global_is_checked() {
    let refused = "its pickle wants to run `os.system`; refused: use safetensors";
    assert_eq!(fault(b"\x80\x02cos\nsystem\n."), refused);
    assert_eq!(fault(b"\x80\x02(X\x02\0\0\0idios\nsystem\n."), refused);
    assert_eq!(fault(b"\x80\x04\x8c\x02os\x8c\x06system\x93."), refused);
    assert_eq!(fault(b"\x80\x02cbuiltins\neval\n."), "its pickle wants to run `builtins.eval`; refused: use safetensors");
    // A global that is allowed does not open the door to its module or to other means of calling.
    assert!(fault(b"\x80\x02ctorch\nload\n.").contains("`torch.load`"));
    assert!(fault(b"\x80\x02ctorch._utils\n_rebuild_sparse_tensor\n.").contains("`torch._utils._rebuild_sparse_tensor`"));
    assert!(fault(b"\x80\x02(icollections\nOrderedDict\n.").contains("refused"));
    assert!(fault(b"\x80\x02ccollections\nOrderedDict\n)\x81.").contains("instruction 0x81"));
    assert!(fault(b"\x80\x02X\x02\0\0\0os)R.").contains("it calls a string"));
    assert!(fault(b"\x80\x02ctorch\nFloatStorage\n)R.").contains("is called with 0 arguments"));
}

#[test]
fn only_mappings_to_tensors_are_state_dicts() {
    assert_eq!(state_dict(b"}."), Ok(vec![]));
    assert_eq!(state_dict(&entry(b"K\x01")), Ok(vec![]));
    assert_eq!(state_dict(&entry(b"N")), Ok(vec![]));
    assert!(fault(b"].").contains("holds a list instead of a mapping"));
    assert!(fault(b"}K\x01Ns.").contains("an integer as a key"));
    assert!(fault(&entry(b"]")).contains("its entry `w` is a list, not a tensor"));
    assert!(fault(&entry(b"X\x01\0\0\0v")).contains("its entry `w` is a string, not a tensor"));
}

#[test]
fn attributes_of_a_mapping_are_passed_over_and_of_nothing_else() {
    assert_eq!(state_dict(b"}}X\x09\0\0\0_metadata}sb."), Ok(vec![]));
    assert!(fault(&entry(&[&tensor(b"K\0")[..], b"}b"].concat())).contains("it sets attributes of a tensor"));
}

#[test]
fn lazily_negated_views_are_refused() {
    let negated = |metadata: &[u8]| {
        let mut pickle = tensor(b"K\0");
        pickle.truncate(pickle.len() - 2);
        entry(&[&pickle, metadata, b"tR"].concat())
    };
    assert!(state_dict(&negated(b"}")).is_ok());
    assert!(fault(&negated(b"}X\x03\0\0\0neg\x88s")).contains("lazily negated"));
}

#[test]
fn the_stack_cannot_run_empty() {
    for pickle in
        [&b"."[..], b"0", b"s", b"}s", b"(t0.", b"t", b"e", b"u", b"R", b"Q", b"b", b"a", b"2", b"q\0", b"}(s.", b"}(.", b"\x93", b"\x87"]
    {
        assert!(fault(pickle).contains("its pickle is broken"), "{pickle:?}");
    }
    assert!(fault(b"h\0").contains("it reads a memo that it never wrote"));
    assert!(fault(b"").contains("it ends in the middle"));
    assert!(fault(b"X\xff\xff\xff\xffabc").contains("it ends in the middle"));
    assert!(fault(b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffabc").contains("it ends in the middle"));
}

#[test]
fn nesting_cycles_and_doubling_are_harmless() {
    // A mapping that holds itself.
    assert!(fault(b"}q\0X\x01\0\0\0wh\0s.").contains("its entry `w` is a mapping"));
    // A million tuples, one in the other.
    assert!(fault(&entry(&[b")".to_vec(), b"\x85".repeat(1_000_000)].concat())).contains("is a tuple"));
    // A tuple of twice the last one, so 2^100000 in all.
    assert!(fault(&entry(&[b")".to_vec(), b"2\x86".repeat(100_000)].concat())).contains("is a tuple"));
}

#[test]
fn endless_pickles_are_cut() {
    assert!(fault(&b"(".repeat(MAX_INSTRUCTIONS + 1)).contains("more than 2000000 instructions"));
}

#[test]
fn random_programs_never_panic() {
    let words: &[&[u8]] = &[
        b"(",
        b"0",
        b"1",
        b"2",
        b"q\0",
        b"q\x01",
        b"h\0",
        b"h\x01",
        b"\x94",
        b"a",
        b"e",
        b"s",
        b"u",
        b"b",
        b"N",
        b"\x88",
        b"K\x02",
        b"J\xff\xff\xff\xff",
        b"X\x01\0\0\0w",
        b"X\x07\0\0\0storage",
        b")",
        b"\x85",
        b"\x86",
        b"\x87",
        b"t",
        b"]",
        b"}",
        b"ctorch\nFloatStorage\n",
        b"ctorch._utils\n_rebuild_tensor_v2\n",
        b"ctorch\nSize\n",
        b"ccollections\nOrderedDict\n",
        b"Q",
        b"R",
        b"\x93",
    ];
    let mut state = 88_172_645_463_325_252u64;
    for _ in 0..200_000 {
        let mut pickle = Vec::new();
        for _ in 0..24 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            pickle.extend_from_slice(words[(state >> 20) as usize % words.len()]);
        }
        pickle.push(b'.');
        drop(state_dict(&pickle));
    }
}
