//! A device that fails: its failure is kept in the stream, comes out once, and stops the forward pass.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use layerscope_compute::{
    Activation, AttentionShape, Backend, Error as DeviceError, Gather, HeadSegments, HostTensor, Latch, Memory, NormKind, NumberKind,
    Reference, Result as DeviceResult, RotaryRows,
};
use layerscope_error::ErrorKind;
use layerscope_model::{Batch, Blind, Error, Model, Transformer, forward_all};
use support::{Keep, fixtures};

/// The plain backend, whose operations, copies and allocations fail when their turn in one common count comes.
#[derive(Clone)]
struct Faulty {
    /// How many more steps succeed before one fails.
    sound: Arc<AtomicUsize>,
}

impl Faulty {
    fn sound() -> Faulty {
        Faulty { sound: Arc::new(AtomicUsize::new(usize::MAX)) }
    }

    /// The step after `steps` others fails, and only that one.
    fn fail_after(&self, steps: usize) {
        self.sound.store(steps, Ordering::Relaxed);
    }

    /// Whether the failure lies behind us.
    fn has_failed(&self) -> bool {
        self.sound.load(Ordering::Relaxed) > usize::MAX / 2
    }

    fn step(&self) -> DeviceResult<()> {
        match self.sound.fetch_sub(1, Ordering::Relaxed) {
            0 => Err(failure()),
            _ => Ok(()),
        }
    }

    fn allocate<T>(&self, made: DeviceResult<T>) -> DeviceResult<T> {
        self.step().map_err(|_| out_of_memory())?;
        made
    }

    fn run(&self, stream: &mut Latch, operation: impl FnOnce()) {
        stream.run(|| {
            self.step()?;
            operation();
            Ok(())
        });
    }
}

fn failure() -> DeviceError {
    DeviceError::Failed { device: "faulty".into(), problem: "an operation went wrong".into() }
}

fn out_of_memory() -> DeviceError {
    DeviceError::OutOfMemory { device: "faulty".into(), bytes: 4096 }
}

type Floats = Vec<f32>;
type Table = <Reference as Backend>::Table;
type Linear = <Reference as Backend>::Linear;
type Norm = <Reference as Backend>::Norm;

impl Backend for Faulty {
    type Buffer = Floats;
    type Indices = Vec<u32>;
    type Offsets = Vec<u32>;
    type Table = Table;
    type Linear = Linear;
    type Norm = Norm;
    type Attention = AttentionShape;
    type Stream = Latch;

    fn describe(&self) -> String {
        "faulty".to_owned()
    }
    fn stream(&self) -> DeviceResult<Latch> {
        self.allocate(Ok(Latch::default()))
    }
    fn synchronize(&self, stream: &mut Latch) -> DeviceResult<()> {
        stream.release()
    }
    fn buffer(&self, len: usize) -> DeviceResult<Floats> {
        self.allocate(Reference.buffer(len))
    }
    fn indices(&self, capacity: usize) -> DeviceResult<Vec<u32>> {
        self.allocate(Reference.indices(capacity))
    }
    fn offsets(&self, capacity: usize) -> DeviceResult<Vec<u32>> {
        self.allocate(Reference.offsets(capacity))
    }
    fn table(&self, rows: HostTensor) -> DeviceResult<Table> {
        self.allocate(Reference.table(rows))
    }
    fn linear(&self, weight: HostTensor, bias: Option<Floats>) -> DeviceResult<Linear> {
        self.allocate(Reference.linear(weight, bias))
    }
    fn norm(&self, kind: NormKind, epsilon: f32, width: usize, gamma: Option<Floats>, beta: Option<Floats>) -> DeviceResult<Norm> {
        self.allocate(Reference.norm(kind, epsilon, width, gamma, beta))
    }
    fn attention(&self, shape: AttentionShape) -> DeviceResult<AttentionShape> {
        self.allocate(Reference.attention(shape))
    }
    fn linear_memory(&self, numbers: usize, stored: NumberKind) -> Memory {
        Memory::on_device(stored.bytes() * numbers)
    }
    fn table_memory(&self, numbers: usize, stored: NumberKind) -> Memory {
        Memory::on_device(stored.bytes() * numbers)
    }
    fn buffer_memory(&self, len: usize) -> Memory {
        Memory::on_device(4 * len)
    }
    fn stream_memory(&self, _: usize, _: usize) -> Memory {
        Memory::default()
    }
    fn write(&self, stream: &mut Latch, buffer: &mut Floats, values: &[f32]) {
        self.run(stream, || Reference.write(&mut (), buffer, values));
    }
    fn write_indices(&self, stream: &mut Latch, indices: &mut Vec<u32>, values: &[u32]) {
        self.run(stream, || Reference.write_indices(&mut (), indices, values));
    }
    fn write_offsets(&self, stream: &mut Latch, offsets: &mut Vec<u32>, values: &[u32]) {
        self.run(stream, || Reference.write_offsets(&mut (), offsets, values));
    }
    fn read(&self, stream: &mut Latch, buffer: &Floats, len: usize) -> DeviceResult<Floats> {
        stream.run(|| self.step());
        stream.release()?;
        Reference.read(&mut (), buffer, len)
    }
    fn gather_add(&self, stream: &mut Latch, sources: &[Gather<Table, Vec<u32>>], rows: usize, scale: f32, out: &mut Floats) {
        self.run(stream, || Reference.gather_add(&mut (), sources, rows, scale, out));
    }
    fn add(&self, stream: &mut Latch, x: &mut Floats, y: &Floats, len: usize) {
        self.run(stream, || Reference.add(&mut (), x, y, len));
    }
    fn apply_norm(&self, stream: &mut Latch, x: &Floats, rows: usize, norm: &Norm, out: &mut Floats) {
        self.run(stream, || Reference.apply_norm(&mut (), x, rows, norm, out));
    }
    fn add_norm(&self, stream: &mut Latch, x: &mut Floats, y: &Floats, rows: usize, norm: &Norm, out: &mut Floats) {
        self.run(stream, || Reference.add_norm(&mut (), x, y, rows, norm, out));
    }
    fn norm_segments(&self, stream: &mut Latch, x: &mut Floats, rows: usize, segments: HeadSegments, norm: &Norm) {
        self.run(stream, || Reference.norm_segments(&mut (), x, rows, segments, norm));
    }
    fn apply_linear(&self, stream: &mut Latch, x: &Floats, rows: usize, layer: &Linear, activation: Option<Activation>, out: &mut Floats) {
        self.run(stream, || Reference.apply_linear(&mut (), x, rows, layer, activation, out));
    }
    fn gate(&self, stream: &mut Latch, x: &Floats, rows: usize, width: usize, activation: Activation, out: &mut Floats) {
        self.run(stream, || Reference.gate(&mut (), x, rows, width, activation, out));
    }
    fn rotate(&self, stream: &mut Latch, x: &mut Floats, rows: usize, segments: HeadSegments, angles: &RotaryRows<Floats>) {
        self.run(stream, || Reference.rotate(&mut (), x, rows, segments, angles));
    }
    fn apply_attention(&self, stream: &mut Latch, qkv: &Floats, offsets: &Vec<u32>, layer: &AttentionShape, out: &mut Floats) {
        self.run(stream, || Reference.apply_attention(&mut (), qkv, offsets, layer, out));
    }
}

fn load(backend: Faulty) -> Transformer<Faulty> {
    Model::open(&fixtures().join("gpt_neox/pythia")).expect("a fixture").load(backend).expect("weights")
}

fn batch() -> Batch {
    Batch::pack([[3u32, 1, 4], [1, 5, 9]])
}

#[test]
fn a_failed_operation_comes_out_at_the_next_synchronisation_and_only_there() {
    let backend = Faulty::sound();
    let (mut stream, mut x, y) = (backend.stream().unwrap(), backend.buffer(2).unwrap(), backend.buffer(2).unwrap());
    backend.write(&mut stream, &mut x, &[1.0, 2.0]);
    backend.fail_after(0);
    backend.add(&mut stream, &mut x, &y, 2);
    backend.write(&mut stream, &mut x, &[7.0, 8.0]);
    assert_eq!(backend.synchronize(&mut stream), Err(failure()));
    assert_eq!(backend.synchronize(&mut stream), Ok(()), "once");
    assert_eq!(backend.read(&mut stream, &x, 2), Ok(vec![1.0, 2.0]), "what came after the failure did nothing");
    backend.fail_after(0);
    backend.add(&mut stream, &mut x, &y, 2);
    assert_eq!(backend.read(&mut stream, &x, 2), Err(failure()), "a copy to the host waits, and hands out the failure");
    assert_eq!(backend.synchronize(&mut stream), Ok(()));
}

#[test]
fn a_forward_pass_returns_the_failure_of_any_of_its_operations_and_the_next_one_is_sound() {
    let backend = Faulty::sound();
    let transformer = load(backend.clone());
    let mut space = transformer.workspace(6).unwrap();
    let mut expected = Keep::default();
    transformer.forward(&batch(), &mut space, &mut expected).expect("sound");
    for steps in 0.. {
        backend.fail_after(steps);
        let outcome = transformer.forward(&batch(), &mut space, &mut Blind);
        if !backend.has_failed() {
            assert!(outcome.is_ok() && steps > 20, "there are {steps} operations");
            break;
        }
        let error = outcome.expect_err("one operation failed");
        assert!(matches!(&error, Error::Device(device) if *device == failure()), "{error}");
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Io, "faulty: an operation went wrong"));
        let mut keep = Keep::default();
        transformer.forward(&batch(), &mut space, &mut keep).expect("the failure is not blamed on the next batch");
        assert_eq!(keep.0, expected.0);
    }
}

#[test]
fn an_observer_that_copies_states_learns_of_the_failure() {
    let backend = Faulty::sound();
    let transformer = load(backend.clone());
    let mut space = transformer.workspace(6).unwrap();
    backend.fail_after(12);
    let mut keep = Keep::default();
    let error = transformer.forward(&batch(), &mut space, &mut keep).expect_err("one operation failed");
    assert!(matches!(error, Error::Device(_)) && keep.0.len() < transformer.points().len() * 2);
}

#[test]
fn what_does_not_fit_the_device_is_refused() {
    let backend = Faulty::sound();
    backend.fail_after(5);
    let model = Model::open(&fixtures().join("gpt_neox/pythia")).expect("a fixture");
    let error = model.load(backend.clone()).map(drop).expect_err("no room for a weight");
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Refused, "faulty: not enough memory for 4096 bytes more"));
    let transformer = load(backend.clone());
    backend.fail_after(5);
    assert_eq!(transformer.workspace(6).map(drop).expect_err("no room for a buffer").kind(), ErrorKind::Refused);
    backend.fail_after(5);
    assert_eq!(forward_all(&transformer, &[batch()], 1, |_| Blind).map(drop).expect_err("the same").kind(), ErrorKind::Refused);
}
