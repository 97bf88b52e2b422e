//! The hash sample: the same states whatever the order, the batches and the shards.

use std::borrow::Cow;

use layerscope_stats::sketch::{HashSample, Mergeable, SampleKey, TokenSamples, sample_hash};
use layerscope_testing::made_up_states::Random;

const DIM: usize = 3;

fn keys() -> Vec<(u64, SampleKey)> {
    let key = |at: u64| SampleKey { document: at / 10, position: (at % 10) as u32, token: (at % 7) as u32 };
    (0..2000).map(|at| (sample_hash(5, key(at).document, key(at).position), key(at))).collect()
}

fn state(key: SampleKey) -> [f32; DIM] {
    [key.document as f32, key.position as f32, key.token as f32]
}

fn sample_of(keys: &[(u64, SampleKey)], k: usize) -> HashSample<'static> {
    let mut sample = HashSample::new(k, DIM);
    keys.iter().for_each(|&(hash, key)| sample.offer(hash, key, &state(key)).unwrap());
    sample
}

#[test]
fn the_hash_never_changes() {
    // From a separate implementation, in Python.
    assert_eq!(sample_hash(0, 0, 0), 0x2382_75bc_38fc_be91);
    assert_eq!(sample_hash(0, 0, 1), 0x2f32_a784_96c6_7c60);
    assert_eq!(sample_hash(0, 1, 0), 0x44e5_b981_00c6_7fb0);
    assert_eq!(sample_hash(1, 0, 0), 0xb18a_02f4_6d8d_86c3);
    assert_eq!(sample_hash(42, 123_456_789_012, 511), 0x079a_bcf3_bf67_97d5);
}

#[test]
fn hashes_are_spread_evenly() {
    let mut counts = [0; 16];
    keys().iter().for_each(|(hash, _)| counts[(hash >> 60) as usize] += 1);
    assert!(counts.iter().all(|count| (80..170).contains(count)), "{counts:?}");
}

#[test]
fn the_smallest_hashes_are_kept_in_their_order() {
    let mut sorted = keys();
    sorted.sort_unstable();
    let sample = sample_of(&keys(), 100);
    assert_eq!(sample.iter().map(|kept| (kept.hash, kept.key)).collect::<Vec<_>>(), sorted[..100]);
    assert!(sample.iter().all(|kept| kept.state == state(kept.key)));
}

#[test]
fn any_partition_gives_the_identical_sample() {
    let whole = sample_of(&keys(), 100);
    let mut random = Random::new(1);
    for shards in [2, 3, 11] {
        let mut parts = vec![Vec::new(); shards];
        keys().into_iter().for_each(|key| parts[random.below(shards)].push(key));
        parts.iter_mut().for_each(|part| part.reverse());
        let mut merged = HashSample::new(100, DIM);
        parts.iter().for_each(|part| merged.merge(&sample_of(part, 100)).unwrap());
        assert_eq!(merged, whole);
        assert_eq!(merged.encode(), whole.encode());
        // Seen twice is seen once.
        merged.merge(&whole).unwrap();
        assert_eq!(merged, whole);
    }
}

#[test]
fn ties_go_by_document_and_position() {
    let keys: Vec<(u64, SampleKey)> = keys().into_iter().map(|(_, key)| (7, key)).rev().collect();
    let sample = sample_of(&keys, 12);
    let kept: Vec<(u64, u32)> = sample.iter().map(|kept| (kept.key.document, kept.key.position)).collect();
    assert_eq!(kept, (0..12).map(|at| (at / 10, (at % 10) as u32)).collect::<Vec<_>>());
}

#[test]
fn states_of_somebody_else_are_copied_once_the_sample_changes() {
    let states: Vec<f32> = (0..5).flat_map(|at| state(keys()[at].1)).collect();
    let rows = [4, 0, 2, 3].map(|row| (keys()[row].0, keys()[row].1, row));
    let mut some = HashSample::of_rows(rows, Cow::Borrowed(&states), DIM);
    assert_eq!((some.len(), some.capacity()), (4, 4));
    assert!(some.iter().all(|kept| kept.state == state(kept.key)));
    let typical = some.up_to_norm(2.5);
    assert!(typical.iter().map(|kept| kept.key).eq(some.iter().map(|kept| kept.key).filter(|key| key.position.max(key.token) < 2)));
    let before = states.clone();
    let least = (0, SampleKey { document: 9, position: 9, token: 9 });
    some.offer(least.0, least.1, &state(least.1)).unwrap();
    assert!(some.len() == 4 && some.iter().all(|kept| kept.state == state(kept.key)));
    assert_eq!(some.iter().next().map(|kept| kept.key), Some(least.1));
    assert_eq!(states, before);
}

#[test]
fn which_states_are_kept_is_known_before_there_are_any() {
    let mut ids = HashSample::new(50, 0);
    keys().iter().for_each(|&(hash, key)| ids.offer(hash, key, &[]).unwrap());
    let sample = sample_of(&keys(), 50);
    assert!(ids.iter().map(|kept| kept.key).eq(sample.iter().map(|kept| kept.key)));
}

#[test]
fn samples_survive_storage() {
    let sample = sample_of(&keys(), 64);
    assert_eq!(HashSample::decode(&mut sample.encode()).unwrap(), sample);
    let few = sample_of(&keys()[..5], 64);
    let mut decoded = HashSample::decode(&mut few.encode()).unwrap();
    keys().iter().for_each(|&(hash, key)| decoded.offer(hash, key, &state(key)).unwrap());
    assert_eq!(decoded, sample);
    assert!(HashSample::new(0, DIM).offer(1, keys()[0].1, &[0.0; DIM]).is_ok());
    assert!(HashSample::new(1, DIM).offer(1, keys()[0].1, &[0.0]).is_err());
}

#[test]
fn chosen_tokens_have_samples_of_their_own() {
    let of = |keys: &[(u64, SampleKey)]| {
        let mut samples = TokenSamples::new([2, 5], 20, DIM);
        keys.iter().for_each(|&(hash, key)| samples.offer(key.token, hash, key, &state(key)).unwrap());
        samples
    };
    let whole = of(&keys());
    let keys = keys();
    let (head, tail) = keys.split_at(700);
    let mut merged = of(tail);
    merged.merge(&of(head)).unwrap();
    assert_eq!(merged, whole);
    assert_eq!(TokenSamples::decode(&mut whole.encode()).unwrap(), whole);
    for (token, sample) in whole.iter() {
        assert_eq!(sample.len(), 20);
        assert!(sample.iter().all(|kept| kept.key.token == token));
    }
    assert!(whole.get(3).is_none());
    assert!(merged.merge(&TokenSamples::new([2], 20, DIM)).is_err());
    assert!(merged.merge(&TokenSamples::new([2, 6], 20, DIM)).is_err());
}
