//! A small network, and what its measures are by their definitions.
#![allow(dead_code)] // every test file uses a part of it

pub mod definitions;
pub mod expected;
pub mod network;
pub mod spectrum;
