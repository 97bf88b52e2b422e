//! What is fuzzed: one function a target, from bytes that nobody vouches for to what a user of the program would get from them.
//!
//! A target returns, whatever the bytes: an error is an answer, a panic is not. The fuzzer calls these functions, and so does the
//! test that replays seeds and crashes (`crates/layerscope/tests/replay.rs`), which compiles this folder as a part of itself.

mod corpus;
mod files;
mod import;
mod model;
mod run;
mod server;
mod spool;
mod state;
mod zip;

// A program of the fuzzer names one of these alone: the code of the others, which it would have to watch, is left out of it.
pub use corpus::{jsonl, parquet_text, tokenizer, wiki};
pub use files::folder;
pub use import::{npy, npz, parquet_states};
pub use model::{config, gguf, pickle, safetensors, torch_zip};
pub use run::{manifest, parquet_table};
pub use server::requests;
pub use spool::spool;
pub use state::state;

/// A target: its name, that of its seeds and its crashes, and what it does with an input.
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
}

pub const TARGETS: &[Target] = &[
    Target { name: "safetensors", run: safetensors },
    Target { name: "gguf", run: gguf },
    Target { name: "pickle", run: pickle },
    Target { name: "torch_zip", run: torch_zip },
    Target { name: "config", run: config },
    Target { name: "tokenizer", run: tokenizer },
    Target { name: "jsonl", run: jsonl },
    Target { name: "wiki", run: wiki },
    Target { name: "parquet_text", run: parquet_text },
    Target { name: "spool", run: spool },
    Target { name: "npy", run: npy },
    Target { name: "npz", run: npz },
    Target { name: "parquet_states", run: parquet_states },
    Target { name: "parquet_table", run: parquet_table },
    Target { name: "manifest", run: manifest },
    Target { name: "state", run: state },
    Target { name: "requests", run: requests },
];

/// Looks at an outcome as a user would: an error is turned into its line.
fn told<T, E: std::fmt::Display>(outcome: Result<T, E>) -> Option<T> {
    outcome.map_err(|error| std::hint::black_box(error.to_string())).ok()
}
