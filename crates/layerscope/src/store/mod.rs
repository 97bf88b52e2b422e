//! A run on disk: its states, its tables, its manifest, and the copy of it elsewhere.

pub(crate) mod facts;
pub(crate) mod folder;
pub(crate) mod fresh;
pub(crate) mod kept_as;
pub(crate) mod kept_samples;
pub(crate) mod load;
mod lock;
pub(crate) mod manifest;
pub(crate) mod merge;
pub(crate) mod mirror;
pub(crate) mod point_name;
pub(crate) mod prune;
mod replaced;
mod sealed;
pub(crate) mod stamp;
pub(crate) mod state;
pub(crate) mod stored;
mod uncached;
pub(crate) mod work;
pub(crate) mod write;
