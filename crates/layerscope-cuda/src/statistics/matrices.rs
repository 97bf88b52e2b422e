//! Covariances and products with the point before where the card keeps them: those of typical states, in the host's own order.

use cudarc::driver::CudaSlice;
use layerscope_stats::Result;
use layerscope_stats::sketch::{Covariance, Mergeable, Pairs, SketchKind, Sketches, Tensors};

use super::reader::Reader;
use super::tensors::{f64s, owned, put, u64s};
use crate::device::Cuda;

/// n, mean and scatter of the typical states of a point.
pub(super) struct ResidentGram {
    pub n: CudaSlice<u64>,
    pub mean: CudaSlice<f64>,
    pub blocks: CudaSlice<f64>,
    /// Components of a block.
    pub panel: usize,
    dim: usize,
    shape: Vec<usize>,
}

/// n, both means and products of the states that are typical at two points.
pub(super) struct ResidentCross {
    pub n: CudaSlice<u64>,
    /// Of the point before, then of this one.
    pub means: CudaSlice<f64>,
    pub blocks: CudaSlice<f64>,
    pub panel: usize,
    pub dims: [usize; 2],
    shape: Vec<usize>,
}

impl ResidentGram {
    /// Puts the typical states on the card; what is left is for the host.
    pub fn load(cuda: &Cuda, covariance: &Covariance) -> Result<(ResidentGram, Covariance)> {
        let tensors = covariance.encode();
        let (dim, shape) = (covariance.dim(), tensors.0["typical.scatter"].shape.clone());
        let resident = ResidentGram {
            n: cuda.upload(u64s(&tensors, "typical.n")?)?,
            mean: cuda.upload(f64s(&tensors, "typical.mean")?)?,
            blocks: cuda.upload(f64s(&tensors, "typical.scatter")?)?,
            panel: shape[1],
            dim,
            shape,
        };
        let mut rest = owned(tensors);
        put(&mut rest, "typical.n", &[1], vec![0u64]);
        put(&mut rest, "typical.mean", &[dim], vec![0.0; dim]);
        put(&mut rest, "typical.scatter", &resident.shape, vec![0.0; resident.len()]);
        Ok((resident, Covariance::decode(&mut rest)?))
    }

    /// The covariance as it is now, with what the host knows.
    pub fn fetch(&self, reader: &mut Reader<'_>, host: &Covariance) -> Result<Covariance> {
        let mut tensors = owned(Covariance::new(self.dim, host.massive_threshold()).encode());
        put(&mut tensors, "typical.n", &[1], reader.read(&self.n, 1)?);
        put(&mut tensors, "typical.mean", &[self.dim], reader.read(&self.mean, self.dim)?);
        put(&mut tensors, "typical.scatter", &self.shape, reader.read(&self.blocks, self.len())?);
        let mut covariance = Covariance::decode(&mut tensors)?;
        covariance.merge(host)?;
        Ok(covariance)
    }

    fn len(&self) -> usize {
        self.shape.iter().product()
    }
}

impl ResidentCross {
    /// Puts the typical states on the card; what is left is for the host.
    pub fn load(cuda: &Cuda, pairs: &Pairs) -> Result<(ResidentCross, Sketches)> {
        let tensors = pairs.encode();
        let (this, next, shape) = (f64s(&tensors, "this")?, f64s(&tensors, "next")?, tensors.0["products"].shape.clone());
        let resident = ResidentCross {
            n: cuda.upload(u64s(&tensors, "n")?)?,
            means: cuda.upload(&[this, next].concat())?,
            blocks: cuda.upload(f64s(&tensors, "products")?)?,
            panel: shape[1],
            dims: [this.len(), next.len()],
            shape,
        };
        let mut rest = owned(tensors);
        put(&mut rest, "n", &[1], vec![0u64]);
        resident.put_arrays(&mut rest, &vec![0.0; resident.dims.iter().sum()], vec![0.0; resident.len()]);
        let mut named = Tensors::default();
        named.nest(prefix(), rest);
        Ok((resident, Sketches::decode(&mut named)?))
    }

    /// The products as they are now, with what the host knows.
    pub fn fetch(&self, reader: &mut Reader<'_>, host: &Pairs) -> Result<Pairs> {
        let [this, next] = self.dims;
        let mut tensors = owned(Pairs::new(this, next).encode());
        put(&mut tensors, "n", &[1], reader.read(&self.n, 1)?);
        self.put_arrays(&mut tensors, &reader.read(&self.means, this + next)?, reader.read(&self.blocks, self.len())?);
        let mut pairs = Pairs::decode(&mut tensors)?;
        pairs.merge(host)?;
        Ok(pairs)
    }

    fn put_arrays(&self, tensors: &mut Tensors<'static>, means: &[f64], blocks: Vec<f64>) {
        let (this, next) = means.split_at(self.dims[0]);
        put(tensors, "this", &[this.len()], this.to_vec());
        put(tensors, "next", &[next.len()], next.to_vec());
        put(tensors, "products", &self.shape, blocks);
    }

    fn len(&self) -> usize {
        self.shape.iter().product()
    }
}

/// What the names of the tensors of pairs begin with among those of a point.
fn prefix() -> &'static str {
    SketchKind::Pairs.row().map_or("", |row| row.prefix)
}
