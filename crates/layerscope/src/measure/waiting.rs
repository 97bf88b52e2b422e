//! What a run waits for where nothing else can be done: weights that are read, files that are hashed.

use std::sync::Arc;
use std::thread::{Scope, ScopedJoinHandle};

use layerscope_model::{Leg, LoadWatch, Transformer};
use layerscope_stats::Accumulate;

use super::event::{Event, Show};
use super::plan::BoundPlan;
use crate::error::Result;
use crate::process::cancel::CancelToken;
use crate::process::threads::{joined, look_until};

/// A model that is being read on another thread. Dropped, it is read no further.
pub struct Loading<'scope, D: Accumulate> {
    handle: Option<ScopedJoinHandle<'scope, layerscope_model::Result<Transformer<D>>>>,
    watch: Arc<LoadWatch>,
}

impl<'scope, D: Accumulate> Loading<'scope, D> {
    /// Begins to read a leg.
    pub fn begin<'a: 'scope>(scope: &'scope Scope<'scope, '_>, bound: &'a BoundPlan, device: &D, leg: Leg) -> Loading<'scope, D> {
        let (watch, device) = (Arc::<LoadWatch>::default(), device.clone());
        let seen = Arc::clone(&watch);
        let handle = Some(scope.spawn(move || bound.model.load_leg(device, leg, bound.plan.threads, &seen)));
        Loading { handle, watch }
    }

    /// Waits for it.
    pub fn end(mut self, cancel: &CancelToken, show: &mut Show<'_>) -> Result<Transformer<D>> {
        cancel.during("interrupted while the weights were read: the text is kept; the same command goes on with the weights");
        let Some(handle) = self.handle.take() else { return Err(cancel.interrupted()) }; // invariant: it ends once
        look_until(
            || handle.is_finished(),
            || {
                let (bytes, of) = self.watch.bytes();
                show(Event::Loading { bytes, of });
                cancel.check()
            },
        )?;
        joined(handle)
    }
}

impl<D: Accumulate> Drop for Loading<'_, D> {
    fn drop(&mut self) {
        self.watch.stop();
    }
}

/// Waits until the files of the model are hashed.
pub fn hashed(bound: &BoundPlan, cancel: &CancelToken, show: &mut Show<'_>) -> Result<()> {
    look_until(
        || bound.model_hash.is_finished(),
        || {
            let (bytes, of) = bound.model_hash.bytes();
            if of > 0 {
                show(Event::Hashing { bytes, of });
            }
            cancel.check()
        },
    )
}
