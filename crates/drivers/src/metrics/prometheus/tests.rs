//! Against servers that are written down byte by byte. The real Prometheus is in the tests of the
//! collector.

use std::io::Write as _;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::*;

const ONE: &str = r#"{"status":"success","data":{"resultType":"matrix","result":[
    {"metric":{"a":"b"},"values":[[1,"1"],[2,"2"]]}]}}"#;
/// Longer than any answer of these tests takes.
const QUERY_TIMEOUT: Duration = Duration::from_secs(20);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn window() -> Window {
    Window { start: at(1), end: at(2), step: SignedDuration::from_millis(500) }
}

fn client(url: String) -> Prometheus {
    Prometheus::new(Address { url, token_file: None, ca_file: None }).unwrap()
}

fn http(status: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Reads one request, whole, and answers it.
async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, reply: &[u8]) -> String {
    let mut request = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).await.unwrap_or(0);
        request.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&request).into_owned();
        if read == 0 || is_whole(&text) {
            // The client may have hung up, which is what some tests want.
            let _ = stream.write_all(reply).await;
            let _ = stream.flush().await;
            return text;
        }
    }
}

fn is_whole(request: &str) -> bool {
    let Some((head, body)) = request.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.is_none_or(|length| body.len() >= length.parse().unwrap())
}

/// A server that gives every request the same answer, and what it was asked.
async fn server(reply: Vec<u8>) -> (String, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (asked, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = asked.send(answer(stream, &reply).await);
        }
    });
    (format!("http://{address}"), requests)
}

#[tokio::test]
async fn a_query_is_a_form_to_the_right_place() {
    let (url, mut requests) = server(http("200 OK", ONE)).await;
    let query = r#"up{job="a&b"} > 0"#;
    let answer = client(format!("{url}/prefix/")).range(query, window()).await.unwrap();
    assert_eq!(answer.series[0].samples, [(at(1), 1.0), (at(2), 2.0)]);
    let request = requests.recv().await.unwrap();
    assert!(request.starts_with("POST /prefix/api/v1/query_range HTTP/1.1\r\n"), "{request}");
    let body = request.split_once("\r\n\r\n").unwrap().1;
    let form = "start=1.000&end=2.000&step=0.500&timeout=15s";
    assert_eq!(body, format!("query=up%7Bjob%3D%22a%26b%22%7D+%3E+0&{form}"));

    client(url).instant("up", at(-1)).await.unwrap();
    let request = requests.recv().await.unwrap();
    assert!(request.starts_with("POST /api/v1/query HTTP/1.1\r\n"), "{request}");
    assert!(request.ends_with("query=up&time=-1.000&timeout=15s"), "{request}");
}

#[tokio::test]
async fn a_token_is_read_anew_for_every_query_and_shown_to_nobody() {
    let (url, mut requests) = server(http("200 OK", ONE)).await;
    let mut file = TempFile::new("token", b" one\n");
    let address = Address { url: url.clone(), token_file: Some(file.path.clone()), ca_file: None };
    let client = Prometheus::new(address).unwrap();
    for token in ["one", "two"] {
        client.instant("up", at(0)).await.unwrap();
        let request = requests.recv().await.unwrap();
        assert!(request.contains(&format!("\r\nauthorization: Bearer {token}\r\n")), "{request}");
        file.write(b"two");
    }
    for bad in [&b"a\r\nb"[..], b"", b"\xff"] {
        file.write(bad);
        let error = client.instant("up", at(0)).await.unwrap_err();
        assert!(matches!(error, QueryError::ReadToken { .. }), "{error}");
    }
    let secret = url.replace("http://", "http://me:hunter2@");
    let shown = format!("{:?}", super::tests::client(secret));
    assert_eq!(shown, format!("Prometheus {{ server: {url:?}, .. }}"));
}

#[tokio::test]
async fn what_goes_wrong_is_told_in_words() {
    let error = r#"{"status":"error","errorType":"execution","error":"too many samples"}"#;
    for (reply, sanitized) in [
        (http("422 Unprocessable Entity", error), "finds the query too large: execution: too many"),
        (http("400 Bad Request", &error.replace("too many", "odd")), "(HTTP 400): execution: odd"),
        (http("502 Bad Gateway", "<h1>sorry</h1>"), "refuses the query (HTTP 502)"),
        (http("302 Found\r\nLocation: http://127.0.0.1:1/", ""), "refuses the query (HTTP 302)"),
        (http("200 OK", "pong"), "makes no sense"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{".to_vec(), "cannot ask"),
        (b"\x16\x03\x01".to_vec(), "cannot ask"),
        (Vec::new(), "cannot ask"),
    ] {
        let (url, _requests) = server(reply).await;
        let client = client(url.clone());
        let asking = client.range("up", window());
        let error = tokio::time::timeout(QUERY_TIMEOUT, asking).await.unwrap().unwrap_err();
        assert!(error.to_string().contains(sanitized), "{sanitized}: {error}");
        assert!(error.to_string().contains(&url), "{url}: {error}");
    }
}

#[tokio::test]
async fn nobody_there_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://me:hunter2@{}", listener.local_addr().unwrap());
    drop(listener);
    let error = client(url).range("up", window()).await.unwrap_err().to_string();
    assert!(error.contains("refused") && !error.contains("hunter2"), "{error}");
}

#[tokio::test]
async fn a_body_is_read_no_further_than_its_bound() {
    let endless = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(1 << 20)).into_bytes();
    let (url, _requests) = server(endless).await;
    let mut client = client(url);
    client.max_body = 1000;
    let error = client.range("up", window()).await.unwrap_err();
    assert!(matches!(&error, QueryError::TooMuch { reason, .. } if reason.contains("1000 bytes")));
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = client(format!("http://{}", listener.local_addr().unwrap()));
    client.timeout = Duration::from_millis(50);
    let error = client.range("up", window()).await.unwrap_err();
    assert!(matches!(error, QueryError::TimedOut { .. }), "{error}");
}

#[tokio::test]
async fn https_trusts_the_file_and_nobody_else() {
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let der = key.signing_key.serialize_der();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .unwrap()
    .with_no_client_auth()
    .with_single_cert(vec![key.cert.der().clone()], der.try_into().unwrap())
    .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(stream) = acceptor.accept(stream).await {
                answer(stream, &http("200 OK", ONE)).await;
            }
        }
    });

    let file = TempFile::new("ca.pem", key.cert.pem().as_bytes());
    let ca_file = Some(file.path.clone());
    let trusting = Address { url: url.clone(), token_file: None, ca_file };
    let answer = Prometheus::new(trusting).unwrap().range("up", window()).await.unwrap();
    assert_eq!(answer.series.len(), 1);
    let error = client(url).range("up", window()).await.unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
}

#[test]
fn addresses_that_cannot_be_asked_are_refused_at_once() {
    let refused = |url: &str, ca_file: Option<PathBuf>| {
        let address = Address { url: url.to_owned(), token_file: None, ca_file };
        Prometheus::new(address).unwrap_err().to_string()
    };
    assert!(refused("prometheus:9090", None).contains(r#"begins with "prometheus""#));
    assert!(refused("not a url", None).contains("is not a URL"));
    assert!(refused("ftp://a", None).contains(r#"begins with "ftp""#));
    let empty = TempFile::new("empty.pem", b"");
    assert!(refused("https://a", Some(empty.path.clone())).contains("there is no certificate"));
    assert!(refused("https://a", Some("/no/such/file".into())).contains("/no/such/file"));
}

/// A file that is gone after the test.
struct TempFile {
    path: PathBuf,
}

impl TempFile {
    fn new(name: &str, content: &[u8]) -> Self {
        let name = format!("sojourn-metrics-{}-{name}", std::process::id());
        let mut file = Self { path: std::env::temp_dir().join(name) };
        file.write(content);
        file
    }

    fn write(&mut self, content: &[u8]) {
        std::fs::File::create(&self.path).unwrap().write_all(content).unwrap();
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
