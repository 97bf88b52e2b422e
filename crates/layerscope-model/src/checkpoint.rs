//! A folder of weights.
