//! A card, and the handle of it.

use std::sync::Arc;

use cudarc::driver::sys::{self, CUdevice_attribute, CUmemPool_attribute, CUmemoryPool};
use cudarc::driver::{CudaContext, CudaSlice, CudaStream as RawStream, DeviceRepr, DriverError, ValidAsZeroBits};
use layerscope_compute::{ComputeDtype, Error, Result};

use crate::activations::Activations;
use crate::error::CudaError;
use crate::kernels::Kernels;
use crate::libraries;
use crate::operand::OperandKind;
use crate::products::Products;
use crate::rows::Rows;

/// The oldest cards that are known to work: those with products in bfloat16.
const OLDEST_CARD: (u32, u32) = (8, 0);

/// Bytes that stay in the pool when they are freed.
const KEPT_WHEN_FREED: u64 = 1 << 30;

/// What there is to know about a card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// Its number, from 0.
    pub ordinal: usize,
    /// As its maker calls it.
    pub name: String,
    /// Its compute capability.
    pub architecture: (u32, u32),
    /// Bytes of its memory.
    pub memory: usize,
    /// Processors.
    pub processors: usize,
    /// Bytes of shared memory that one block may have.
    pub shared_memory: usize,
}

/// How many cards this machine has: an error says in one line why there are none.
pub fn cards() -> Result<usize> {
    libraries::load()?;
    let count = CudaContext::device_count().map_err(|error| error.of("cuda", 0))?;
    Ok(count as usize)
}

/// One card, ready to compute. A clone is another handle of it.
#[derive(Clone)]
pub struct Cuda {
    pub(crate) shared: Arc<Shared>,
}

/// Makes the card that of the thread before it frees memory, and waits for whatever still uses that: as the first field, it is dropped
/// before the slices behind it. A thread that never worked with the card may drop a model, and a layer may go while its work is queued.
pub(crate) struct Bound(Arc<CudaContext>);

impl Drop for Bound {
    fn drop(&mut self) {
        // What fails here has failed before, and was said then.
        let _ = self.0.synchronize();
    }
}

/// What all handles of a card share.
pub(crate) struct Shared {
    _bound: Bound,
    context: Arc<CudaContext>,
    keeper: Arc<RawStream>,
    card: Card,
    device: String,
    dtype: ComputeDtype,
    kernels: Kernels,
    rows: Rows,
    activations: Activations,
    products: Products,
}

impl Cuda {
    /// The card of this number, with products in these numbers.
    pub fn new(ordinal: usize, dtype: ComputeDtype) -> Result<Cuda> {
        let device = format!("cuda:{ordinal}");
        let count = cards()?;
        if ordinal >= count {
            let problem = format!("there are {count} GPUs in this machine, counted from 0");
            return Err(Error::Unavailable { device, problem });
        }
        let said = |error: DriverError| error.of(&device, 0);
        let context = CudaContext::new(ordinal).map_err(said)?;
        // SAFETY: a slice is only ever used by the stream that it is handed to; workers' streams wait for the keeper.
        unsafe { context.disable_event_tracking() };
        keep_freed_memory(&context).map_err(said)?;
        let card = card(&context).map_err(said)?;
        if card.architecture < OLDEST_CARD {
            let problem = format!("{} is too old: cards of compute capability 8.0 or later are needed", card.name);
            return Err(Error::Unavailable { device, problem });
        }
        let kernels = Kernels::new(context.clone(), device.clone(), card.architecture);
        let keeper = context.new_stream().map_err(said)?;
        let operand = OperandKind::of(dtype);
        let rows = Rows::load(&kernels, operand)?;
        let activations = Activations::load(&kernels, operand)?;
        let products = Products::new(dtype).map_err(|error| error.of(&device, 0))?;
        let _bound = Bound(context.clone());
        Ok(Cuda { shared: Arc::new(Shared { _bound, context, keeper, card, device, dtype, kernels, rows, activations, products }) })
    }

    /// The driver's context.
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.shared.context
    }

    /// The first field of whatever holds memory of the card.
    pub(crate) fn bound(&self) -> Bound {
        Bound(self.context().clone())
    }

    /// A stream for what is not a worker's: allocations and uploads of weights.
    pub fn keeper(&self) -> &Arc<RawStream> {
        &self.shared.keeper
    }

    /// The card.
    pub fn card(&self) -> &Card {
        &self.shared.card
    }

    /// The numbers of the products.
    pub fn dtype(&self) -> ComputeDtype {
        self.shared.dtype
    }

    /// The kernels.
    pub fn kernels(&self) -> &Kernels {
        &self.shared.kernels
    }

    /// As messages name the card.
    pub(crate) fn name(&self) -> String {
        self.shared.device.clone()
    }

    /// How operands of products are stored.
    pub(crate) fn operand(&self) -> OperandKind {
        OperandKind::of(self.shared.dtype)
    }

    pub(crate) fn rows(&self) -> &Rows {
        &self.shared.rows
    }

    pub(crate) fn activations(&self) -> &Activations {
        &self.shared.activations
    }

    pub(crate) fn products(&self) -> &Products {
        &self.shared.products
    }

    /// What a library of CUDA says, as an error of this card.
    pub fn error(&self, error: impl CudaError) -> Error {
        error.of(&self.shared.device, 0)
    }

    /// Zeros on the card; they are there when this returns.
    pub fn zeros<T: DeviceRepr + ValidAsZeroBits>(&self, len: usize) -> Result<CudaSlice<T>> {
        self.keep(len * size_of::<T>(), |keeper| keeper.alloc_zeros(len.max(1)))
    }

    /// A copy on the card; it is there when this returns.
    pub fn upload<T: DeviceRepr>(&self, values: &[T]) -> Result<CudaSlice<T>> {
        self.keep(size_of_val(values), |keeper| {
            // SAFETY: the memory is written at once.
            let mut slice = unsafe { keeper.alloc(values.len().max(1)) }?;
            keeper.memcpy_htod(values, &mut slice)?;
            Ok(slice)
        })
    }

    /// Memory of no particular contents, for work in this stream.
    pub(crate) fn allocate<T: DeviceRepr>(&self, raw: &Arc<RawStream>, len: usize) -> Result<CudaSlice<T>> {
        // SAFETY: whoever asks for it writes it before it is read.
        unsafe { raw.alloc(len.max(1)) }.map_err(|error| error.of(&self.shared.device, len * size_of::<T>()))
    }

    /// Allocates in the keeper's stream and waits for it.
    pub(crate) fn keep<T>(&self, bytes: usize, work: impl FnOnce(&Arc<RawStream>) -> Result<T, DriverError>) -> Result<T> {
        let kept = work(self.keeper()).and_then(|kept| self.keeper().synchronize().map(|()| kept));
        kept.map_err(|error| error.of(&self.shared.device, bytes))
    }
}

/// The pool that memory comes from.
fn pool(context: &Arc<CudaContext>) -> Result<CUmemoryPool, DriverError> {
    context.bind_to_thread()?;
    let mut pool = std::ptr::null_mut();
    // SAFETY: one pointer is written.
    unsafe { sys::cuDeviceGetDefaultMemPool(&raw mut pool, context.cu_device()) }.result()?;
    Ok(pool)
}

/// Some of what is freed stays in the pool. Otherwise it goes back to the system whenever somebody waits for the card, and what batches
/// free and ask for again costs milliseconds.
fn keep_freed_memory(context: &Arc<CudaContext>) -> Result<(), DriverError> {
    let (pool, mut kept) = (pool(context)?, KEPT_WHEN_FREED);
    let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    // SAFETY: the attribute is a number of 64 bits.
    unsafe { sys::cuMemPoolSetAttribute(pool, attribute, (&raw mut kept).cast()) }.result()
}

/// Bytes that nobody uses, the pool's included.
pub(crate) fn free_memory(context: &Arc<CudaContext>) -> Result<usize, DriverError> {
    // SAFETY: only memory that was freed leaves the pool.
    unsafe { sys::cuMemPoolTrimTo(pool(context)?, 0) }.result()?;
    Ok(context.mem_get_info()?.0)
}

fn card(context: &Arc<CudaContext>) -> Result<Card, DriverError> {
    let (major, minor) = context.compute_capability()?;
    let shared_memory = context.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
    Ok(Card {
        ordinal: context.ordinal(),
        name: context.name()?,
        architecture: (major as u32, minor as u32),
        memory: context.total_mem()?,
        processors: context.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as usize,
        shared_memory: shared_memory as usize,
    })
}
