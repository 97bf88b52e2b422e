//! The process around the work: signals, panics, memory, the terminal, temporary folders, its command.

pub(crate) mod cancel;
pub(crate) mod command;
pub(crate) mod panics;
pub(crate) mod system;
pub(crate) mod temporary;
pub(crate) mod terminal;
pub(crate) mod threads;
