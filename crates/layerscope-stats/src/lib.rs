//! Rows of hidden states in, measures out, in one direction: rows, accumulators, sketches, measures.
//!
//! A [`BatchRows`] holds the states of one batch at one point of a network; a [`BatchInfo`], made once a batch, says what its rows are.
//! A [`PointState`] accumulates batches in f64 without cancellation; states of different batches, shards or processes
//! [merge](sketch::Mergeable::merge). [`PointTables`](measure::PointTables) are computed from the merged state by pure functions. There
//! is no input or output here, no model and no corpus.
//!
//! Everything beyond norms and cosines is kept only if a chosen measure [needs](measure::needs) it:
//! [`Sketches`](sketch::Sketches) beside a point's [`PointMoments`](sketch::PointMoments), and a [`HashSample`](sketch::HashSample) of
//! states. A worker does nearly all of the work in its own [`BatchSpace`](sketch::BatchSpace) before its turn comes.
//!
//! Two tables say what there is: [`SKETCHES`](sketch::SKETCHES) and [`MEASURES`](measure::MEASURES). A new sketch or measure is a file
//! and a row.
//!
//! ```
//! use layerscope_stats::measure::{PointTables, Settings};
//! use layerscope_stats::sketch::{Mergeable, PointMoments};
//! use layerscope_stats::{BatchRows, NOT_COUNTED, Segments};
//!
//! // Two sequences of two states with two components; groups 0 and 1, and a row that does not count.
//! let states = [1.0, 2.0, 3.0, 4.0, 1.0, 0.0, 9.0, 9.0];
//! let segments = Segments::new(&[0, 1, 0, NOT_COUNTED]);
//! let batch = BatchRows::new(&states, 2, &segments, &[0, 2, 4])?;
//!
//! let mut moments = PointMoments::new(2, 2, None);
//! moments.update(&batch)?;
//! let mut twice = moments.clone();
//! twice.merge(&moments)?;
//!
//! let tables = PointTables::of_moments(&twice, &Settings::default())?;
//! let group = &tables.all.groups[0];
//! assert_eq!((group.n, group.q, group.m, group.v), (4, 3.0, 2.0, 1.0)); // Q = M + V
//! assert!(tables.identities.iter().all(|identity| identity.residual < 1e-15));
//! # Ok::<(), layerscope_stats::Error>(())
//! ```

mod accumulate;
mod batch;
mod eigen;
mod error;
mod kernels;
pub mod measure;
mod numbered;
mod panels;
mod point;
mod products;
mod rows;
mod segments;
pub mod sketch;
mod vectors;

pub use accumulate::{Accumulate, HostPrepared, HostSpace, LateRow, Wanted};
pub use batch::BatchInfo;
pub use error::{Error, Result};
pub use numbered::Numbered;
pub use point::{PointShape, PointState};
pub use rows::{BatchRows, DetachedRows};
pub use segments::{NOT_COUNTED, Segment, Segments};
