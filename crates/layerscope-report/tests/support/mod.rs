//! Figures drawn for a test, and the files that they leave behind.
#![allow(dead_code)] // every test file uses a part of it

pub mod drawn;
pub mod files;
