//! Matrix products, by cuBLASLt.
//!
//! One algorithm for each shape of a weight: the first of those that the library proposes for a nominal number of rows by which a row's
//! bits do not depend on the other rows. A [trial](crate::same_bits) shows that.

use std::collections::HashMap;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys::{
    self, cublasLtEpilogue_t, cublasLtMatmulAlgo_t, cublasLtMatmulAlgoConfigAttributes_t as Config,
    cublasLtMatmulDescAttributes_t as Attribute, cublasLtMatmulPreferenceAttributes_t as Preference, cudaDataType_t,
};
use cudarc::driver::{CudaSlice, CudaStream as RawStream};
use layerscope_compute::{ComputeDtype, Error, Result};

use crate::device::Cuda;
use crate::launch::Word;
use crate::operand::{OperandKind, compute_type};
use crate::same_bits::Trial;

/// Rows for which algorithms are chosen.
pub(crate) const NOMINAL_ROWS: usize = 8192;

/// Bytes that cuBLASLt may work in.
pub(crate) const WORKSPACE: usize = 32 << 20;

/// What cuBLAS calls CUBLAS_OP_T.
static TRANSPOSED: i32 = 1;

/// Algorithms to choose from, the best first.
const CANDIDATES: usize = 32;

/// The shape of a weight, and how its product is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    pub outputs: usize,
    /// Numbers of an operand that are multiplied.
    pub inner: usize,
    /// Numbers from one row of the operand to the next.
    pub stride: usize,
    /// Whether the result is written in the operand's 16-bit numbers, and not as floats.
    pub to_halves: bool,
}

/// The library, and the algorithms chosen so far.
pub(crate) struct Products {
    handle: Handle,
    dtype: ComputeDtype,
    chosen: Mutex<HashMap<(Shape, bool), cublasLtMatmulAlgo_t>>,
}

/// A library's object that may be used by all threads at once.
struct Handle(sys::cublasLtHandle_t);

// SAFETY: cuBLASLt's functions may be called with one handle by several threads.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// What is to be multiplied, ready for any number of rows.
pub(crate) struct Plan {
    shape: Shape,
    description: Description,
    algorithm: cublasLtMatmulAlgo_t,
}

struct Description(sys::cublasLtMatmulDesc_t);

// SAFETY: it is never changed after it was made.
unsafe impl Send for Description {}
// SAFETY: as above.
unsafe impl Sync for Description {}

impl Drop for Description {
    fn drop(&mut self) {
        // SAFETY: it was made by the library and is destroyed once.
        let _ = unsafe { result::destroy_matmul_desc(self.0) };
    }
}

struct Layout(sys::cublasLtMatrixLayout_t);

impl Layout {
    /// Columns of `rows` numbers, as cuBLASLt counts: what is a row to us is a column to it.
    fn new(kind: cudaDataType_t, rows: usize, columns: usize, stride: usize) -> Result<Layout, CublasError> {
        result::create_matrix_layout(kind, rows as u64, columns as u64, stride as i64).map(Layout)
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        // SAFETY: it was made by the library and is destroyed once.
        let _ = unsafe { result::destroy_matrix_layout(self.0) };
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: nothing that was made with it is left.
        let _ = unsafe { result::destroy_handle(self.0) };
    }
}

impl Products {
    pub fn new(dtype: ComputeDtype) -> Result<Products, CublasError> {
        Ok(Products { handle: Handle(result::create_handle()?), dtype, chosen: Mutex::default() })
    }

    /// The version of the library.
    pub fn version(&self) -> usize {
        // SAFETY: the library is loaded.
        unsafe { sys::cublasLtGetVersion() }
    }

    /// `out = x W^T`, or plus a bias that stays where it is, in the numbers of the result.
    pub fn plan(&self, cuda: &Cuda, shape: Shape, bias: Option<Word>) -> Result<Plan> {
        let description = self.describe(shape, bias).map_err(|error| cuda.error(error))?;
        let key = (shape, bias.is_some());
        let mut chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&algorithm) = chosen.get(&key) {
            return Ok(Plan { shape, description, algorithm });
        }
        let plan = self.choose(cuda, shape, description)?;
        chosen.insert(key, plan.algorithm);
        Ok(plan)
    }

    fn describe(&self, shape: Shape, bias: Option<Word>) -> Result<Description, CublasError> {
        let description = Description(result::create_matmul_desc(compute_type(self.dtype), cudaDataType_t::CUDA_R_32F)?);
        let set = |attribute: Attribute, value: *const c_void, size: usize| {
            // SAFETY: the value is of this size and is copied.
            unsafe { result::set_matmul_desc_attribute(description.0, attribute, value, size) }
        };
        set(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, (&raw const TRANSPOSED).cast(), size_of_val(&TRANSPOSED))?;
        if let Some(bias) = bias {
            let epilogue = cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS;
            set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, (&raw const epilogue).cast(), size_of_val(&epilogue))?;
            let pointer = bias.address();
            set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, (&raw const pointer).cast(), size_of_val(&pointer))?;
            let kind = self.data_type_out(shape);
            set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, (&raw const kind).cast(), size_of_val(&kind))?;
        }
        Ok(description)
    }

    fn data_type_out(&self, shape: Shape) -> cudaDataType_t {
        if shape.to_halves { OperandKind::of(self.dtype).data_type() } else { cudaDataType_t::CUDA_R_32F }
    }

    fn layouts(&self, shape: Shape, rows: usize) -> Result<[Layout; 3], CublasError> {
        let kind = OperandKind::of(self.dtype).data_type();
        Ok([
            Layout::new(kind, shape.inner, shape.outputs, shape.inner)?,
            Layout::new(kind, shape.inner, rows, shape.stride)?,
            Layout::new(self.data_type_out(shape), shape.outputs, rows, shape.outputs)?,
        ])
    }

    /// By the first algorithm that gives a row the same bits wherever it stands.
    fn choose(&self, cuda: &Cuda, shape: Shape, mut description: Description) -> Result<Plan> {
        let algorithms = self.candidates(shape, &description).map_err(|error| cuda.error(error))?;
        let mut trial = Trial::new(cuda, shape)?;
        for algorithm in algorithms {
            let plan = Plan { shape, description, algorithm };
            if trial.passes(self, &plan)? {
                return Ok(plan);
            }
            description = plan.description;
        }
        let problem = format!("no product {} by {} gives a row the same bits in every batch", shape.inner, shape.outputs);
        Err(Error::Failed { device: cuda.name(), problem })
    }

    /// A plan by each algorithm that could be chosen, the one that is first.
    pub fn plans(&self, cuda: &Cuda, shape: Shape) -> Result<Vec<Plan>> {
        let describe = || self.describe(shape, None).map_err(|error| cuda.error(error));
        let algorithms = self.candidates(shape, &describe()?).map_err(|error| cuda.error(error))?;
        let (mut trial, mut plans) = (Trial::new(cuda, shape)?, Vec::new());
        for algorithm in algorithms {
            let plan = Plan { shape, description: describe()?, algorithm };
            if trial.passes(self, &plan)? {
                plans.push(plan);
            }
        }
        Ok(plans)
    }

    /// Algorithms that do not split the inner index, in the library's order.
    fn candidates(&self, shape: Shape, description: &Description) -> Result<Vec<cublasLtMatmulAlgo_t>, CublasError> {
        let [weight, x, out] = self.layouts(shape, NOMINAL_ROWS)?;
        let preference = result::create_matmul_pref()?;
        let mut found: Vec<MaybeUninit<sys::cublasLtMatmulHeuristicResult_t>> = (0..CANDIDATES).map(|_| MaybeUninit::uninit()).collect();
        let mut count = 0;
        let (workspace, never_reduce) = (WORKSPACE, 0u32);
        // SAFETY: values are of the sizes that are said; the library writes at most CANDIDATES results and says how many.
        let asked = unsafe {
            let bytes = Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
            let schemes = Preference::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK;
            result::set_matmul_pref_attribute(preference, bytes, (&raw const workspace).cast(), size_of_val(&workspace))
                .and_then(|()| {
                    result::set_matmul_pref_attribute(preference, schemes, (&raw const never_reduce).cast(), size_of_val(&never_reduce))
                })
                .and_then(|()| {
                    sys::cublasLtMatmulAlgoGetHeuristic(
                        self.handle.0,
                        description.0,
                        weight.0,
                        x.0,
                        out.0,
                        out.0,
                        preference,
                        CANDIDATES as i32,
                        found.as_mut_ptr().cast(),
                        &raw mut count,
                    )
                    .result()
                })
        };
        // SAFETY: it was made above.
        unsafe { result::destroy_matmul_pref(preference) }?;
        asked?;
        // SAFETY: the library has written these.
        let found = found.into_iter().take(count as usize).map(|result| unsafe { result.assume_init() });
        let whole = found.filter(|result| result.state.result().is_ok() && parts_of_inner_index(&result.algo) <= 1);
        Ok(whole.map(|result| result.algo).collect())
    }

    /// Multiplies the operand of `rows` rows by a weight, in the stream.
    pub fn multiply(
        &self,
        cuda: &Cuda,
        raw: &Arc<RawStream>,
        workspace: &CudaSlice<u8>,
        plan: &Plan,
        (weight, x, out): (Word, Word, Word),
        rows: usize,
    ) -> Result<()> {
        raw.context().bind_to_thread().map_err(|error| cuda.error(error))?;
        let layouts = self.layouts(plan.shape, rows).map_err(|error| cuda.error(error))?;
        let (one, zero) = (1.0f32, 0.0f32);
        let pointer = |word: Word| word.address() as *mut c_void;
        // SAFETY: all memory is on the card and as large as the layouts say; the workspace is this stream's alone.
        unsafe {
            result::matmul(
                self.handle.0,
                plan.description.0,
                (&raw const one).cast(),
                (&raw const zero).cast(),
                pointer(weight),
                layouts[0].0,
                pointer(x),
                layouts[1].0,
                pointer(out),
                layouts[2].0,
                pointer(out),
                layouts[2].0,
                &raw const plan.algorithm,
                pointer(workspace.into()),
                workspace.len(),
                raw.cu_stream().cast(),
            )
        }
        .map_err(|error| cuda.error(error))
    }
}

fn parts_of_inner_index(algorithm: &cublasLtMatmulAlgo_t) -> u32 {
    let mut parts = 1u32;
    let attribute = Config::CUBLASLT_ALGO_CONFIG_SPLITK_NUM;
    let mut written = 0;
    // SAFETY: one number is written. Where the algorithm has no such setting, nothing is.
    let asked = unsafe {
        sys::cublasLtMatmulAlgoConfigGetAttribute(algorithm, attribute, (&raw mut parts).cast(), size_of_val(&parts), &raw mut written)
    };
    asked.result().map_or(1, |()| parts)
}
