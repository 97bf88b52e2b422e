//! Addresses: whose they are, and what of them is a pattern.

use std::sync::Arc;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{ObjectStore, Result as StoreResult};

use crate::error::{Error, Result};
use crate::options::Options;

const SCHEMES: [&str; 6] = ["s3", "gs", "az", "abfss", "http", "https"];

/// Whether a name is an address (has a scheme), known or not, rather than a path.
pub fn is_address(name: &str) -> bool {
    let scheme = |scheme: &str| !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+');
    name.split_once("://").is_some_and(|(start, _)| scheme(start))
}

/// An address taken apart. Names in object stores are taken literally, as their own tools do; web addresses are left as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address<'a> {
    pub whole: &'a str,
    pub scheme: &'a str,
    /// `scheme://bucket`, or all of a web address.
    pub root: &'a str,
    /// The name in the bucket; nothing for web addresses.
    pub key: &'a str,
}

impl<'a> Address<'a> {
    pub fn parse(whole: &'a str) -> Result<Self> {
        let known = || format!("unknown kind of address; use {}", SCHEMES.map(|scheme| format!("{scheme}://")).join(", "));
        let (scheme, rest) = whole.split_once("://").ok_or_else(|| Error::new(whole, known()))?;
        if !SCHEMES.contains(&scheme) {
            return Err(Error::new(whole, known()));
        }
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(Error::new(whole, "the address names no bucket or server"));
        }
        if scheme.starts_with("http") {
            return Ok(Address { whole, scheme, root: whole, key: "" });
        }
        Ok(Address { whole, scheme, root: &whole[..scheme.len() + 3 + bucket.len()], key })
    }

    pub fn is_web(&self) -> bool {
        self.scheme.starts_with("http")
    }

    /// The name as stores want it.
    pub fn path(&self) -> Result<Path> {
        Path::parse(self.key).map_err(|_| Error::new(self.whole, "the name has empty, `.` or `..` parts, which stores do not allow"))
    }

    /// Makes the store this address lies in.
    pub fn store(&self, options: &Options) -> Result<Arc<dyn ObjectStore>> {
        self.build(options).map_err(|error| Error::store(self.whole, &error))
    }

    fn build(&self, options: &Options) -> StoreResult<Arc<dyn ObjectStore>> {
        let (client, retry) = (options.client_options(), options.retry_config());
        Ok(match self.scheme {
            "s3" => {
                let mut builder = AmazonS3Builder::new().with_client_options(client).with_retry(retry).with_url(self.root);
                for (name, value) in options.of("AWS_") {
                    if let Ok(key) = name.parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                Arc::new(builder.build()?)
            }
            "gs" => {
                let mut builder = GoogleCloudStorageBuilder::new().with_client_options(client).with_retry(retry).with_url(self.root);
                for (name, value) in options.of("GOOGLE_") {
                    if let Ok(key) = name.parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                Arc::new(builder.build()?)
            }
            "az" | "abfss" => {
                let mut builder = MicrosoftAzureBuilder::new().with_client_options(client).with_retry(retry).with_url(self.root);
                for (name, value) in options.of("AZURE_") {
                    if let Ok(key) = name.parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                Arc::new(builder.build()?)
            }
            // Whoever writes http:// means it.
            _ => Arc::new(
                HttpBuilder::new().with_client_options(client.with_allow_http(true)).with_retry(retry).with_url(self.root).build()?,
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        let parts = |whole| Address::parse(whole).map(|address| (address.root, address.key)).map_err(|error| error.problem.flags());
        assert_eq!(parts("s3://bucket/a/b 100%.txt"), Ok(("s3://bucket", "a/b 100%.txt")));
        assert_eq!(parts("gs://bucket"), Ok(("gs://bucket", "")));
        assert_eq!(parts("https://h:8/a?b=c/d"), Ok(("https://h:8/a?b=c/d", "")));
        assert_eq!(parts("s3:///a").unwrap_err(), "the address names no bucket or server");
        assert_eq!(parts("ftp://h/a").unwrap_err(), "unknown kind of address; use s3://, gs://, az://, abfss://, http://, https://");
        assert!(is_address("s3://x") && is_address("ftp://x") && !is_address("a/b://c") && !is_address("://") && !is_address("C:/x"));
    }
}
