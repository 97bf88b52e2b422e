//! Linear layers: a product, and what follows it.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream as RawStream};
use layerscope_compute::{Activation, HostTensor, NumberKind, Result};

use crate::buffer::Buffer;
use crate::device::Cuda;
use crate::launch::Word;
use crate::operand::OperandKind;
use crate::products::{Plan, Shape, WORKSPACE};
use crate::stream::{CudaStream, Scratch, Work};
use crate::weights::Stored;

/// A linear layer's weight, as products take it, and its bias.
pub struct CudaLinear {
    weight: Weight,
    bias: Option<CudaSlice<f32>>,
    inputs: usize,
    outputs: usize,
    plain: Plan,
    /// With the bias; None where there is none, or cuBLASLt cannot add it.
    biased: Option<Plan>,
}

enum Weight {
    Floats(CudaSlice<f32>),
    Halves(CudaSlice<u16>),
}

impl Weight {
    fn word(&self) -> Word {
        match self {
            Weight::Floats(numbers) => numbers.into(),
            Weight::Halves(numbers) => numbers.into(),
        }
    }

    /// As it is stored where that will do, or packed.
    fn new(cuda: &Cuda, stored: Stored, rows: usize, width: usize, parts: usize) -> Result<Weight> {
        let kind = cuda.operand();
        let padded = kind.padded(width);
        match (stored, kind) {
            (Stored::Floats(numbers), OperandKind::Floats) => Ok(Weight::Floats(numbers)),
            (Stored::Halves(numbers, NumberKind::Bf16), OperandKind::Bf16) if padded == width => Ok(Weight::Halves(numbers)),
            (Stored::Halves(numbers, NumberKind::F16), OperandKind::F16) if padded == width => Ok(Weight::Halves(numbers)),
            (stored, OperandKind::Floats) => {
                let packed = cuda.allocate(cuda.keeper(), rows * width)?;
                Weight::pack(cuda, &stored, Word::from(&packed), (rows, width), 1)?;
                Ok(Weight::Floats(packed))
            }
            (stored, _) => {
                let packed = cuda.allocate(cuda.keeper(), rows * parts * padded)?;
                Weight::pack(cuda, &stored, Word::from(&packed), (rows, width), parts)?;
                Ok(Weight::Halves(packed))
            }
        }
    }

    fn pack(cuda: &Cuda, stored: &Stored, packed: Word, size: (usize, usize), parts: usize) -> Result<()> {
        cuda.activations().pack_weight(cuda, cuda.keeper(), (stored.word(), stored.code()), packed, size, parts)?;
        cuda.keep(0, |_| Ok(()))
    }
}

impl CudaLinear {
    pub(crate) fn new(cuda: &Cuda, weight: HostTensor, bias: Option<Vec<f32>>) -> Result<CudaLinear> {
        let (outputs, inputs) = (weight.rows, weight.columns);
        let stored = Stored::upload(cuda, &weight.values)?;
        let kind = cuda.operand();
        let parts = kind.weight_parts(stored.kind());
        let weight = Weight::new(cuda, stored, outputs, inputs, parts)?;
        let bias = bias.map(|bias| cuda.upload(&bias)).transpose()?;
        let padded = kind.padded(inputs);
        let shape = Shape { outputs, inner: parts.max(1) * padded, stride: kind.parts().max(1) * padded };
        let plain = cuda.products().plan(shape, None).map_err(|error| cuda.error(error))?;
        let biased = bias.as_ref().and_then(|bias| cuda.products().plan(shape, Some(bias)).ok());
        Ok(CudaLinear { weight, bias, inputs, outputs, plain, biased })
    }

    /// `out = activation(x W^T + b)`.
    pub(crate) fn apply(
        &self,
        cuda: &Cuda,
        stream: &mut CudaStream,
        x: &Buffer,
        rows: usize,
        activation: Option<Activation>,
        out: &mut Buffer,
    ) {
        if cuda.operand() != OperandKind::Floats && x.operand(rows, self.inputs).is_none() {
            stream.run_with(Work::Activation, |raw, scratch| self.convert(cuda, raw, scratch, x, rows));
        }
        let plan = if activation.is_none() { self.biased.as_ref() } else { None };
        stream.run_with(Work::Product, |raw, scratch| {
            let operand = match cuda.operand() {
                OperandKind::Floats => Word::from(x.current_floats(cuda, raw)?),
                _ => x.operand(rows, self.inputs).or(scratch.operand.as_ref()).into(),
            };
            let workspace = match &mut scratch.products {
                Some(workspace) => workspace,
                empty => empty.insert(cuda.allocate(raw, WORKSPACE)?),
            };
            let factors = (self.weight.word(), operand, Word::from(out.floats_to_write()));
            cuda.products().multiply(cuda, raw, workspace, plan.unwrap_or(&self.plain), factors, rows)
        });
        let size = (rows, self.outputs);
        match (activation, &self.bias) {
            (Some(activation), bias) => {
                stream.run(Work::Activation, |raw| cuda.activations().activate(cuda, raw, size, bias.as_ref(), activation, out))
            }
            (None, Some(bias)) if plan.is_none() => {
                stream.run(Work::Activation, |raw| cuda.activations().add_bias(cuda, raw, size, bias, out.floats()));
            }
            _ => {}
        }
    }

    /// Rows that no kernel has written as an operand.
    fn convert(&self, cuda: &Cuda, raw: &Arc<RawStream>, scratch: &mut Scratch, x: &Buffer, rows: usize) -> Result<()> {
        let floats = x.current_floats(cuda, raw)?;
        let needed = rows * cuda.operand().parts() * cuda.operand().padded(self.inputs);
        let operand = match &mut scratch.operand {
            Some(operand) if operand.len() >= needed => operand,
            small => {
                *small = None;
                small.insert(cuda.allocate(raw, needed)?)
            }
        };
        cuda.activations().convert(cuda, raw, (rows, self.inputs), floats, operand)
    }
}
