//! Credentials from a folder, as a Secret is mounted: one file for each key.

use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::HeaderValue;

/// No credential is longer.
const MAX_LENGTH: u64 = 64 * 1024;

/// Where a service does not say its region, this is what it understands.
const DEFAULT_REGION: &str = "us-east-1";

/// Why credentials cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    #[error("cannot read the credential {path:?}")]
    Read { path: PathBuf, source: io::Error },
    #[error("the credential {path:?} is empty, longer than {MAX_LENGTH} bytes or not one line")]
    Unusable { path: PathBuf },
    #[error("the folder of credentials {folder:?} has no {missing}")]
    Missing { folder: PathBuf, missing: &'static str },
    #[error("S3 needs a folder of credentials with accessKeyId and secretAccessKey")]
    NoFolder,
}

/// A value that is not shown.
#[derive(Clone)]
pub(super) struct Hidden(String);

impl Hidden {
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// The `Authorization` of plain HTTP: `token` as Bearer, or else `username` and `password` as Basic.
pub(super) fn authorization(folder: &Path) -> Result<HeaderValue, CredentialError> {
    let (text, path) = if let Some(token) = read(folder, "token")? {
        (format!("Bearer {}", token.reveal()), folder.join("token"))
    } else {
        let missing = "token, and no username with a password";
        let user = require(folder, "username", missing)?;
        let password = require(folder, "password", missing)?;
        let pair = BASE64_STANDARD.encode(format!("{}:{}", user.reveal(), password.reveal()));
        (format!("Basic {pair}"), folder.join("username"))
    };
    let mut value = HeaderValue::from_str(&text).map_err(|_| CredentialError::Unusable { path })?;
    value.set_sensitive(true);
    Ok(value)
}

/// What signs requests to S3.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    pub access_key_id: String,
    pub secret_access_key: Hidden,
    pub session_token: Option<Hidden>,
    pub region: String,
}

impl Keys {
    #[cfg(test)]
    pub(super) fn for_test(id: &str, secret: &str) -> Self {
        Self {
            access_key_id: id.to_owned(),
            secret_access_key: Hidden(secret.to_owned()),
            session_token: None,
            region: DEFAULT_REGION.to_owned(),
        }
    }

    pub(super) fn read(folder: Option<&Path>) -> Result<Self, CredentialError> {
        let folder = folder.ok_or(CredentialError::NoFolder)?;
        Ok(Self {
            access_key_id: require(folder, "accessKeyId", "accessKeyId")?.0,
            secret_access_key: require(folder, "secretAccessKey", "secretAccessKey")?,
            session_token: read(folder, "sessionToken")?,
            region: read(folder, "region")?
                .map_or_else(|| DEFAULT_REGION.to_owned(), |region| region.0),
        })
    }
}

fn require(folder: &Path, key: &str, missing: &'static str) -> Result<Hidden, CredentialError> {
    read(folder, key)?
        .ok_or_else(|| CredentialError::Missing { folder: folder.to_owned(), missing })
}

/// One key, without the line break that editors add; `None` where there is no such file.
fn read(folder: &Path, key: &str) -> Result<Option<Hidden>, CredentialError> {
    let path = folder.join(key);
    let mut text = String::new();
    let read = std::fs::File::open(&path)
        .and_then(|file| file.take(MAX_LENGTH + 1).read_to_string(&mut text));
    let length = match read {
        Ok(length) => length,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(CredentialError::Read { path, source }),
    };
    let value = text.trim_end_matches(['\r', '\n']);
    let too_long = u64::try_from(length).is_ok_and(|length| length > MAX_LENGTH);
    if too_long || value.is_empty() || value.contains(char::is_control) {
        return Err(CredentialError::Unusable { path });
    }
    Ok(Some(Hidden(value.to_owned())))
}
