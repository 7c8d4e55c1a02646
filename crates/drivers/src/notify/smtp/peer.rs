//! A mail server for tests that says what it is told to say.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use rcgen::CertifiedKey;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// What the server does in place of its usual answer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reply {
    /// These lines, as they are.
    Text(&'static str),
    /// The connection ends.
    Cut,
    /// Nothing, for ever. From here on the clock stands still and jumps to the next timer: before,
    /// it would have overtaken bytes that are on their way.
    Silence,
}

#[derive(Default)]
pub(super) struct PeerBehaviour {
    /// TLS from the first byte.
    pub implicit_tls: bool,
    /// What else EHLO announces, e.g. `STARTTLS`.
    pub offers: Vec<&'static str>,
    /// By the beginning of a command; `greeting` and `.` (the end of the mail) are commands too.
    pub answers: Vec<(&'static str, Reply)>,
}

/// Listens on a port of its own until it is dropped.
pub(super) struct Peer {
    pub address: SocketAddr,
    /// The certificate, which is its own authority.
    pub certificate: String,
    received_lines: Arc<Mutex<Vec<String>>>,
    server: JoinHandle<()>,
}

impl Peer {
    pub(super) async fn start(behaviour: PeerBehaviour) -> Self {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(names).unwrap();
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let received_lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let session = Session {
            behaviour,
            acceptor: TlsAcceptor::from(Arc::new(tls)),
            received_lines: received_lines.clone(),
        };
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                session.serve(stream).await;
            }
        });
        Self { address, certificate: cert.pem(), received_lines, server }
    }

    /// Every line that a client has sent, `TLS` where encryption began.
    pub(super) fn received_lines(&self) -> Vec<String> {
        self.received_lines.lock().unwrap().clone()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.server.abort();
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

struct Session {
    behaviour: PeerBehaviour,
    acceptor: TlsAcceptor,
    received_lines: Arc<Mutex<Vec<String>>>,
}

impl Session {
    async fn serve(&self, stream: TcpStream) {
        let mut stream: Box<dyn Stream> = Box::new(stream);
        if self.behaviour.implicit_tls {
            let Some(encrypted) = self.encrypt(stream).await else { return };
            stream = encrypted;
        }
        let mut command = "greeting".to_owned();
        loop {
            if !self.answer(&mut stream, &command).await {
                return;
            }
            if command == "STARTTLS" {
                let Some(encrypted) = self.encrypt(stream).await else { return };
                stream = encrypted;
            }
            let in_mail = command == "DATA" && self.scripted_reply("DATA").is_none();
            command.clear();
            loop {
                let Some(line) = read_line(&mut stream).await else { return };
                self.received_lines.lock().unwrap().push(line.clone());
                command = line;
                if !in_mail || command == "." {
                    break;
                }
            }
        }
    }

    async fn encrypt(&self, stream: Box<dyn Stream>) -> Option<Box<dyn Stream>> {
        let encrypted = self.acceptor.accept(stream).await.ok()?;
        self.received_lines.lock().unwrap().push("TLS".to_owned());
        Some(Box::new(encrypted))
    }

    fn scripted_reply(&self, command: &str) -> Option<Reply> {
        let mut answers = self.behaviour.answers.iter();
        answers.find(|(start, _)| command.starts_with(start)).map(|(_, say)| *say)
    }

    /// Whether the session goes on.
    async fn answer(&self, stream: &mut Box<dyn Stream>, command: &str) -> bool {
        let usual = match command.split(' ').next().unwrap_or_default() {
            "greeting" => "220 peer ESMTP\r\n".to_owned(),
            "EHLO" => {
                let offers = self.behaviour.offers.iter();
                let offers: String = offers.map(|offer| format!("250-{offer}\r\n")).collect();
                format!("250-peer\r\n{offers}250 SIZE 100000\r\n")
            }
            "AUTH" => "235 welcome\r\n".to_owned(),
            "DATA" => "354 go on\r\n".to_owned(),
            "QUIT" => "221 bye\r\n".to_owned(),
            "STARTTLS" => "220 ready\r\n".to_owned(),
            _ => "250 fine\r\n".to_owned(),
        };
        let text = match self.scripted_reply(command) {
            None => usual.as_str(),
            Some(Reply::Text(text)) => text,
            Some(Reply::Cut) => return false,
            Some(Reply::Silence) => {
                tokio::time::pause();
                std::future::pending().await
            }
        };
        stream.write_all(text.as_bytes()).await.is_ok() && command != "QUIT"
    }
}

async fn read_line(stream: &mut Box<dyn Stream>) -> Option<String> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.push(stream.read_u8().await.ok()?);
    }
    line.truncate(line.len() - 2);
    Some(String::from_utf8_lossy(&line).into_owned())
}
