//! Every measure beyond norms and cosines, end to end: values against naive definitions, shards, passes, weights, names.

mod fixture;
#[path = "../../../layerscope-stats/tests/support/eigen.rs"]
mod jacobi;
mod measures;
mod minilm;
mod naive;
mod naive_sample;
mod split;
mod states;
#[path = "../support/mod.rs"]
mod support;
mod symmetric;
mod table;
mod weights;
