//! Every family's fixtures on a card against the reference library, at every point and in every kind of numbers.
//!
//! Without a card these tests say so and pass.

#[path = "../../layerscope-model/tests/support/mod.rs"]
mod models;
mod support;

use std::collections::BTreeMap;

use layerscope_compute::ComputeDtype;
use layerscope_model::Model;
use layerscope_model::families::FAMILIES;
use models::{Golden, states_of, variants};
use support::{Deviation, cards_of_every_dtype, deviation, same_bits};

/// What is allowed of a layer's root mean square; half precision is measured, and must be finite.
fn allowed(dtype: ComputeDtype) -> Deviation {
    match dtype {
        ComputeDtype::F32 => Deviation { largest: 1e-5, rms: 1e-5 },
        ComputeDtype::F32x3 => Deviation { largest: 2e-4, rms: 3e-5 },
        ComputeDtype::Tf32 | ComputeDtype::F16 => Deviation { largest: 5e-2, rms: 1e-2 },
        ComputeDtype::Bf16 => Deviation { largest: 5e-1, rms: 1e-1 },
    }
}

#[test]
fn every_family_equals_the_reference_library_at_every_point() {
    let mut failures = Vec::new();
    for cuda in cards_of_every_dtype() {
        let dtype = cuda.dtype();
        let mut worst: BTreeMap<&str, Deviation> = BTreeMap::new();
        for family in FAMILIES {
            let name = family.model_types[0];
            for variant in variants(name) {
                let golden = Golden::open(&variant);
                let transformer = Model::open(&variant).expect("sound").load(cuda.clone()).unwrap_or_else(|error| panic!("{error}"));
                let states = states_of(&transformer, &golden.sequences);
                for sequence in 0..golden.sequences.len() {
                    for at in transformer.points() {
                        let reference = golden.states(at, sequence).expect("a golden state");
                        let found = deviation(&states[&(at, sequence)], &reference);
                        let family = worst.entry(name).or_default();
                        *family = Deviation { largest: family.largest.max(found.largest), rms: family.rms.max(found.rms) };
                        let most = allowed(dtype);
                        if !(found.largest <= most.largest && found.rms <= most.rms) {
                            failures.push(format!("{} {} {at} sequence {sequence}: {found:?}", dtype.name(), variant.display()));
                        }
                    }
                }
            }
        }
        for (family, Deviation { largest, rms }) in worst {
            println!("{:6} {family:14} largest {largest:.1e}  rms {rms:.1e}", dtype.name());
        }
    }
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
}

/// A sentence alone, batched, and elsewhere in the batch; and twice.
#[test]
fn the_bits_of_a_state_do_not_depend_on_its_batch() {
    let mut failures = Vec::new();
    for cuda in cards_of_every_dtype() {
        for variant in FAMILIES.iter().flat_map(|family| variants(family.model_types[0])) {
            let golden = Golden::open(&variant);
            let transformer = Model::open(&variant).expect("sound").load(cuda.clone()).unwrap_or_else(|error| panic!("{error}"));
            let together = states_of(&transformer, &golden.sequences);
            let again = states_of(&transformer, &golden.sequences);
            let last = golden.sequences.len() - 1;
            let reversed: Vec<&Vec<u32>> = golden.sequences.iter().rev().collect();
            let reversed = states_of(&transformer, &reversed);
            for (sequence, ids) in golden.sequences.iter().enumerate() {
                let alone = states_of(&transformer, &[ids]);
                for at in transformer.points() {
                    let state = &together[&(at, sequence)];
                    let others = [&again[&(at, sequence)], &reversed[&(at, last - sequence)], &alone[&(at, 0)]];
                    if !others.iter().all(|other| same_bits(state, other)) {
                        failures.push(format!("{} {} {at} sequence {sequence}", cuda.dtype().name(), variant.display()));
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
}
