//! How long measures take.

use std::collections::BTreeMap;
use std::time::Instant;

use super::family::Family;

/// Wall seconds by family; what several share is counted where it was first asked for.
#[derive(Clone, Debug, Default)]
pub struct Seconds(pub BTreeMap<&'static str, f64>);

impl Seconds {
    /// Works, and counts the time.
    pub(super) fn spend<T>(&mut self, family: Family, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        *self.0.entry(family.name()).or_default() += start.elapsed().as_secs_f64();
        result
    }
}
