//! Every request to an object store fails once, or is the last one that is answered.
//!
//! `LAYERSCOPE_FAULTS=all` tries every request in every way; otherwise one way at every so many-th. Every second repetition is that of
//! another machine, which knows nothing but the store.

use layerscope_testing::store_server::Fault;

use super::calls::is_thorough;
use super::trial::{Trial, stored_merge, stored_overwrite, stored_run};

/// Once: the server is overloaded, refuses, cuts the answer short, does what it was asked and does not say so. For good: it refuses.
const KINDS: [(Fault, bool); 5] = [
    (Fault::Status(503), false),
    (Fault::Status(403), false),
    (Fault::Cut(40), false),
    (Fault::Unanswered, false),
    (Fault::Status(403), true),
];

/// Requests from one trial to the next.
const STRIDE: usize = 5;

/// Faults at one request after another until the command makes no more.
fn every_request(trial: &Trial) {
    let store = trial.store.as_ref().expect("a store");
    let stride = if is_thorough() { 1 } else { STRIDE };
    let mut faults = 0;
    'requests: for at in (1..).step_by(stride) {
        let kind = KINDS[at / stride % KINDS.len()];
        let kinds: &[(Fault, bool)] = if stride == 1 { &KINDS } else { &[kind] };
        for (number, (fault, for_good)) in kinds.iter().enumerate() {
            trial.reset();
            store.requests();
            let count = if *for_good { 10_000 } else { 1 };
            store.faults(&[vec![Fault::None; at - 1], vec![*fault; count]].concat());
            let disturbed = trial.run(&[]);
            store.faults(&[]);
            if store.requests().len() < at {
                break 'requests;
            }
            faults += 1;
            let what = format!("{fault:?} at request {at}{} of {}", if *for_good { " and later" } else { "" }, trial.name);
            trial.check(&disturbed, &what, || {
                if (at + number).is_multiple_of(2) {
                    trial.elsewhere();
                }
                trial.run(&[])
            });
        }
    }
    println!("{}: {faults} faults", trial.name);
    assert!(faults > 3);
}

#[test]
fn a_run_in_a_store_survives_every_fault_of_the_store() {
    every_request(&stored_run("asked"));
}

#[test]
fn a_run_in_a_store_that_is_overwritten_survives_every_fault_of_the_store() {
    every_request(&stored_overwrite("asked-overwrite"));
}

#[test]
fn a_merge_in_a_store_survives_every_fault_of_the_store() {
    every_request(&stored_merge("asked-merge"));
}
