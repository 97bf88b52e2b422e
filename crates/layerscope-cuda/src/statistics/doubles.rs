//! Products of deviations in f64, by cuBLASLt: on its tensor cores where the card has them for f64.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys::{
    cublasComputeType_t, cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, cublasLtMatrixLayout_t, cudaDataType_t,
};
use cudarc::driver::CudaStream as RawStream;
use layerscope_compute::Result;

use crate::device::Cuda;
use crate::launch::Word;

/// Bytes that the library may work in.
pub(super) const WORKSPACE: usize = 32 << 20;

/// CUBLAS_OP_T.
const TRANSPOSED: i32 = 1;

/// The library, ready for products X^T Y.
pub(super) struct Doubles {
    handle: cublasLtHandle_t,
    description: cublasLtMatmulDesc_t,
}

// SAFETY: both are used by one worker at a time, and never changed.
unsafe impl Send for Doubles {}

/// Rows of deviations: `width` numbers each.
#[derive(Clone, Copy)]
pub(super) struct Deviations {
    pub numbers: Word,
    pub width: usize,
}

impl Doubles {
    pub fn new() -> Result<Doubles, CublasError> {
        let handle = result::create_handle()?;
        let description = result::create_matmul_desc(cublasComputeType_t::CUBLAS_COMPUTE_64F, cudaDataType_t::CUDA_R_64F)?;
        let (transposed, attribute) = (TRANSPOSED, cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSB);
        // SAFETY: the value is of this size and is copied.
        unsafe { result::set_matmul_desc_attribute(description, attribute, (&raw const transposed).cast(), size_of_val(&transposed)) }?;
        Ok(Doubles { handle, description })
    }

    /// `out = x^T y`, or plus what is there: a row of `out` for every column of `x`.
    pub fn multiply(
        &self,
        cuda: &Cuda,
        stream: &Arc<RawStream>,
        (x, y, rows): (Deviations, Deviations, usize),
        is_sum: bool,
        out: Word,
        workspace: Word,
    ) -> Result<()> {
        stream.context().bind_to_thread().map_err(|error| cuda.error(error))?;
        // What is a row to us is a column to the library: out^T = y^T x.
        let layouts = || Ok([Layout::new(y.width, rows)?, Layout::new(x.width, rows)?, Layout::new(y.width, x.width)?]);
        let [left, right, product] = layouts().map_err(|error: CublasError| cuda.error(error))?;
        let (one, beta) = (1.0f64, f64::from(is_sum));
        let pointer = |word: Word| word.address() as *mut c_void;
        // SAFETY: all memory is on the card and as large as the layouts say; the workspace is this stream's alone. Without an algorithm
        // the library takes its own choice, the same for the same shapes.
        unsafe {
            result::matmul(
                self.handle,
                self.description,
                (&raw const one).cast(),
                (&raw const beta).cast(),
                pointer(y.numbers),
                left.0,
                pointer(x.numbers),
                right.0,
                pointer(out),
                product.0,
                pointer(out),
                product.0,
                std::ptr::null(),
                pointer(workspace),
                WORKSPACE,
                stream.cu_stream().cast(),
            )
        }
        .map_err(|error| cuda.error(error))
    }
}

impl Drop for Doubles {
    fn drop(&mut self) {
        // SAFETY: both were made by the library and are destroyed once.
        unsafe {
            let _ = result::destroy_matmul_desc(self.description);
            let _ = result::destroy_handle(self.handle);
        }
    }
}

struct Layout(cublasLtMatrixLayout_t);

impl Layout {
    fn new(rows: usize, columns: usize) -> Result<Layout, CublasError> {
        result::create_matrix_layout(cudaDataType_t::CUDA_R_64F, rows as u64, columns as u64, rows as i64).map(Layout)
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        // SAFETY: it was made by the library and is destroyed once.
        let _ = unsafe { result::destroy_matrix_layout(self.0) };
    }
}
