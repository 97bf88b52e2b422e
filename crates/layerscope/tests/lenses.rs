//! Every measure beyond norms and cosines, end to end: values against naive definitions, shards, passes, weights, names.

mod support;

mod lenses {
    mod fixture;
    mod measures;
    mod minilm;
    mod naive;
    mod naive_sample;
    mod split;
    mod states;
    mod symmetric;
    mod table;
    mod weights;
}
