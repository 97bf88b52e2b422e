//! Launches of kernels.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaSlice, CudaStream, CudaView, DevicePtr, DriverError, result};

/// How many blocks of how many threads, and their shared memory.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    blocks: (u32, u32, u32),
    threads: u32,
    shared: u32,
}

impl Grid {
    /// Blocks in a row.
    pub fn new(blocks: usize, threads: usize) -> Grid {
        Grid { blocks: (blocks as u32, 1, 1), threads: threads as u32, shared: 0 }
    }

    /// Enough blocks for one thread for each of `count` things.
    pub fn over(count: usize, threads: usize) -> Grid {
        Grid::new(count.div_ceil(threads), threads)
    }

    /// With a second dimension of blocks.
    pub fn by(self, blocks: usize) -> Grid {
        Grid { blocks: (self.blocks.0, blocks as u32, 1), ..self }
    }

    /// With as many threads a block.
    pub fn of_threads(self, threads: usize) -> Grid {
        Grid { threads: threads as u32, ..self }
    }

    /// With shared memory whose size is known only now.
    pub fn shared(self, bytes: usize) -> Grid {
        Grid { shared: bytes as u32, ..self }
    }
}

/// An argument of a kernel: eight bytes, of which the kernel reads as many as its parameter has.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Word(u64);

impl Word {
    /// A pointer to nothing.
    pub const NULL: Word = Word(0);

    /// An address on the card.
    pub fn pointer(address: u64) -> Word {
        Word(address)
    }

    /// The address on the card, where this is one.
    pub(crate) fn address(self) -> u64 {
        self.0
    }
}

macro_rules! words {
    ($($kind:ty => |$value:ident| $word:expr;)*) => {
        $(impl From<$kind> for Word {
            fn from($value: $kind) -> Word {
                Word($word)
            }
        })*
    };
}

words! {
    u32 => |value| value.into();
    i32 => |value| value as u32 as u64;
    bool => |value| value.into();
    usize => |value| value as u64;
    f32 => |value| value.to_bits().into();
    f64 => |value| value.to_bits();
}

impl<T> From<&CudaSlice<T>> for Word {
    fn from(slice: &CudaSlice<T>) -> Word {
        Word(slice.device_ptr(slice.stream()).0)
    }
}

impl<T> From<&mut CudaSlice<T>> for Word {
    fn from(slice: &mut CudaSlice<T>) -> Word {
        Word::from(&*slice)
    }
}

impl<T> From<&CudaView<'_, T>> for Word {
    fn from(view: &CudaView<T>) -> Word {
        use cudarc::driver::DeviceSlice;
        Word(view.device_ptr(view.stream()).0)
    }
}

impl<T> From<Option<&CudaSlice<T>>> for Word {
    fn from(slice: Option<&CudaSlice<T>>) -> Word {
        slice.map_or(Word::NULL, Word::from)
    }
}

/// Puts a kernel in the stream. A launch of no blocks is nothing.
///
/// The words are the kernel's parameters, in order; that they fit is for the caller to see to.
pub fn launch(stream: &Arc<CudaStream>, function: &CudaFunction, grid: Grid, words: &[Word]) -> Result<(), DriverError> {
    let mut pointers: Vec<*mut c_void> = words.iter().map(|word| (&raw const word.0).cast_mut().cast()).collect();
    put(stream, function, grid, &mut pointers)
}

/// The same for a kernel whose one parameter is a structure, laid out as in C.
pub fn launch_with<T>(stream: &Arc<CudaStream>, function: &CudaFunction, grid: Grid, arguments: &T) -> Result<(), DriverError> {
    put(stream, function, grid, &mut [(&raw const *arguments).cast_mut().cast()])
}

fn put(stream: &Arc<CudaStream>, function: &CudaFunction, grid: Grid, pointers: &mut [*mut c_void]) -> Result<(), DriverError> {
    if grid.blocks.0 == 0 || grid.blocks.1 == 0 {
        return Ok(());
    }
    stream.context().bind_to_thread()?;
    // SAFETY: the pointers are to arguments that the driver copies before it returns; kernels keep to the memory they are given.
    unsafe { result::launch_kernel(function.cu_function(), grid.blocks, (grid.threads, 1, 1), grid.shared, stream.cu_stream(), pointers) }
}
