//! The pages in `examples/`: their commands are run and their tables computed again. `LAYERSCOPE_WRITE_EXAMPLES=1` writes the
//! tables instead of comparing them.

mod support;

mod studies {
    mod clusters;
    mod languages;
    mod layer_norm;
    mod page;
    mod registers;
    mod tokenizers;
    mod training;
}
