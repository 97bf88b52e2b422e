//! The page over runs on disk.

pub mod server;
pub mod site;
