//! The page over runs on disk: what every view needs comes with the page, the blocks of single points on request.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::index::{self, LARGE, Source};
use super::{Settings, write_with};
use crate::assets::PAGE;
use crate::error::{Error, Result};
use crate::manifest::{FILE, Manifest};
use crate::run::Step;

/// How the policy begins, and how it goes on where the page may ask its own server.
const POLICY: &str = "default-src 'none'; ";
const SERVED_POLICY: &str = "default-src 'none'; connect-src 'self'; ";

/// The element that follows the policy, and one that says where blocks are.
const REFERRER: &str = "<meta name=\"referrer\"";
const SERVED_REFERRER: &str = "<meta name=\"layerscope-blocks\" content=\"served\">\n<meta name=\"referrer\"";

/// How often a run that is just being replaced is looked at again.
const TRIES: usize = 3;

/// Runs as they were when they were opened. Their files stay open, so a run can be replaced while somebody looks at it.
pub struct Served {
    folders: Vec<PathBuf>,
    sources: Vec<Source<'static>>,
    version: String,
}

impl Served {
    /// Opens finished runs. A symbolic link that leads out of a run's folder is refused.
    pub fn open(folders: &[PathBuf]) -> Result<Served> {
        for _ in 0..TRIES {
            let before = version(folders)?;
            folders.iter().try_for_each(|folder| expect_inside(folder, folder))?;
            for (folder, step) in steps(folders)? {
                expect_inside(folder, &step)?;
            }
            let sources = folders.iter().map(|folder| Source::open(folder)).collect::<Result<Vec<_>>>()?;
            if version(folders)? == before {
                return Ok(Served { folders: folders.to_vec(), sources, version: before });
            }
        }
        let names: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        Err(Error::Setting(format!("{}: still being written; try again when it is finished", names.join(", ")).into()))
    }

    /// Identifies what was opened; it is different after a run is replaced.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Whether the folders still hold what was opened; `None` if one of them holds no finished run.
    pub fn is_current(&self) -> Option<bool> {
        version(&self.folders).ok().map(|version| version == self.version)
    }

    /// Writes the page without the blocks of single points; the page requests those from its server as `block/NAME`.
    pub fn write(&self, settings: &Settings, out: &mut dyn Write) -> Result<()> {
        let changes = [(POLICY, SERVED_POLICY), (REFERRER, SERVED_REFERRER)];
        write_with(&self.sources, settings, out, &changes, |_| Ok(()))
    }

    /// The bytes of a block that the page requests; `None` if there is no block of that name.
    pub fn block(&self, name: &str) -> Result<Option<Vec<u8>>> {
        Ok(index::point(&self.sources, name)?.map(|block| block.into_bytes()))
    }

    /// The page's Content-Security-Policy, for a header.
    pub fn policy() -> String {
        let policy = PAGE.split(POLICY).nth(1).and_then(|rest| rest.split('"').next()).expect("the template has a policy");
        format!("{SERVED_POLICY}{policy}")
    }
}

/// A hash of the manifests, and of length and time of every table.
fn version(folders: &[PathBuf]) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    let steps: Vec<PathBuf> = steps(folders)?.into_iter().map(|(_, step)| step).collect();
    for folder in folders.iter().chain(&steps) {
        Manifest::read_bytes(folder)?.hash(&mut hasher);
        for path in tables(folder) {
            let facts = std::fs::metadata(path).ok().map(|facts| (facts.len(), facts.modified().ok()));
            facts.hash(&mut hasher);
        }
    }
    Ok(format!("{:016x}", hasher.finish()))
}

/// The folders of trajectories' steps, each with that of its trajectory.
fn steps(folders: &[PathBuf]) -> Result<Vec<(&Path, PathBuf)>> {
    let mut found = Vec::new();
    for folder in folders {
        let manifest = Manifest::read(folder)?;
        found.extend(Step::all(folder, &manifest).into_iter().map(|step| (folder.as_path(), step.folder)));
    }
    Ok(found)
}

fn tables(folder: &Path) -> impl Iterator<Item = PathBuf> {
    ["layers", "norms", "projections"].into_iter().chain(LARGE).map(|name| folder.join(format!("{name}.parquet")))
}

/// Refuses a run, or a step of one, whose files lie outside its home.
fn expect_inside(home: &Path, folder: &Path) -> Result<()> {
    let real = |path: &Path| path.canonicalize().map_err(|error| Error::file(path, error.to_string()));
    let home = real(home)?;
    for path in tables(folder).chain([folder.join(FILE)]).filter(|path| path.symlink_metadata().is_ok()) {
        if !real(&path)?.starts_with(&home) {
            return Err(Error::file(&path, "a symbolic link that leads out of the run's folder; replace it with the file"));
        }
    }
    Ok(())
}
