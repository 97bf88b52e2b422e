//! Rows of hidden states in, measures out, in one direction: rows, accumulators, sketches, measures.
//!
//! A [`BatchRows`] is a batch of states at one point of a network together with the groups ([`Segments`]) of its rows. A
//! [`PointSketch`](sketch::PointSketch) accumulates batches in f64 without cancellation; sketches of different batches, shards or
//! processes [merge](sketch::Sketch::merge). [`PointTables`](measure::PointTables) are computed from the merged sketch by pure
//! functions. There is no input or output here, no model and no corpus.
//!
//! Everything beyond norms and cosines is kept only if a chosen measure [needs](measure::needs) it: [`Lenses`](sketch::Lenses) beside a
//! point's sketch, a [`HashSample`](sketch::HashSample) of states, and [`LensTables`](measure::LensTables) computed from them. A worker
//! does nearly all of the work in its own [`LensSpace`](sketch::LensSpace) before its turn at the sketches comes.
//!
//! ```
//! use layerscope_stats::measure::{PointTables, Settings};
//! use layerscope_stats::sketch::{PointSketch, Sketch};
//! use layerscope_stats::{BatchRows, NOT_COUNTED, Segments};
//!
//! // Two sequences of two states with two components; groups 0 and 1, and a row that does not count.
//! let states = [1.0, 2.0, 3.0, 4.0, 1.0, 0.0, 9.0, 9.0];
//! let segments = Segments::new(&[0, 1, 0, NOT_COUNTED]);
//! let batch = BatchRows::new(&states, 2, &segments, &[0, 2, 4])?;
//!
//! let mut sketch = PointSketch::new(2, 2, None);
//! sketch.update(&batch)?;
//! let mut twice = sketch.clone();
//! twice.merge(&sketch)?;
//!
//! let tables = PointTables::new(&twice, &Settings::default())?;
//! let group = &tables.groups[0];
//! assert_eq!((group.n, group.q, group.m, group.v), (4, 3.0, 2.0, 1.0)); // Q = M + V
//! assert!(tables.identities.iter().all(|identity| identity.residual < 1e-15));
//! # Ok::<(), layerscope_stats::Error>(())
//! ```

mod eigen;
mod error;
mod kernels;
pub mod measure;
mod numbered;
mod products;
mod rows;
pub mod sketch;
mod vectors;

pub use error::{Error, Result};
pub use numbered::Numbered;
pub use rows::{BatchRows, NOT_COUNTED, Segment, Segments};
