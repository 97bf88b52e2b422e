//! The pages in `examples/`: their commands are run and their tables computed again. `LAYERSCOPE_WRITE_EXAMPLES=1` writes the
//! tables instead of comparing them.

mod clusters;
mod languages;
mod layer_norm;
mod page;
mod registers;
#[path = "../support/mod.rs"]
mod support;
mod tokenizers;
mod training;
