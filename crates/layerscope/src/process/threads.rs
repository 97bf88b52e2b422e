//! What other threads make.

use std::thread::ScopedJoinHandle;

use crate::error::{Error, Result};

/// What another thread made; its panic is ours.
pub fn joined<T, E>(handle: ScopedJoinHandle<'_, std::result::Result<T, E>>) -> Result<T>
where
    Error: From<E>,
{
    Ok(handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?)
}
