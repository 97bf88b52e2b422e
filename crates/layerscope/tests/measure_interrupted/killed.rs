//! Killed at any moment.

use std::time::Duration;

use super::case::{Case, saved_states, wait_for};
use crate::support::measure::{end, measured, random};

#[test]
fn killed_at_twenty_random_moments() {
    killed_at_random(Case::shared("killed"), "");
}

#[test]
fn killed_at_twenty_random_moments_in_block_order() {
    killed_at_random(Case::shared("killed-blocks"), "--order block");
}

#[test]
fn killed_at_twenty_random_moments_in_several_stretches() {
    killed_at_random(Case::shared("killed-stretches"), "--order block --stretch-tokens 9000");
}

/// The whole run goes batch by batch; the interrupted ones as `order` says.
fn killed_at_random(mut case: Case, order: &str) {
    // Every sketch there is.
    case.flags = case.flags.replace("--measures norm,cosine", "--measures all").replace("--tokens none", "--token-states 20");
    case.whole = case.folder.join("whole");
    measured(&case.model, &case.corpus, &case.whole, &case.flags);
    case.flags = format!("{} {order}", case.flags);
    let (mut kills, mut after_checkpoint, mut finished) = (0, 0, 0);
    for round in 0.. {
        let out = case.folder.join(format!("run-{round}"));
        // Every run is killed up to five times, then it may end.
        for leg in 0..6 {
            let draw = random(99, kills + 100 * round);
            let before = saved_states(&out);
            let mut child = case.start(&out);
            if leg < 5 && kills < 20 {
                if !draw.is_multiple_of(4) {
                    wait_for(&mut child, || saved_states(&out) != before);
                }
                std::thread::sleep(Duration::from_millis(draw / 4 % 200));
                let _ = child.kill();
            }
            let outcome = end(child);
            if outcome.status == 0 {
                finished += 1;
                case.same(&out);
                break;
            }
            assert_eq!(outcome.status, -9, "{}", outcome.stderr);
            kills += 1;
            after_checkpoint += usize::from(!saved_states(&out).is_empty());
        }
        if kills == 20 {
            break;
        }
    }
    println!("{kills} kills, {after_checkpoint} after a checkpoint, {finished} runs");
    assert!(after_checkpoint >= 10, "only {after_checkpoint} of {kills} kills came after a checkpoint");
}

#[test]
fn killed_between_state_and_manifest() {
    let case = Case::new("finishing", 60, 100);
    let out = case.folder.join("out");
    let keeping = format!("{} --keep-work", case.flags);
    measured(&case.model, &case.corpus, &out, &keeping);
    // Nothing but the state is there.
    for name in ["manifest.json", "layers.parquet", "groups.parquet", "components.parquet"] {
        std::fs::remove_file(out.join(name)).expect("removed");
    }
    case.resumed(&out);
    // The sample is there, the state is not.
    let out = case.folder.join("earlier");
    measured(&case.model, &case.corpus, &out, &keeping);
    for name in ["manifest.json", "layers.parquet", "groups.parquet", "components.parquet", "state.safetensors"] {
        std::fs::remove_file(out.join(name)).expect("removed");
    }
    case.resumed(&out);
}
