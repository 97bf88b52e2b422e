//! What CUDA's libraries say, as errors of a device.

use cudarc::cublaslt::result::CublasError;
use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;
use layerscope_compute::Error;

/// An error of one of CUDA's libraries. The driver's own words are asked for only where there is a driver.
pub trait CudaError {
    /// As an error of `device`; `bytes` were asked for, if it is about memory.
    fn of(self, device: &str, bytes: usize) -> Error;
}

impl CudaError for DriverError {
    fn of(self, device: &str, bytes: usize) -> Error {
        let device = device.to_owned();
        let words = || self.error_string().map_or_else(|_| format!("{:?}", self.0), |words| words.to_string_lossy().into_owned());
        match self.0 {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => Error::OutOfMemory { device, bytes },
            code if loses_the_device(code) => Error::Lost { device, problem: words() },
            _ => Error::Failed { device, problem: words() },
        }
    }
}

impl CudaError for CublasError {
    fn of(self, device: &str, bytes: usize) -> Error {
        use cudarc::cublaslt::sys::cublasStatus_t::{CUBLAS_STATUS_ALLOC_FAILED, CUBLAS_STATUS_EXECUTION_FAILED};
        let device = device.to_owned();
        match self.0 {
            CUBLAS_STATUS_ALLOC_FAILED => Error::OutOfMemory { device, bytes },
            CUBLAS_STATUS_EXECUTION_FAILED => Error::Lost { device, problem: "a matrix product failed".to_owned() },
            status => Error::Failed { device, problem: format!("matrix product: {status:?}") },
        }
    }
}

impl CudaError for Error {
    fn of(self, _: &str, _: usize) -> Error {
        self
    }
}

/// After these, every later call fails: the context must be made anew.
fn loses_the_device(code: CUresult) -> bool {
    matches!(
        code,
        CUresult::CUDA_ERROR_ECC_UNCORRECTABLE
            | CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
            | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
            | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUresult::CUDA_ERROR_LAUNCH_FAILED
            | CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
            | CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED
            | CUresult::CUDA_ERROR_DEINITIALIZED
            | CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE
            | CUresult::CUDA_ERROR_NO_DEVICE
            | CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUresult::CUDA_ERROR_ASSERT
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_told_from_a_lost_device() {
        let error = DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY).of("cuda:0", 12);
        assert_eq!(error, Error::OutOfMemory { device: "cuda:0".into(), bytes: 12 });
        assert!(loses_the_device(CUresult::CUDA_ERROR_ECC_UNCORRECTABLE));
        assert!(!loses_the_device(CUresult::CUDA_ERROR_INVALID_VALUE));
    }
}
