//! Failures: told apart, handed out once, and never left behind.

use std::thread;

use layerscope_compute::{Backend, ComputeDtype, Error};
use layerscope_cuda::Cuda;
use layerscope_testing::made_up_states::Random;

use crate::filled;
use crate::products::LinearCase;
use crate::support::cards_of_every_dtype;

/// The card still does what it is asked.
fn works(cuda: &Cuda) {
    let mut stream = cuda.stream().expect("a stream");
    let buffer = filled(cuda, &mut stream, &[1.0, 2.0, 3.0]);
    assert_eq!(cuda.read(&mut stream, &buffer, 3), Ok(vec![1.0, 2.0, 3.0]));
}

#[test]
fn too_little_memory_is_told_from_other_failures_and_the_card_works_again() {
    for cuda in cards_of_every_dtype() {
        let too_much = cuda.buffer(1 << 45).map(|_| ()).expect_err("no card has that much memory");
        assert!(matches!(too_much, Error::OutOfMemory { .. }), "{too_much}");
        works(&cuda);
    }
}

/// An operation that finds no memory fails at the next wait, once; a smaller one succeeds.
#[test]
fn an_operation_without_memory_fails_and_a_smaller_one_does_not() {
    for cuda in cards_of_every_dtype().into_iter().filter(|cuda| cuda.dtype() == ComputeDtype::Bf16) {
        let layer = LinearCase::new(&mut Random::new(1), (1, 64, 1024), 0, None).layer(&cuda);
        let mut stream = cuda.stream().expect("a stream");
        let few = filled(&cuda, &mut stream, &vec![1.0; 64]);
        let mut out = cuda.inner_buffer(1024).expect("memory");
        cuda.apply_linear(&mut stream, &few, 1, &layer, None, &mut out);
        cuda.synchronize(&mut stream).expect("room for one row");
        let one = cuda.read(&mut stream, &out, 1024).expect("a row");

        let rows = 1 << 31;
        let mut large = cuda.inner_buffer(rows * 1024).expect("nothing is taken yet");
        cuda.apply_linear(&mut stream, &few, rows, &layer, None, &mut large);
        let failure = cuda.synchronize(&mut stream).expect_err("no card has that much memory");
        assert!(matches!(failure, Error::OutOfMemory { .. }), "{failure}");
        cuda.synchronize(&mut stream).expect("the failure comes out once");
        cuda.apply_linear(&mut stream, &few, 1, &layer, None, &mut out);
        assert_eq!(cuda.read(&mut stream, &out, 1024), Ok(one));
    }
}

#[test]
fn what_does_not_fit_in_a_buffer_is_a_failure_and_no_panic() {
    for cuda in cards_of_every_dtype() {
        let mut stream = cuda.stream().expect("a stream");
        let mut buffer = cuda.buffer(2).expect("memory");
        cuda.write(&mut stream, &mut buffer, &[1.0, 2.0, 3.0]);
        assert!(matches!(cuda.synchronize(&mut stream), Err(Error::Failed { .. })));
        assert!(matches!(cuda.read(&mut stream, &buffer, 3), Err(Error::Failed { .. })));
        works(&cuda);
    }
}

/// A thread that never worked with the card drops everything there is to drop, and no error is left behind.
#[test]
fn any_thread_may_drop_what_is_on_the_card() {
    for cuda in cards_of_every_dtype() {
        let mut stream = cuda.stream().expect("a stream");
        let layer = LinearCase::new(&mut Random::new(1), (1, 64, 24), 0, None).layer(&cuda);
        let x = filled(&cuda, &mut stream, &vec![1.0; 64]);
        let mut out = cuda.inner_buffer(24).expect("memory");
        cuda.apply_linear(&mut stream, &x, 1, &layer, None, &mut out);
        cuda.synchronize(&mut stream).expect("sound");
        let others = (cuda.indices(4).expect("memory"), cuda.offsets(4).expect("memory"));
        thread::spawn(move || drop((layer, x, out, others, stream))).join().expect("no panic");
        cuda.context().check_err().expect("nothing went wrong");
        works(&cuda);
    }
}
