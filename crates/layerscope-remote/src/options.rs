//! Endpoints, credentials and patience.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use object_store::{BackoffConfig, ClientOptions, RetryConfig};

/// How stores are reached: names and values as in environment variables, and how often and how long to try.
#[derive(Clone, PartialEq)]
pub struct Options {
    pairs: BTreeMap<String, String>,
    retries: usize,
    pause: Duration,
    patience: Duration,
}

const PREFIXES: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];

impl Options {
    /// All environment variables that belong to a store.
    pub fn from_env() -> Self {
        Self::new(std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))))
    }

    /// Only these variables; those that belong to no store are ignored.
    pub fn new(pairs: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>) -> Self {
        let pairs = pairs.into_iter().map(|(name, value)| (name.into(), value.into()));
        let known = |name: &str| PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        let pairs = pairs.filter(|(name, value): &(String, String)| known(name) && !value.is_empty()).collect();
        Options { pairs, retries: 5, pause: Duration::from_millis(200), patience: Duration::from_secs(30) }
    }

    /// How often a failed request is repeated, and the wait before the first repeat; every further wait is twice as long.
    pub fn retries(mut self, retries: usize, pause: Duration) -> Self {
        (self.retries, self.pause) = (retries, pause);
        self
    }

    /// How long a server may stay silent before its connection counts as lost.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The pairs with this prefix, named as the stores' builders name them.
    pub(crate) fn of(&self, prefix: &str) -> impl Iterator<Item = (String, &str)> {
        self.pairs.iter().filter(move |(name, _)| name.starts_with(prefix)).map(|(name, value)| (name.to_ascii_lowercase(), value.as_str()))
    }

    /// How long to wait after the nth failure in a row, counted from 1; `None` where there were enough.
    pub(crate) fn pause_after(&self, failures: usize) -> Option<Duration> {
        let factor = 1u32 << failures.saturating_sub(1).min(16);
        (failures <= self.retries).then(|| self.pause.saturating_mul(factor).min(Duration::from_secs(15)))
    }

    pub(crate) fn retry_config(&self) -> RetryConfig {
        let backoff = BackoffConfig { init_backoff: self.pause, max_backoff: Duration::from_secs(15), base: 2.0 };
        RetryConfig { backoff, max_retries: self.retries, retry_timeout: Duration::from_secs(120) }
    }

    /// No limit on a whole download, which may take hours; silence is limited instead.
    pub(crate) fn client_options(&self) -> ClientOptions {
        ClientOptions::new().with_timeout_disabled().with_read_timeout(self.patience).with_connect_timeout(self.patience)
    }
}

/// Names alone: values may be secrets.
impl fmt::Debug for Options {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set().entries(self.pairs.keys()).finish()
    }
}
