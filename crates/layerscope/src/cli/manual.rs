//! What a shell and `man` know of the program, made from its own arguments.

use std::path::PathBuf;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::error::{Error, Result};

/// Arguments of `layerscope completions`.
#[derive(clap::Args)]
pub(super) struct Completions {
    /// Shell that completes the commands
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

impl Completions {
    /// Prints the script that a shell reads.
    pub(super) fn print(&self) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut super::Arguments::command(), "layerscope", &mut script);
        super::write_out(&String::from_utf8_lossy(&script))
    }
}

/// Arguments of `layerscope manual`.
#[derive(clap::Args)]
pub(super) struct Manual {
    /// Folder for the pages
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl Manual {
    /// Writes a page for the program and one for each command.
    pub(super) fn write(&self) -> Result<()> {
        let failed = |source| Error::io(&self.out, source);
        std::fs::create_dir_all(&self.out).map_err(failed)?;
        clap_mangen::generate_to(super::Arguments::command(), &self.out).map_err(failed)?;
        super::print(&format!("manual pages in {}\n", self.out.display()))
    }
}
