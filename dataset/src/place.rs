//! [`Place`]: a folder or a prefix of a bucket.

use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt as _, RetryConfig};
use url::Url;

/// A request is made again for so long; then the store counts as gone.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why something was not done.
pub enum Failure {
    /// It is a matter of this series.
    Series(String),
    /// The store does not answer, or lets nobody in: the other series fare no better.
    Store(String),
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::Series(why)
    }
}

/// Where objects are.
pub struct Place {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// The URL, without a slash at the end.
    pub url: String,
}

impl Place {
    /// Opens the place that a URL names; nothing is sent yet.
    pub fn open(text: &str) -> Result<Self, String> {
        let said = |error: &dyn std::fmt::Display| format!("{text}: {error}");
        let url = Url::parse(text)
            .map_err(|error| format!("{text}: no URL ({error}): s3://BUCKET/PREFIX or file:///FOLDER"))?;
        let prefix = Path::from_url_path(url.path()).map_err(|error| said(&error))?;
        let store: Arc<dyn ObjectStore> = match url.scheme() {
            "file" => Arc::new(LocalFileSystem::new().with_fsync(true)),
            "s3" => {
                let bucket = url.host_str().ok_or_else(|| format!("{text}: no bucket"))?;
                let again = RetryConfig { retry_timeout: PATIENCE, ..RetryConfig::default() };
                let builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(again);
                Arc::new(builder.build().map_err(|error| said(&error))?)
            }
            other => return Err(format!("{text}: {other}:// is unknown: s3:// and file:// are known")),
        };
        Ok(Self { store, prefix, url: text.trim_end_matches('/').to_owned() })
    }

    /// The last part of the place's name.
    pub fn name(&self) -> String {
        self.prefix.filename().map(str::to_owned).unwrap_or_default()
    }

    /// All objects below it, and their names from it on, in the order of names.
    pub async fn list(&self) -> Result<Vec<(String, ObjectMeta)>, Failure> {
        let all: Vec<ObjectMeta> =
            self.store.list(Some(&self.prefix)).try_collect().await.map_err(|error| self.said(&error))?;
        let within = |object: ObjectMeta| {
            let parts = object.location.prefix_match(&self.prefix)?;
            let name = parts.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/");
            (!name.is_empty()).then_some((name, object))
        };
        let mut all: Vec<(String, ObjectMeta)> = all.into_iter().filter_map(within).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(all)
    }

    /// An object's bytes; none where there is no such object.
    pub async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, Failure> {
        match self.store.get(&self.at(name)?).await {
            Ok(found) => found.bytes().await.map(|bytes| Some(bytes.to_vec())).map_err(|e| self.said(&e)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.said(&error)),
        }
    }

    /// The first bytes of an object.
    pub async fn head_of(&self, name: &str, size: u64, most: u64) -> Result<Vec<u8>, Failure> {
        let range = 0..size.min(most);
        let bytes = self.store.get_range(&self.at(name)?, range).await.map_err(|error| self.said(&error))?;
        Ok(bytes.to_vec())
    }

    /// Fetches an object into a file, piece by piece.
    pub async fn fetch(&self, name: &str, file: &FilePath) -> Result<(), Failure> {
        use tokio::io::AsyncWriteExt as _;
        let found = self.store.get(&self.at(name)?).await.map_err(|error| self.said(&error))?;
        let said = |error: std::io::Error| format!("{}: {error}", file.display());
        let mut out = tokio::fs::File::create(file).await.map_err(said)?;
        let mut pieces = found.into_stream();
        while let Some(piece) = pieces.try_next().await.map_err(|error| self.said(&error))? {
            out.write_all(&piece).await.map_err(said)?;
        }
        Ok(out.flush().await.map_err(said)?)
    }

    /// Puts an object: one request, so that readers have it whole or not at all.
    pub async fn put(&self, name: &str, bytes: Vec<u8>) -> Result<(), Failure> {
        self.store.put(&self.at(name)?, bytes.into()).await.map(|_| ()).map_err(|error| self.said(&error))
    }

    /// True when there is such an object.
    pub async fn has(&self, name: &str) -> Result<bool, Failure> {
        match self.store.head(&self.at(name)?).await {
            Ok(_) => Ok(true),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(self.said(&error)),
        }
    }

    /// Removes an object, if it is there.
    pub async fn remove(&self, name: &str) -> Result<(), Failure> {
        match self.store.delete(&self.at(name)?).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.said(&error)),
        }
    }

    /// Names of folders in a dataset may have `%`, which is to stay as it is.
    fn at(&self, name: &str) -> Result<Path, String> {
        let whole = match self.prefix.as_ref() {
            "" => name.to_owned(),
            prefix => format!("{prefix}/{name}"),
        };
        Path::parse(whole).map_err(|error| format!("{}: {error}", self.url))
    }

    fn said(&self, error: &Error) -> Failure {
        match error {
            // It went between the list and the request.
            Error::NotFound { path, .. } if !path.is_empty() => {
                Failure::Series(format!("{}: {path} is no more", self.url))
            }
            _ => Failure::Store(format!("{}: {}", self.url, reason(error))),
        }
    }
}

/// The innermost reason, in a line: of a store's document its message.
fn reason(error: &Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    let text = inner.to_string();
    let message = text.split_once("<Message>").and_then(|(_, rest)| Some(rest.split_once("</Message>")?.0));
    message.unwrap_or(&text).split_whitespace().collect::<Vec<_>>().join(" ")
}
