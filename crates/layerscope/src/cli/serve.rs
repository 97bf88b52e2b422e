//! `layerscope serve`: the page over runs on disk.

use std::path::PathBuf;

use layerscope_report::page::Settings;

use super::print;
use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use crate::plan::parse_frequency;
use crate::serve::Server;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Folders of finished runs
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// The port; 0 for any free one
    #[arg(long, value_name = "P", default_value_t = 8765)]
    port: u16,
    /// The address to listen on; others than this machine's own let everybody in who can reach it
    #[arg(long, value_name = "H", default_value = "127.0.0.1")]
    host: String,
    /// MIN:MAX of n_t that regressions start with
    #[arg(long, value_name = "MIN:MAX")]
    frequency: Option<String>,
    /// The page's title
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let frequency = arguments.frequency.as_deref().map(parse_frequency).transpose()?;
    let settings = Settings { frequency, title: arguments.title.clone() };
    let cancel = CancelToken::on_signals().map_err(|source| Error::io("signals".as_ref(), source))?;
    let server = Server::bind(&arguments.host, arguments.port, arguments.folders.clone(), settings)?;
    let address = server.address()?;
    if !address.ip().is_loopback() {
        eprintln!("layerscope: warning: everybody who can reach {address} can see these runs");
    }
    print(&format!("http://{address}/ shows {} until Ctrl-C", runs(arguments.folders.len())))?;
    server.run(&cancel)
}

fn runs(count: usize) -> String {
    if count == 1 { "1 run".to_owned() } else { format!("{count} runs") }
}
