//! A corpus through a model: from settings to the states of a run.

mod ahead;
pub(crate) mod choose;
pub(crate) mod device;
pub(crate) mod estimate;
pub(crate) mod event;
pub(crate) mod items;
mod journey;
pub(crate) mod kept;
mod leg;
pub(crate) mod outlook;
mod passage;
mod pilot;
pub(crate) mod plan;
pub(crate) mod route;
pub(crate) mod run;
mod several;
mod split;
mod stretch;
pub(crate) mod text;
pub(crate) mod timings;
mod turnstile;
mod waiting;
pub(crate) mod workers;

use layerscope_report::Manifest;

use crate::checkpoint::locate::locate;
use crate::error::Result;
use crate::process::cancel::CancelToken;
use crate::settings::Settings;
use crate::store::mirror::{self, Finished};
use event::Show;
use plan::Plan;

/// Measures a corpus through a model, and returns the manifest of the run.
///
/// A run that was interrupted is resumed, and its tables are those of an uninterrupted run to the last bit. A run that is complete is
/// left as it is.
pub fn measure(settings: &Settings, cancel: &CancelToken, show: &mut Show<'_>) -> Result<Finished<Manifest>> {
    let plan = Plan::new(settings)?;
    let folder = locate(&plan.model, plan.revision.as_deref())?;
    let out = plan.out.clone();
    mirror::into(&out, cancel, show, |here, show| run::measure(Plan { out: here.to_owned(), ..plan }, &folder, None, cancel, show))
}
