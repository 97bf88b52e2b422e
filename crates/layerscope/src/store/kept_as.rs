//! How the kept states of a finished run are stored: so that any reader opens them, packed without loss, or rounded to half as many bytes.
//!
//! Only `sample.safetensors` changes, in one step. Packed, it has the same digest; rounded, it names the one that it takes the place of.

use half::f16;
use layerscope_error::not_one_of;
use layerscope_report::Manifest;

use super::folder::Folder;
use super::state::{About, Draft, StateFile};
use super::stored::{ROUNDED_OF, SAMPLE, StoredRun};
use super::write::put_manifest;
use crate::error::{Error, Result};
use crate::process::system;

/// How kept states are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptAs {
    /// As any reader of safetensors understands them.
    Plain,
    /// Packed without loss.
    Packed,
    /// Rounded to f16, which is also what any reader understands.
    F16,
}

impl std::str::FromStr for KeptAs {
    type Err = Error;

    fn from_str(text: &str) -> Result<KeptAs> {
        match text {
            "plain" => Ok(KeptAs::Plain),
            "packed" => Ok(KeptAs::Packed),
            "f16" => Ok(KeptAs::F16),
            other => Err(Error::usage(not_one_of("states", other, &["plain", "packed", "f16"]))),
        }
    }
}

/// Stores the kept states of a run anew; whether anything was to be done.
pub fn store_as(store: &Folder, manifest: Manifest, run: &StoredRun, kept_as: KeptAs) -> Result<bool> {
    let sample = run.sample()?;
    let is_rounded = sample.about().details[ROUNDED_OF].is_string();
    match kept_as {
        KeptAs::Plain if !sample.is_packed() => return Ok(false),
        KeptAs::Packed if sample.is_packed() => return Ok(false),
        KeptAs::F16 if is_rounded => {}
        KeptAs::F16 => round(store, sample)?,
        KeptAs::Plain => Draft::joined(SAMPLE, sample.about(), &[sample], |_| true)?.write(store)?.settle()?,
        KeptAs::Packed => {
            Draft::joined(SAMPLE, sample.about(), &[sample], |_| true)?.write_packed(store, system::processors())?.settle()?
        }
    }
    if kept_as == KeptAs::F16 && manifest.kept_states.is_none() {
        put_manifest(store, Manifest { kept_states: Some("f16".to_owned()), ..manifest })?;
    }
    Ok(!(kept_as == KeptAs::F16 && is_rounded))
}

/// Rounds all kept states to f16, unless that would make one infinite.
fn round(store: &Folder, sample: &StateFile) -> Result<()> {
    let is_kept = |name: &str| name.ends_with(".kept");
    for name in sample.names().filter(|name| is_kept(name)) {
        let largest = sample.largest(name)?;
        if f16::from_f32(largest).is_infinite() {
            let line = format!(
                "{}: `{name}` reaches {largest} and f16 ends at {}; keep these states plain or packed",
                sample.path().display(),
                f16::MAX
            );
            return Err(Error::refused(line));
        }
    }
    let details = serde_json::json!({ ROUNDED_OF: sample.digest() });
    let about = About { fingerprint: sample.about().fingerprint.clone(), details };
    Draft::rounded(SAMPLE, &about, sample, is_kept)?.write(store)?.settle()
}

#[cfg(test)]
mod tests {
    use layerscope_stats::sketch::{Tensor, Tensors, Values};

    use super::*;

    #[test]
    fn a_state_too_large_for_f16_is_named_and_nothing_is_rounded() {
        let folder = std::env::temp_dir().join(format!("layerscope-{}-too-large", std::process::id()));
        let store = Folder::create(&folder).expect("a folder");
        let mut tensors = Tensors::default();
        // The largest number that is rounded to one of f16, and the next.
        for (name, largest) in [("layer1.block.kept", 65_519.996), ("layer2.block.kept", -65_520.0)] {
            let states = vec![0.25, largest, 1.0, 2.0];
            tensors.0.insert(name.to_owned(), Tensor { shape: vec![2, 2], values: Values::F32(states.into()) });
            let write = || Draft::of(SAMPLE, &About::default(), &tensors, 1)?.write(&store)?.settle();
            write().expect("written");
            let sample = StateFile::open(&store.path(SAMPLE)).expect("a sample");
            let rounded = round(&store, &sample);
            let after = StateFile::open(&store.path(SAMPLE)).expect("a sample");
            if name.starts_with("layer1") {
                rounded.expect("it fits");
                assert_eq!(after.read("layer1.block").expect("whole").0["kept"].values, Values::F32(vec![0.25, 65_504.0, 1.0, 2.0].into()));
            } else {
                let line = rounded.expect_err("it does not fit").to_string();
                assert!(
                    line.contains("`layer2.block.kept` reaches 65520 and f16 ends at 65504; keep these states plain or packed"),
                    "{line}"
                );
                assert_eq!(after.digest(), sample.digest());
            }
        }
        std::fs::remove_dir_all(folder).expect("removable");
    }
}
