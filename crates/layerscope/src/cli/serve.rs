//! `layerscope serve`: the page over runs on disk.

use std::path::PathBuf;

use super::{print, say};
use crate::error::Result;
use crate::pictures::page_settings;
use crate::process::cancel::CancelToken;
use crate::serve::server::Server;
use crate::store::load::with_parts;
use crate::text::counted;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Folders of finished runs
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// Port to listen on; 0 picks a free one
    #[arg(long, value_name = "PORT", default_value_t = 8765)]
    port: u16,
    /// Address to listen on; anyone who can reach an address other than the default can read the runs
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: String,
    /// Start with regressions over groups that occur between MIN and MAX times
    #[arg(long, value_name = "MIN:MAX")]
    frequency: Option<String>,
    /// Title of the page
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let settings = page_settings(arguments.frequency.as_deref(), arguments.title.clone())?;
    let cancel = CancelToken::on_signals()?;
    let folders = with_parts(&arguments.folders);
    let runs = counted(folders.len() as u64, "run");
    let server = Server::bind(&arguments.host, arguments.port, folders, settings)?;
    let address = server.address()?;
    if !address.ip().is_loopback() {
        say(&format!("warning: everyone who can reach {address} can see these runs"));
    }
    print(&format!("http://{address}/ shows {runs} until Ctrl-C"))?;
    server.run(&cancel)
}
