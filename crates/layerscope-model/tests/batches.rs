//! What the model refuses to read, and how batches are cut.

mod support;

use layerscope_compute::Cpu;
use layerscope_model::{Batch, Blind, Model, Transformer, forward_all};
use support::fixtures;

fn transformer() -> Transformer<Cpu> {
    Model::open(&fixtures().join("bert/base")).expect("a fixture").load(Cpu::new()).expect("weights")
}

fn refusal(sequences: &[Vec<u32>]) -> String {
    forward_all(&transformer(), &[Batch::pack(sequences)], 1, |_| Blind).map(drop).expect_err("refused").to_string()
}

#[test]
fn ids_outside_the_vocabulary_are_refused() {
    let line = refusal(&[vec![1, 2], vec![3, 80, 4]]);
    assert_eq!(line, "sequence 1, token 1: id 80 is outside the model's vocabulary of 80: is this the model's own tokenizer?");
}

#[test]
fn sequences_longer_than_the_positions_are_refused() {
    let line = refusal(&[vec![1; 48], vec![1; 49]]);
    assert_eq!(line, "sequence 1 has 49 tokens, the model's positions end at 48: use shorter windows");
}

#[test]
fn the_first_error_stops_all_workers() {
    let mut batches = vec![Batch::pack([[1u32, 2, 3]]); 50];
    batches[20] = Batch::pack([[1u32, 99, 3]]);
    assert!(forward_all(&transformer(), &batches, 3, |_| Blind).map(drop).expect_err("refused").to_string().contains("id 99"));
}

#[test]
fn empty_batches_and_sequences_do_no_harm() {
    let empty: [&[u32]; 0] = [];
    let with_empty_sequence: [&[u32]; 3] = [&[1, 2], &[], &[3]];
    let batches = [Batch::pack(empty), Batch::pack(with_empty_sequence)];
    forward_all(&transformer(), &batches, 2, |_| Blind).expect("nothing to refuse");
}

#[test]
fn batches_are_cut_by_order_and_size_alone() {
    let sequences: Vec<Vec<u32>> = [3, 4, 9, 1, 1, 2].iter().map(|&length| vec![0; length]).collect();
    let sizes = |tokens| Batch::cut(&sequences, tokens).iter().map(Batch::tokens).collect::<Vec<_>>();
    assert_eq!(sizes(7), [7, 9, 4], "a sequence longer than the limit is a batch of its own");
    assert_eq!(sizes(100), [20]);
    assert_eq!(sizes(1), [3, 4, 9, 1, 1, 2]);
}
