//! The mail channel: one connection and one mail for each attempt.
//!
//! | here                                  | in                |
//! |---------------------------------------|-------------------|
//! | the exchange with the server, bounded | this file         |
//! | what the mail looks like              | `message`         |
//! | what a server may say before TLS      | `wire`            |
//!
//! Whose fault a refusal is decides whether it is for good. Until the recipient is named the server
//! speaks about us (greeting, encryption, login, sender), and somebody can mend that: every such
//! failure is worth another attempt. From there on a 5xx answer is about this notice.

mod message;
#[cfg(test)]
mod peer;
#[cfg(test)]
mod tests;
mod wire;

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use lettre::address::Envelope;
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS, Mechanism};
use lettre::transport::smtp::client::{
    AsyncSmtpConnection, Certificate, CertificateStore, TlsParameters,
};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::{ClientId, Extension, MailBodyParameter, MailParameter};
use lettre::transport::smtp::response::{Response, Severity};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout, timeout_at};

use self::wire::Wire;
use super::plain::one_line;
use super::settings::{Encryption, Login, Settings};
use super::template::Templates;
use super::{Channel, Notice, SendError};

/// From the first byte to the answer to the last. Some servers look into a mail for a while before
/// they take it, and who gives up too early sends it twice.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(120);
/// For one address; a name may have several, of which the first may be dead.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// To say goodbye, which changes nothing.
const QUIT_TIMEOUT: Duration = Duration::from_secs(3);
/// What a server says is shown up to here.
const MAX_ANSWER_BYTES: usize = 300;

/// Mail over SMTP.
pub struct Smtp {
    settings: Settings,
    tls: Option<TlsParameters>,
    hello: ClientId,
    templates: Arc<Templates>,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot prepare TLS for the mail server {server}: {why}")]
pub struct TlsError {
    server: String,
    why: String,
}

impl Smtp {
    /// Connects to nobody yet.
    pub fn new(settings: Settings, templates: Arc<Templates>) -> Result<Self, TlsError> {
        let tls = match settings.encryption {
            Encryption::None => None,
            Encryption::StartTLS | Encryption::TLS => Some(tls(&settings)?),
        };
        // Relays know the domain for which they send; an address behind a NAT says nothing.
        let hello = ClientId::Domain(settings.from.email.domain().to_owned());
        Ok(Self { settings, tls, hello, templates })
    }

    async fn deliver(&self, notice: &Notice) -> Result<(), SendError> {
        // Templates were checked when they were loaded; one that fails all the same can be mended.
        let rendered = self.templates.render(notice);
        let rendered = rendered.map_err(|error| SendError::Transient(error.to_string()))?;
        let mail = message::compose(&self.settings.from, notice, rendered)?;
        let deadline = Instant::now() + EXCHANGE_TIMEOUT;
        let mut connection = self.step(Stage::Connect, deadline, self.connect()).await?;
        if self.settings.encryption == Encryption::StartTLS {
            // Nothing is said after a failure here: the stream is in no state for it.
            self.step(Stage::Encrypt, deadline, self.start_tls(&mut connection)).await?;
        }
        let sent =
            self.exchange(&mut connection, deadline, mail.envelope(), &mail.formatted()).await;
        let _ = timeout(QUIT_TIMEOUT, connection.abort()).await;
        sent
    }

    async fn exchange(
        &self,
        connection: &mut AsyncSmtpConnection,
        deadline: Instant,
        envelope: &Envelope,
        mail: &[u8],
    ) -> Result<(), SendError> {
        if let Some(login) = &self.settings.login {
            self.step(Stage::LogIn, deadline, log_in(connection, login)).await?;
        }
        let options = options(connection, mail)?;
        let sender = Mail::new(envelope.from().cloned(), options);
        self.step(Stage::Sender, deadline, ask(connection, sender)).await?;
        for recipient in envelope.to() {
            let recipient = Rcpt::new(recipient.clone(), Vec::new());
            self.step(Stage::Recipient, deadline, ask(connection, recipient)).await?;
        }
        let begin = async {
            let answer = connection.command(Data).await?;
            expect(&answer, Severity::PositiveIntermediate)
        };
        self.step(Stage::Data, deadline, begin).await?;
        let send = async {
            let answer = connection.message(mail).await?;
            expect(&answer, Severity::PositiveCompletion)
        };
        self.step(Stage::Message, deadline, send).await
    }

    /// One step before the deadline, with a failure in words.
    async fn step<T>(
        &self,
        stage: Stage,
        deadline: Instant,
        work: impl Future<Output = Result<T, SmtpFailure>>,
    ) -> Result<T, SendError> {
        let trouble = match timeout_at(deadline, work).await {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(trouble)) => trouble,
            Err(_) => SmtpFailure::TooSlow,
        };
        let Settings { server, port, .. } = &self.settings;
        let words = format!("{stage} {server}:{port}: {trouble}");
        if trouble.is_final() && stage.is_about_the_notice() {
            return Err(SendError::Refused(words));
        }
        if stage == Stage::Message && !trouble.is_answer() {
            return Err(SendError::Transient(format!("{words}; it may have arrived")));
        }
        Err(SendError::Transient(words))
    }

    async fn connect(&self) -> Result<AsyncSmtpConnection, SmtpFailure> {
        let server = (self.settings.server.as_str(), self.settings.port);
        let connected = match (self.settings.encryption, &self.tls) {
            (Encryption::TLS, Some(tls)) => {
                let (limit, tls) = (Some(CONNECT_TIMEOUT), Some(tls.clone()));
                AsyncSmtpConnection::connect_tokio1(server, limit, &self.hello, tls, None).await
            }
            _ => {
                let (stream, address) = connect_tcp(server).await?;
                let here = address.ip().to_canonical().is_loopback();
                if self.settings.encryption == Encryption::None && !here {
                    return Err(SmtpFailure::Elsewhere(address));
                }
                let wire = Box::new(Wire::new(stream));
                AsyncSmtpConnection::connect_with_transport(wire, &self.hello).await
            }
        };
        Ok(connected?)
    }

    async fn start_tls(&self, connection: &mut AsyncSmtpConnection) -> Result<(), SmtpFailure> {
        let Some(tls) = self.tls.clone().filter(|_| connection.can_starttls()) else {
            return Err(SmtpFailure::Offers("STARTTLS"));
        };
        Ok(connection.starttls(tls, &self.hello).await?)
    }
}

impl Channel for Smtp {
    fn name(&self) -> &'static str {
        "smtp"
    }

    fn send<'a>(&'a self, notice: &'a Notice) -> BoxFuture<'a, Result<(), SendError>> {
        Box::pin(self.deliver(notice))
    }
}

impl fmt::Debug for Smtp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Smtp").field("settings", &self.settings).finish_non_exhaustive()
    }
}

fn tls(settings: &Settings) -> Result<TlsParameters, TlsError> {
    let failed = |why: String| TlsError { server: settings.server.clone(), why };
    let mut builder = TlsParameters::builder(settings.server.clone());
    if let Some(pem) = &settings.authorities {
        if !pem.windows(10).any(|window| window == b"-----BEGIN") {
            return Err(failed("caFile holds no certificate".to_owned()));
        }
        let authorities = Certificate::from_pem(pem)
            .map_err(|error| failed(format!("caFile: {}", one_line(&error.to_string(), 200))))?;
        builder =
            builder.certificate_store(CertificateStore::None).add_root_certificate(authorities);
    }
    builder.build_rustls().map_err(|error| failed(one_line(&error.to_string(), 200)))
}

/// The first address of the name that answers.
async fn connect_tcp(server: (&str, u16)) -> Result<(TcpStream, SocketAddr), SmtpFailure> {
    let mut last = SmtpFailure::Io(io::Error::other("the name has no address"));
    for address in lookup_host(server).await.map_err(SmtpFailure::Io)? {
        match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok((stream, address)),
            Ok(Err(error)) => last = SmtpFailure::Io(error),
            Err(_) => last = SmtpFailure::TooSlow,
        }
    }
    Err(last)
}

async fn log_in(connection: &mut AsyncSmtpConnection, login: &Login) -> Result<(), SmtpFailure> {
    let info = connection.server_info();
    let Some(identity) = &login.identity else {
        if info.get_auth_mechanism(DEFAULT_MECHANISMS).is_none() {
            return Err(SmtpFailure::Offers("AUTH PLAIN or LOGIN"));
        }
        let credentials = Credentials::new(login.username.clone(), login.password.clone());
        connection.auth(DEFAULT_MECHANISMS, &credentials).await?;
        return Ok(());
    };
    if !info.supports_auth_mechanism(Mechanism::Plain) {
        return Err(SmtpFailure::Offers("AUTH PLAIN, which smtpIdentity needs"));
    }
    let secret = STANDARD.encode(format!("{identity}\0{}\0{}", login.username, login.password));
    ask(connection, format!("AUTH PLAIN {secret}\r\n")).await
}

/// What the server has to be told about characters beyond ASCII: only the address in a header can
/// bring them, everything else is encoded.
fn options(connection: &AsyncSmtpConnection, mail: &[u8]) -> Result<Vec<MailParameter>, SendError> {
    if mail.is_ascii() {
        return Ok(Vec::new());
    }
    let info = connection.server_info();
    if info.supports_feature(Extension::SmtpUtfEight)
        && info.supports_feature(Extension::EightBitMime)
    {
        let body = MailParameter::Body(MailBodyParameter::EightBitMime);
        return Ok(vec![MailParameter::SmtpUtfEight, body]);
    }
    let words = "the mail server takes no address with letters beyond ASCII".to_owned();
    Err(SendError::Refused(words))
}

/// A command that is answered with a plain yes.
async fn ask(
    connection: &mut AsyncSmtpConnection,
    command: impl fmt::Display,
) -> Result<(), SmtpFailure> {
    let answer = connection.command(command).await?;
    expect(&answer, Severity::PositiveCompletion)
}

fn expect(answer: &Response, severity: Severity) -> Result<(), SmtpFailure> {
    if answer.code().severity == severity {
        return Ok(());
    }
    let words: Vec<_> = answer.message().collect();
    Err(SmtpFailure::OutOfTurn(format!("{} {}", answer.code(), words.join(" "))))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Connect,
    Encrypt,
    LogIn,
    Sender,
    Recipient,
    Data,
    Message,
}

impl Stage {
    const fn is_about_the_notice(self) -> bool {
        match self {
            Self::Recipient | Self::Data | Self::Message => true,
            Self::Connect | Self::Encrypt | Self::LogIn | Self::Sender => false,
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connecting to",
            Self::Encrypt => "starting TLS with",
            Self::LogIn => "logging in at",
            Self::Sender => "naming the sender to",
            Self::Recipient => "naming the recipient to",
            Self::Data => "asking to send to",
            Self::Message => "sending the mail to",
        })
    }
}

/// What went wrong in a step.
#[derive(Debug)]
enum SmtpFailure {
    Io(io::Error),
    Smtp(SmtpError),
    TooSlow,
    /// A server without encryption that is not on this machine.
    Elsewhere(SocketAddr),
    /// It does not offer what is needed.
    Offers(&'static str),
    /// It said yes to something else than was asked.
    OutOfTurn(String),
}

impl SmtpFailure {
    /// A 5xx answer.
    fn is_final(&self) -> bool {
        matches!(self, Self::Smtp(error) if error.is_permanent())
    }

    /// The server said no.
    fn is_answer(&self) -> bool {
        matches!(self, Self::Smtp(error) if error.status().is_some())
    }
}

impl From<SmtpError> for SmtpFailure {
    fn from(error: SmtpError) -> Self {
        Self::Smtp(error)
    }
}

impl fmt::Display for SmtpFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Smtp(error) => {
                let source = std::error::Error::source(error).map(ToString::to_string);
                let words = source.map(|source| one_line(&source, MAX_ANSWER_BYTES));
                match (error.status(), words) {
                    (Some(code), Some(words)) => write!(f, "it answered {code} {words}"),
                    (None, Some(words)) => f.write_str(&words),
                    (_, None) => f.write_str(&one_line(&error.to_string(), MAX_ANSWER_BYTES)),
                }
            }
            Self::TooSlow => f.write_str("no answer in time"),
            Self::Elsewhere(address) => {
                write!(f, "{address} is not on this machine, and encryption is None")
            }
            Self::Offers(what) => write!(f, "it does not offer {what}"),
            Self::OutOfTurn(answer) => {
                write!(f, "it answered out of turn: {}", one_line(answer, MAX_ANSWER_BYTES))
            }
        }
    }
}
