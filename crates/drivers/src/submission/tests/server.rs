//! A server that does exactly what a test says, to the byte.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// A request that was read to its end.
#[derive(Debug, Clone, Default)]
pub(super) struct ReceivedRequest {
    pub method: String,
    pub target: String,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
    pub trailers: HashMap<String, String>,
}

impl ReceivedRequest {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// What happens to a connection.
pub(super) enum Script {
    /// Reads each request and answers it.
    Answer(Box<dyn FnMut(&ReceivedRequest) -> String + Send>),
    /// Answers after the head; the body is never read.
    AnswerHead(String),
    /// Closes after so many bytes of the body.
    Cut(usize),
    /// Reads the head, then nothing.
    Silence,
    /// Reads the request, sends this, then keeps the connection without a word.
    Hang(String),
}

pub(super) struct Server {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<ReceivedRequest>>>,
    task: JoinHandle<()>,
}

impl Server {
    pub(super) async fn start(script: Script) -> Self {
        Self::serve(script, None).await
    }

    pub(super) async fn start_tls(script: Script, acceptor: TlsAcceptor) -> Self {
        Self::serve(script, Some(acceptor)).await
    }

    async fn serve(script: Script, acceptor: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let mut script = script;
            let mut kept = Vec::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let stream: Box<dyn Connection> = match &acceptor {
                    None => Box::new(stream),
                    Some(acceptor) => match acceptor.accept(stream).await {
                        Ok(stream) => Box::new(stream),
                        Err(_) => continue,
                    },
                };
                // One connection after the other: a client that goes away is no failure here.
                kept.extend(play(BufReader::new(stream), &mut script, &notes).await);
            }
        });
        Self { address, seen, task }
    }

    pub(super) async fn answering(answer: &str) -> Self {
        let answer = answer.to_owned();
        Self::start(Script::Answer(Box::new(move |_| answer.clone()))).await
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(super) fn seen(&self) -> Vec<ReceivedRequest> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<C: AsyncRead + AsyncWrite + Send + Unpin> Connection for C {}

type Stream = BufReader<Box<dyn Connection>>;

/// The connection, when the script wants it kept open.
async fn play(
    mut stream: Stream,
    script: &mut Script,
    notes: &Mutex<Vec<ReceivedRequest>>,
) -> Option<Stream> {
    loop {
        let mut seen = read_head(&mut stream).await?;
        match script {
            Script::Answer(answer) => {
                read_body(&mut stream, &mut seen).await?;
                let text = answer(&seen);
                notes.lock().unwrap().push(seen);
                send(&mut stream, text.as_bytes()).await?;
            }
            Script::AnswerHead(text) => {
                send(&mut stream, text.as_bytes()).await?;
                return Some(stream);
            }
            Script::Cut(bytes) => {
                let mut some = vec![0; *bytes];
                stream.read_exact(&mut some).await.ok()?;
                return None;
            }
            Script::Silence => return Some(stream),
            Script::Hang(text) => {
                read_body(&mut stream, &mut seen).await?;
                notes.lock().unwrap().push(seen);
                send(&mut stream, text.as_bytes()).await?;
                return Some(stream);
            }
        }
    }
}

async fn send(stream: &mut Stream, text: &[u8]) -> Option<()> {
    stream.get_mut().write_all(text).await.ok()?;
    stream.get_mut().flush().await.ok()
}

async fn line(stream: &mut Stream) -> Option<String> {
    let mut line = String::new();
    let read = stream.read_line(&mut line).await.ok()?;
    (read > 0).then(|| line.trim_end().to_owned())
}

async fn fields(stream: &mut Stream) -> Option<HashMap<String, String>> {
    let mut fields = HashMap::new();
    loop {
        let line = line(stream).await?;
        if line.is_empty() {
            return Some(fields);
        }
        let (name, value) = line.split_once(':')?;
        fields.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
}

async fn read_head(stream: &mut Stream) -> Option<ReceivedRequest> {
    let first = line(stream).await?;
    let mut words = first.split(' ').map(str::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    Some(ReceivedRequest {
        method,
        target,
        headers: fields(stream).await?,
        ..ReceivedRequest::default()
    })
}

async fn read_body(stream: &mut Stream, seen: &mut ReceivedRequest) -> Option<()> {
    if seen.header("transfer-encoding") == Some("chunked") {
        loop {
            let size = usize::from_str_radix(&line(stream).await?, 16).ok()?;
            if size == 0 {
                seen.trailers = fields(stream).await?;
                return Some(());
            }
            let from = seen.body.len();
            seen.body.resize(from + size, 0);
            stream.read_exact(&mut seen.body[from..]).await.ok()?;
            line(stream).await?;
        }
    }
    let size: usize = seen.header("content-length").unwrap_or("0").parse().ok()?;
    seen.body.resize(size, 0);
    stream.read_exact(&mut seen.body).await.ok()?;
    Some(())
}
