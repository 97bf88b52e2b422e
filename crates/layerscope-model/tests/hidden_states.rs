//! Every family's fixtures against the reference library, at every point; and what a state must not depend on.

mod support;

use std::path::Path;

use layerscope_compute::cpu::{Bf16Kernel, Isa};
use layerscope_compute::{Cpu, Reference};
use layerscope_model::families::FAMILIES;
use layerscope_model::{Model, Point, Transformer};
use support::{Golden, states_of, variants};

/// Largest difference, as a share of the layer's root mean square.
const TOLERANCE: f64 = 1e-5;
/// The same of products in bfloat16, whose operands have 8 bits.
const BF16_TOLERANCE: f64 = 0.1;

fn load(variant: &Path) -> Transformer<Cpu> {
    let model = Model::open(variant).unwrap_or_else(|error| panic!("{error}"));
    assert!(model.unknown_keys.is_empty(), "{}: unknown keys {:?}", variant.display(), model.unknown_keys);
    model.load(Cpu::new()).unwrap_or_else(|error| panic!("{error}"))
}

fn all_variants() -> Vec<std::path::PathBuf> {
    FAMILIES.iter().flat_map(|family| variants(family.model_types[0])).collect()
}

/// max |a - b| / rms(b).
fn deviation(ours: &[f32], reference: &[f32]) -> f64 {
    assert_eq!(ours.len(), reference.len());
    let rms = (reference.iter().map(|&x| (x as f64).powi(2)).sum::<f64>() / reference.len() as f64).sqrt();
    let worst =
        ours.iter().zip(reference).map(|(&a, &b)| (a as f64 - b as f64).abs()).fold(0.0, |worst, x| if x <= worst { worst } else { x });
    worst / rms
}

#[test]
fn every_family_equals_the_reference_library_at_every_point() {
    let mut failures = Vec::new();
    let mut compared = 0;
    for family in FAMILIES {
        let variants = variants(family.model_types[0]);
        assert!(!variants.is_empty(), "{} has no fixture", family.model_types[0]);
        for variant in variants {
            let golden = Golden::open(&variant);
            let transformer = load(&variant);
            let states = states_of(&transformer, &golden.sequences);
            for sequence in 0..golden.sequences.len() {
                for at in transformer.points() {
                    let reference = golden.states(at, sequence).unwrap_or_else(|| panic!("{}: no golden {at}", variant.display()));
                    let deviation = deviation(&states[&(at, sequence)], &reference);
                    compared += 1;
                    if deviation.is_nan() || deviation > TOLERANCE {
                        failures.push(format!("{} {at} sequence {sequence}: {deviation:.1e}", variant.display()));
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} of {compared} differ:\n{}", failures.len(), failures.join("\n"));
}

/// The library's last hidden state of these went through the projection.
#[test]
fn the_last_state_of_a_model_with_a_projection_has_a_width_of_its_own() {
    for (name, width, before) in [("350m", 16, Point::Block(2)), ("projected-pre-norm", 32, Point::FinalNorm)] {
        let variant = support::fixtures().join("opt").join(name);
        let golden = Golden::open(&variant);
        let transformer = load(&variant);
        let spec = transformer.spec();
        let points = transformer.points();
        assert_eq!(points[points.len() - 2..], [before, Point::Projected], "{name}");
        assert_eq!((spec.hidden_state(before), spec.hidden_state(Point::Projected)), (None, Some(2)), "{name}");
        assert_eq!((spec.width_at(before), spec.width_at(Point::Projected)), (24, width), "{name}");
        let states = states_of(&transformer, &golden.sequences);
        for (sequence, ids) in golden.sequences.iter().enumerate() {
            let reference = golden.states(Point::Projected, sequence).expect("the library's last state");
            assert_eq!(reference.len(), ids.len() * width, "{name}");
            assert!(deviation(&states[&(Point::Projected, sequence)], &reference) <= TOLERANCE, "{name}");
        }
    }
}

#[test]
fn a_sequence_has_the_same_bits_alone_and_in_any_company() {
    for variant in all_variants() {
        let transformer = load(&variant);
        let sequences = Golden::open(&variant).sequences;
        let alone: Vec<_> = sequences.iter().map(|sequence| states_of(&transformer, &[sequence])).collect();
        let last = sequences.len() - 1;
        let orders: [Vec<usize>; 4] =
            [(0..=last).collect(), (0..=last).rev().collect(), vec![last, 0], [last; 7].into_iter().chain([1, 0, 1]).collect()];
        for order in orders {
            let together = states_of(&transformer, &order.iter().map(|&s| &sequences[s]).collect::<Vec<_>>());
            for ((at, place), states) in &together {
                let same = alone[order[*place]][&(*at, 0)].iter().zip(states).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{} {at}: sequence {} depends on its batch {order:?}", variant.display(), order[*place]);
            }
        }
    }
}

/// Every kernel of bfloat16 stays near f32, and a state's bits do not depend on its batch.
#[test]
fn products_in_bf16_are_near_those_in_f32_and_no_batch_changes_a_bit() {
    for variant in all_variants() {
        let sequences = Golden::open(&variant).sequences;
        let model = Model::open(&variant).expect("a fixture");
        let wide = states_of(&model.load(Cpu::new()).expect("weights"), &sequences);
        for kernel in Bf16Kernel::available() {
            let narrow = model.load(Cpu::with_bf16(kernel)).expect("weights");
            for (sequence, ids) in sequences.iter().enumerate() {
                let together = states_of(&narrow, &[ids, &sequences[0], ids, ids, ids, ids, ids, ids, ids]);
                for ((at, place), states) in states_of(&narrow, &[ids]) {
                    let same = |others: &[f32]| states.iter().zip(others).all(|(a, b)| a.to_bits() == b.to_bits());
                    assert!([0, 2, 8].iter().all(|other| same(&together[&(at, *other)])), "{} {at} {kernel}", variant.display());
                    let deviation = deviation(&states, &wide[&(at, sequence)]);
                    assert!(place == 0 && deviation < BF16_TOLERANCE, "{} {at} {kernel}: {deviation}", variant.display());
                }
            }
        }
    }
}

#[test]
fn all_instruction_sets_give_the_same_bits() {
    for variant in all_variants() {
        let sequences = Golden::open(&variant).sequences;
        let model = Model::open(&variant).expect("a fixture");
        let states = |isa| states_of(&model.load(Cpu::with_isa(isa)).expect("weights"), &sequences);
        let portable = states(Isa::portable());
        for isa in Isa::available() {
            let same = states(isa).iter().zip(&portable).all(|((_, a), (_, b))| a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits()));
            assert!(same, "{}: {isa:?} differs", variant.display());
        }
    }
}

#[test]
fn the_fast_backend_agrees_with_the_plain_one() {
    for variant in all_variants() {
        let sequences = Golden::open(&variant).sequences;
        let model = Model::open(&variant).expect("a fixture");
        let plain = states_of(&model.load(Reference).expect("weights"), &sequences);
        for (place, states) in states_of(&model.load(Cpu::new()).expect("weights"), &sequences) {
            let deviation = deviation(&states, &plain[&place]);
            assert!(deviation <= TOLERANCE, "{} {place:?}: {deviation:.1e}", variant.display());
        }
    }
}
