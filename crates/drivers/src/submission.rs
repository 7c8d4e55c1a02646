//! Hands a volume in: archives it while it is being sent, and brings a receipt back.
//!
//! This is what the Job of a submission runs. One call is one attempt; whether and when there is
//! another is decided elsewhere. Every attempt for the same submission carries the same
//! `Idempotency-Key`, so a server can tell a repetition from a second submission.
//!
//! | method      | request                                                | digest                       |
//! |-------------|--------------------------------------------------------|------------------------------|
//! | `Multipart` | POST of a form: `filename`, `binfile`, `sha256`        | the field `sha256`, last     |
//! | `Put`       | PUT of the archive; to a URL that ends in `/`, the     | `Content-Digest` as trailer  |
//! |             | name is added                                          |                              |
//! | `S3`        | the object `<filename>.zip` below the URL's path, whose| `x-amz-meta-sha256`, and a   |
//! |             | first part is the bucket                               | signature over every part    |
//!
//! `Multipart` and `Put` read the volume once, send it in chunks of no announced length, and
//! therefore tell the digest last. A server that wants the length (411, or 501 as some say it) gets
//! what it wants: the archive is measured, then sent with its length and digest in front.
//!
//! `S3` measures first, because an object's digest has to be known before its data. That is what
//! makes a repetition harmless: an object that is there with our digest is our submission.
//!
//! Memory does not grow with the volume, only with the number of its files. Nothing is written to
//! disk. Redirects are not followed and no proxy is used, so the address that was allowed is the one
//! that gets the archive.

mod answer;
mod archive;
mod credential;
mod name;
mod packing;
mod peer;
mod receipt;
mod s3;
mod send;
#[cfg(test)]
mod tests;
mod zipfile;

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

pub use archive::ArchiveError;
pub use credential::CredentialError;
pub use receipt::{MAX_TERMINATION_MESSAGE, MessageError, Receipt};

use crate::trust::TrustError;

use archive::Volume;
use peer::Peer;

/// How long a connection may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long nothing may move. The whole has no limit: a large volume takes its time.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(120);

/// The longest `filename`, so that a file system can keep it with `.zip`.
const MAX_FILENAME: usize = 200;

/// The longest `idempotency_key`.
const MAX_KEY: usize = 255;

/// How an archive is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Multipart,
    Put,
    S3,
}

/// A method by a name that it does not have.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no method of submission: Multipart, Put or S3")]
pub struct UnknownMethod(String);

impl FromStr for Method {
    type Err = UnknownMethod;

    fn from_str(name: &str) -> Result<Self, UnknownMethod> {
        match name {
            "Multipart" => Ok(Self::Multipart),
            "Put" => Ok(Self::Put),
            "S3" => Ok(Self::S3),
            _ => Err(UnknownMethod(name.to_owned())),
        }
    }
}

/// What is to be handed in, and where.
#[derive(Clone)]
pub struct SubmissionRequest {
    /// The volume: a folder, or with `block` a device or a plain file that stands for one.
    pub root: PathBuf,
    pub block: bool,
    /// What the archive is called, without `.zip`: letters, digits, `.`, `-` and `_`.
    pub filename: String,
    pub url: String,
    pub method: Method,
    /// A folder with `token`, or `username` and `password`; for S3 `accessKeyId`,
    /// `secretAccessKey`, and where needed `region` and `sessionToken`.
    pub secret_dir: Option<PathBuf>,
    /// Certificates that are trusted besides the system's, in PEM.
    pub ca_file: Option<PathBuf>,
    /// The same for every attempt of one submission, and for no other: visible ASCII.
    pub idempotency_key: String,
    pub connect_timeout: Duration,
    pub stall_timeout: Duration,
}

impl fmt::Debug for SubmissionRequest {
    /// A signed URL is a credential, so no URL is shown with its query.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Order")
            .field("root", &self.root)
            .field("block", &self.block)
            .field("filename", &self.filename)
            .field("url", &self.url.split(['?', '#']).next().unwrap_or_default())
            .field("method", &self.method)
            .field("secret_dir", &self.secret_dir)
            .field("ca_file", &self.ca_file)
            .field("idempotency_key", &self.idempotency_key)
            .finish_non_exhaustive()
    }
}

impl SubmissionRequest {
    fn volume(&self) -> Volume {
        if self.block { Volume::Disk(self.root.clone()) } else { Volume::Files(self.root.clone()) }
    }

    fn zip_name(&self) -> String {
        format!("{}.zip", self.filename)
    }

    fn check(&self) -> Result<(), SubmitError> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if self.filename.is_empty()
            || self.filename.len() > MAX_FILENAME
            || self.filename.starts_with('.')
            || !self.filename.chars().all(fits)
        {
            return Err(SubmitError::SubmissionRequest(
                "filename must be 1 to 200 letters, digits, '.', '-' and '_', not starting with '.'",
            ));
        }
        let key = &self.idempotency_key;
        if key.is_empty() || key.len() > MAX_KEY || !key.bytes().all(|c| c.is_ascii_graphic()) {
            return Err(SubmitError::SubmissionRequest(
                "the idempotency key must be 1 to 255 visible ASCII characters",
            ));
        }
        Ok(())
    }
}

/// How far an attempt is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Bytes of the archive that were measured, before any is sent.
    Measured { bytes: u64 },
    /// Bytes of the archive that were sent.
    Sent { bytes: u64 },
}

/// Why an attempt failed. Nothing counts as handed in.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    #[error("this cannot be submitted: {0}")]
    SubmissionRequest(&'static str),
    #[error("cannot use the URL {url:?}: {why}")]
    Url { url: String, why: &'static str },
    #[error(transparent)]
    Credential(#[from] CredentialError),
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error("cannot prepare a connection to {host}")]
    Prepare { host: String, source: io::Error },
    #[error("cannot find the address of {host}")]
    Resolve { host: String, source: io::Error },
    #[error("{host} has the addresses {addresses:?}, and uploads may go to none of them")]
    NotAllowed { host: String, addresses: Vec<IpAddr> },
    #[error("cannot {doing} at {url}")]
    Exchange { doing: &'static str, url: String, source: reqwest::Error },
    #[error("cannot {doing} at {url}: nothing moved for {after:?}")]
    Stalled { doing: &'static str, url: String, after: Duration },
    #[error("cannot {doing} at {url}: the answer is {status} {words:?}")]
    Refused { doing: &'static str, url: String, status: u16, words: String },
    #[error("cannot {doing} at {url}: the answer {status} came before the whole archive was sent")]
    AnsweredEarly { doing: &'static str, url: String, status: u16 },
    #[error("cannot {doing} at {url}: the answer makes no sense: {words:?}")]
    Answer { doing: &'static str, url: String, words: String },
    #[error("the volume changed between measuring and sending it")]
    Changed,
    #[error("the archive has {size} bytes, more than the {limit} that S3 takes from us")]
    TooLarge { size: u64, limit: u64 },
}

/// Archives the volume and hands it in, once. `allow` says which addresses may get it; `progress`
/// is called now and then, at most a few times a second.
pub async fn submit(
    submission: SubmissionRequest,
    allow: &(dyn Fn(IpAddr) -> bool + Send + Sync),
    progress: impl Fn(Progress) + Send + Sync,
) -> Result<Receipt, SubmitError> {
    submission.check()?;
    let peer = Peer::find(&submission, allow, &progress).await?;
    match submission.method {
        Method::Multipart | Method::Put => send::send(&peer, &submission).await,
        Method::S3 => s3::send(&peer, &submission).await,
    }
}
