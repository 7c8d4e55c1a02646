//! How mail leaves: `smtp-config.yaml` in the folder of mail settings.
//!
//! | key | meaning |
//! |---|---|
//! | `smtpServer`, `smtpPort` | where to |
//! | `smtpFrom` | the sender: `lab@example.org` or `Lab <lab@example.org>` |
//! | `smtpUsername` with `smtpPassword` or `smtpPasswordFile` | for AUTH; all or none |
//! | `smtpIdentity` | whom to act as, when not the user itself (AUTH PLAIN only) |
//! | `encryption` | `StartTLS`, `TLS` (from the first byte) or `None` (this machine only); without it, `TLS` on port 465 and `StartTLS` elsewhere |
//! | `caFile` | the only authorities to trust, instead of the machine's |
//! | `timeZone` | in which mails show times; `UTC` when it is not there |
//!
//! Files are named relative to the folder. Nothing is read before somebody asks for it.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use lettre::message::Mailbox;
use serde::Deserialize;

use super::moment::Zone;
use super::plain::one_line;

/// The file in the folder of settings.
pub const FILE: &str = "smtp-config.yaml";
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// The port that RFC 8314 gives to mail over TLS from the first byte.
const TLS_PORT: u16 = 465;

/// Settings that have been checked. The password is in them, and not in what `Debug` shows.
#[derive(Debug, Clone)]
pub struct Settings {
    pub(super) server: String,
    pub(super) port: u16,
    pub(super) from: Mailbox,
    pub(super) login: Option<Login>,
    pub(super) encryption: Encryption,
    /// PEM.
    pub(super) authorities: Option<Vec<u8>>,
    zone: Zone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Encryption {
    StartTLS,
    TLS,
    None,
}

#[derive(Clone)]
pub(super) struct Login {
    pub username: String,
    pub password: String,
    pub identity: Option<String>,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("username", &self.username).finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("cannot read {}: {source}", file.display())]
    ReadFile { file: PathBuf, source: io::Error },
    #[error("{} is larger than {MAX_FILE_BYTES} bytes", file.display())]
    TooLarge { file: PathBuf },
    #[error("{} does not hold mail settings: {why}", file.display())]
    Parse { file: PathBuf, why: String },
    #[error("{} lacks {}", file.display(), keys.join(", "))]
    Missing { file: PathBuf, keys: Vec<&'static str> },
    #[error("{}: {key}: {why}", file.display())]
    Value { file: PathBuf, key: &'static str, why: String },
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    smtp_server: Option<String>,
    smtp_port: Option<u16>,
    smtp_username: Option<String>,
    smtp_password: Option<String>,
    smtp_password_file: Option<PathBuf>,
    smtp_from: Option<String>,
    smtp_identity: Option<String>,
    encryption: Option<Encryption>,
    ca_file: Option<PathBuf>,
    time_zone: Option<String>,
}

/// The files that the settings in `folder` are read from, as far as they can be read.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let file = folder.join(FILE);
    let named = parse(&file).ok().map(|written| [written.smtp_password_file, written.ca_file]);
    let named = named.into_iter().flatten().flatten().map(|named| folder.join(named));
    std::iter::once(file).chain(named).collect()
}

impl Settings {
    /// Reads and checks the settings in `folder`.
    pub fn read(folder: &Path) -> Result<Self, SettingsError> {
        let file = folder.join(FILE);
        let mut written = parse(&file)?;
        for text in [&mut written.smtp_server, &mut written.smtp_from, &mut written.smtp_username] {
            *text = text.take().filter(|text| !text.trim().is_empty());
        }
        let password = match (written.smtp_password.take(), &written.smtp_password_file) {
            (Some(_), Some(_)) => {
                let why = "stands beside smtpPassword; give one of them".to_owned();
                return Err(SettingsError::Value { file, key: "smtpPasswordFile", why });
            }
            (Some(password), None) => Some(password),
            (None, Some(named)) => Some(read_password(&folder.join(named))?),
            (None, None) => None,
        };
        let password = password.filter(|password| !password.is_empty());
        let authorities = match &written.ca_file {
            Some(named) => Some(read(&folder.join(named))?),
            None => None,
        };
        check(file, written, password, authorities)
    }

    pub fn server(&self) -> &str {
        &self.server
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The sender, as mails show it.
    pub fn from(&self) -> String {
        self.from.to_string()
    }

    pub const fn encryption(&self) -> Encryption {
        self.encryption
    }

    /// In which mails show times.
    pub const fn zone(&self) -> &Zone {
        &self.zone
    }
}

fn check(
    file: PathBuf,
    written: Written,
    password: Option<String>,
    authorities: Option<Vec<u8>>,
) -> Result<Settings, SettingsError> {
    let lacking = missing(&written, password.is_some());
    let (Some(server), Some(port), Some(from), true) =
        (written.smtp_server, written.smtp_port, written.smtp_from, lacking.is_empty())
    else {
        return Err(SettingsError::Missing { file, keys: lacking });
    };
    let bad = |key, why: String| SettingsError::Value { file: file.clone(), key, why };
    let from: Mailbox = from.trim().parse().map_err(|error| {
        bad("smtpFrom", format!("{:?} is no mail address: {error}", one_line(&from, 100)))
    })?;
    if !from.email.user().is_ascii() || !from.email.domain().is_ascii() {
        return Err(bad("smtpFrom", "write the address in ASCII (xn--…)".to_owned()));
    }
    let server = server.trim().to_owned();
    if server.contains(|c: char| c.is_whitespace() || c.is_control() || "/@[]".contains(c)) {
        let why = format!("{:?} is no host name or address", one_line(&server, 100));
        return Err(bad("smtpServer", why));
    }
    let by_port = if port == TLS_PORT { Encryption::TLS } else { Encryption::StartTLS };
    let encryption = written.encryption.unwrap_or(by_port);
    if encryption == Encryption::None && !is_this_machine(&server) {
        let why = format!("None is for this machine only, and {server} may be another");
        return Err(bad("encryption", why));
    }
    let zone = written.time_zone.as_deref().map_or_else(|| Ok(Zone::utc()), Zone::named);
    let zone = zone.map_err(|error| bad("timeZone", error.to_string()))?;
    let identity = written.smtp_identity.filter(|identity| !identity.is_empty());
    let login = match (written.smtp_username, password) {
        (Some(username), Some(password)) => Some(Login { username, password, identity }),
        _ if identity.is_some() => {
            return Err(bad("smtpIdentity", "needs smtpUsername and a password".to_owned()));
        }
        _ => None,
    };
    let texts = login
        .iter()
        .flat_map(|login| [Some(&login.username), Some(&login.password), login.identity.as_ref()]);
    if texts.flatten().any(|text| text.contains('\0')) {
        return Err(bad("smtpUsername", "a login cannot hold the character NUL".to_owned()));
    }
    Ok(Settings { server, port, from, login, encryption, authorities, zone })
}

/// The keys that have to be there and are not, all at once.
fn missing(written: &Written, password: bool) -> Vec<&'static str> {
    let user = written.smtp_username.is_some();
    let lacking = [
        (written.smtp_server.is_none(), "smtpServer"),
        (written.smtp_port.is_none_or(|port| port == 0), "smtpPort"),
        (written.smtp_from.is_none(), "smtpFrom"),
        (password && !user, "smtpUsername"),
        (user && !password, "smtpPassword (or smtpPasswordFile)"),
    ];
    lacking.into_iter().filter_map(|(lacks, key)| lacks.then_some(key)).collect()
}

fn parse(file: &Path) -> Result<Written, SettingsError> {
    let failed = |why: String| SettingsError::Parse { file: file.to_owned(), why };
    let text = String::from_utf8(read(file)?).map_err(|error| failed(error.to_string()))?;
    // No piece of the file in the message: the password may be next to what is wrong.
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(&text, options)
        .map_err(|error| failed(one_line(&error.without_snippet().to_string(), 300)))
}

fn read_password(file: &Path) -> Result<String, SettingsError> {
    let text = String::from_utf8(read(file)?).map_err(|_| SettingsError::Parse {
        file: file.to_owned(),
        why: "the password is not UTF-8".to_owned(),
    })?;
    // Editors and `echo` end a file with a line break that is not part of the password.
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn read(file: &Path) -> Result<Vec<u8>, SettingsError> {
    let reading = |source| SettingsError::ReadFile { file: file.to_owned(), source };
    let mut bytes = Vec::new();
    let opened = File::open(file).map_err(reading)?;
    opened.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(reading)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(SettingsError::TooLarge { file: file.to_owned() });
    }
    Ok(bytes)
}

/// Whether `server` cannot but mean this machine. What it resolves to is looked at again when
/// connecting.
fn is_this_machine(server: &str) -> bool {
    let address = server.parse::<IpAddr>().map(|address| address.to_canonical().is_loopback());
    address.unwrap_or_else(|_| server.eq_ignore_ascii_case("localhost"))
}

#[cfg(test)]
mod tests;
