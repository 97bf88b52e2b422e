//! Linear layers: a product, and what follows it.

use cudarc::driver::CudaSlice;
use layerscope_compute::{Activation, HostTensor, NumberKind, Result};

use crate::buffer::Buffer;
use crate::device::{Bound, Cuda};
use crate::launch::Word;
use crate::operand::OperandKind;
use crate::products::{Plan, Shape, WORKSPACE};
use crate::stream::{CudaStream, Work};
use crate::weights::Stored;

/// A linear layer's weight, as products take it, and its bias.
pub struct CudaLinear {
    _bound: Bound,
    weight: Weight,
    bias: Option<CudaSlice<f32>>,
    /// The bias in the numbers of a result that is not floats.
    _half_bias: Option<CudaSlice<u16>>,
    inputs: usize,
    outputs: usize,
    to_floats: Plans,
    /// To 16-bit numbers, where the layer can be asked for them.
    to_halves: Option<Plans>,
}

/// One product, with and without the bias.
struct Plans {
    plain: Plan,
    /// None where there is no bias, or cuBLASLt cannot add it.
    biased: Option<Plan>,
}

impl Plans {
    fn new(cuda: &Cuda, shape: Shape, bias: Option<Word>) -> Result<Plans> {
        let plain = cuda.products().plan(cuda, shape, None)?;
        let biased = bias.and_then(|bias| cuda.products().plan(cuda, shape, Some(bias)).ok());
        Ok(Plans { plain, biased })
    }
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
        let shape = Shape { outputs, inner: parts.max(1) * padded, stride: kind.parts().max(1) * padded, to_halves: false };
        let to_floats = Plans::new(cuda, shape, bias.as_ref().map(Word::from))?;
        let (mut half_bias, mut to_halves) = (None, None);
        if kind.is_halves() && kind.padded(outputs) == outputs {
            half_bias = bias.as_ref().map(|bias| cuda.activations().narrow(cuda, bias)).transpose()?;
            to_halves = Plans::new(cuda, Shape { to_halves: true, ..shape }, half_bias.as_ref().map(Word::from)).ok();
        }
        Ok(CudaLinear { _bound: cuda.bound(), weight, bias, _half_bias: half_bias, inputs, outputs, to_floats, to_halves })
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
            stream.run_with(Work::Activation, |raw, scratch| scratch.convert(cuda, raw, x, rows, self.inputs));
        }
        let halves = self.to_halves.as_ref().filter(|_| out.takes_halves(cuda.operand(), self.outputs));
        let plans = halves.unwrap_or(&self.to_floats);
        let biased = plans.biased.as_ref().filter(|_| activation.is_none());
        let size = (rows, self.outputs);
        stream.run_with(Work::Product, |raw, scratch| {
            let operand = match cuda.operand() {
                OperandKind::Floats => Word::from(x.current_floats(cuda, raw)?),
                _ => x.operand(rows, self.inputs).or(scratch.operand.as_ref()).into(),
            };
            let workspace = match &mut scratch.products {
                Some(workspace) => workspace,
                empty => empty.insert(cuda.allocate(raw, WORKSPACE)?),
            };
            let result = match halves {
                Some(_) => out.factor_to_write(cuda, raw, rows, self.outputs)?.1,
                None => out.floats_to_write(cuda, raw)?,
            };
            cuda.products().multiply(cuda, raw, workspace, biased.unwrap_or(&plans.plain), (self.weight.word(), operand, result), rows)
        });
        let bias = self.bias.as_ref().filter(|_| biased.is_none());
        if activation.is_some() || bias.is_some() {
            stream.run(Work::Activation, |raw| cuda.activations().finish(cuda, raw, size, bias, activation, out));
        }
    }
}
