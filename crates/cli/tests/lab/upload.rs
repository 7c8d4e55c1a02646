//! A server that exams are handed in to: Multipart and Put, stored on disk while they come.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs::File;
use std::io::{Read, Seek as _, SeekFrom, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::fixture::OUTSIDE;
use crate::folder::Folder;
use crate::process::Running;
use crate::survivors;
use crate::tool::Tools;
use crate::wait::{EVENTUALLY_TIMEOUT, within};

/// Within so much of either end of a multipart body everything but the file is found.
const EDGE: u64 = 16 << 10;

/// Something that was handed in, whole.
#[derive(Debug, Clone)]
pub(crate) struct Upload {
    pub(crate) path: String,
    pub(crate) method: Method,
    /// What the form calls it.
    pub(crate) filename: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) authorization: Option<String>,
    pub(crate) size: u64,
    pub(crate) file: PathBuf,
    /// Where in the file the archive begins.
    offset: u64,
}

impl Upload {
    /// By a program that has nothing to do with ours.
    pub(crate) fn sha256(&self) -> String {
        let mut tail = Command::new("tail");
        tail.arg("-c").arg(format!("+{}", self.offset + 1)).arg(&self.file);
        let mut tail = tail.stdout(std::process::Stdio::piped()).spawn().expect("tail is there");
        let pipe = tail.stdout.take().expect("piped");
        let sum = Command::new("sha256sum").stdin(pipe).output().expect("sha256sum is there");
        assert!(tail.wait().expect("it is ours").success());
        let text = String::from_utf8(sum.stdout).expect("text");
        text.split_whitespace().next().expect("a sum").to_owned()
    }

    /// Name and size of everything in the archive, as Python reads it; it checks every sum.
    pub(crate) fn entries(&self, python: &Path) -> BTreeMap<String, u64> {
        const READ: &str = "\
import json, sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
assert archive.testzip() is None
print(json.dumps({entry.filename: entry.file_size for entry in archive.infolist()}))";
        let read = Command::new(python).args(["-c", READ]).arg(&self.file).output();
        let read = read.expect("python starts");
        assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
        serde_json::from_slice(&read.stdout).expect("JSON")
    }
}

#[derive(Debug, Default)]
struct UploadState {
    uploads: Vec<Upload>,
    /// Every request, also those that were answered with an error or never ended.
    attempts: Vec<Option<String>>,
    /// How each process was that sent something under a key, in the kernel's words.
    senders: Vec<String>,
    failures: u32,
}

#[derive(Debug)]
pub(crate) struct Uploads {
    address: SocketAddr,
    state: Arc<Mutex<UploadState>>,
    serving: JoinHandle<()>,
    _folder: Arc<Folder>,
}

impl Uploads {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind((OUTSIDE, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let state = Arc::new(Mutex::new(UploadState::default()));
        let folder = Arc::new(Folder::new());
        let serving = tokio::spawn(serve(listener, state.clone(), folder.clone()));
        Self { address, state, serving, _folder: folder }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Answers so many requests with an error, after it has read them to their end.
    pub(crate) fn fail(&self, times: u32) {
        lock(&self.state).failures = times;
    }

    pub(crate) fn to(&self, path: &str) -> Vec<Upload> {
        let state = lock(&self.state);
        state.uploads.iter().filter(|upload| upload.path == path).cloned().collect()
    }

    /// How often it was tried under each Idempotency-Key.
    pub(crate) fn attempts(&self) -> BTreeMap<Option<String>, usize> {
        let mut attempts = BTreeMap::new();
        for key in &lock(&self.state).attempts {
            *attempts.entry(key.clone()).or_default() += 1;
        }
        attempts
    }

    /// `/proc/PID/status` of every process that handed something in, while it did.
    pub(crate) fn senders(&self) -> Vec<String> {
        lock(&self.state).senders.clone()
    }

    /// Waits until something was handed in there, once.
    pub(crate) async fn wait_for(&self, path: &str) -> Upload {
        self.wait_long_for(path, EVENTUALLY_TIMEOUT).await
    }

    pub(crate) async fn wait_long_for(&self, path: &str, bound: std::time::Duration) -> Upload {
        let what = format!("an upload to {path}");
        let uploads = within(bound, &what, async || {
            let uploads = self.to(path);
            (!uploads.is_empty()).then_some(uploads)
        })
        .await;
        let [upload] = &uploads[..] else { panic!("{uploads:#?}") };
        upload.clone()
    }
}

impl Drop for Uploads {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn lock(state: &Mutex<UploadState>) -> MutexGuard<'_, UploadState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(listener: TcpListener, state: Arc<Mutex<UploadState>>, folder: Arc<Folder>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (state, folder) = (state.clone(), folder.clone());
        let answer = service_fn(move |request| {
            let (state, folder) = (state.clone(), folder.clone());
            async move { Ok::<_, Infallible>(take(request, &state, &folder).await) }
        });
        let connection = hyper::server::conn::http1::Builder::new();
        tokio::spawn(connection.serve_connection(TokioIo::new(stream), answer));
    }
}

async fn take(
    request: Request<Incoming>,
    state: &Mutex<UploadState>,
    folder: &Folder,
) -> Response<Full<Bytes>> {
    let header = |name: &str| {
        request.headers().get(name).map(|value| value.to_str().expect("text").to_owned())
    };
    let key = header("Idempotency-Key");
    let number = {
        let mut state = lock(state);
        state.attempts.push(key.clone());
        state.attempts.len()
    };
    let mut upload = Upload {
        path: request.uri().path().to_owned(),
        method: request.method().clone(),
        filename: None,
        key,
        authorization: header(AUTHORIZATION.as_str()),
        size: 0,
        file: folder.join(&format!("upload-{number}")),
        offset: 0,
    };
    let content_type = header(CONTENT_TYPE.as_str()).unwrap_or_default();
    let stored = store(request.into_body(), &upload.file).await;
    let read = stored.and_then(|size| {
        upload.size = size;
        match upload.method {
            Method::POST => find_file(&mut upload, &content_type),
            Method::PUT => Ok(()),
            _ => Err("neither POST nor PUT".to_owned()),
        }
    });
    // It waits for the answer. Keys are its own, and among its arguments.
    let senders = upload.key.iter().flat_map(|key| survivors::with(key)).filter_map(|id| {
        let status = std::fs::read_to_string(format!("/proc/{id}/status"));
        status.ok()
    });
    let senders: Vec<_> = senders.collect();
    let mut state = lock(state);
    state.senders.extend(senders);
    let (status, words) = match read {
        Err(problem) => (StatusCode::BAD_REQUEST, problem),
        Ok(()) if state.failures > 0 => {
            state.failures -= 1;
            (StatusCode::INTERNAL_SERVER_ERROR, "not today".to_owned())
        }
        Ok(()) => {
            state.uploads.push(upload);
            (StatusCode::CREATED, format!("{{\"receipt\": \"receipt-{number}\"}}"))
        }
    };
    let response = Response::builder().status(status).header(CONTENT_TYPE, "application/json");
    response.body(Full::new(words.into())).expect("a response")
}

/// Chunk by chunk: what comes may be larger than memory.
async fn store(mut body: Incoming, path: &Path) -> Result<u64, String> {
    let mut file = File::create(path).map_err(|e| e.to_string())?;
    let mut size = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| e.to_string())?;
        let Some(data) = frame.data_ref() else { continue };
        file.write_all(data).map_err(|e| e.to_string())?;
        size += u64::try_from(data.len()).expect("it fits");
    }
    Ok(size)
}

/// Finds the field `binfile` in a form that is on disk, and what `filename` says, by looking at
/// either end; what follows the file is cut off.
fn find_file(upload: &mut Upload, content_type: &str) -> Result<(), String> {
    let boundary = content_type.split_once("boundary=").ok_or("no boundary")?.1.trim_matches('"');
    let (delimiter, size) = (format!("\r\n--{boundary}"), upload.size);
    let mut file =
        File::options().read(true).write(true).open(&upload.file).expect("it was stored");
    let mut edge = |from: u64| {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(from)).expect("it is there");
        Read::by_ref(&mut file).take(EDGE).read_to_end(&mut bytes).expect("it can be read");
        bytes
    };
    let (head, tail_at) = (edge(0), size.saturating_sub(EDGE));
    let tail = edge(tail_at);
    let name = position(&head, b"name=\"binfile\"", 0).ok_or("no field binfile")?;
    let start = position(&head, b"\r\n\r\n", name).ok_or("no end of its headers")? + 4;
    let start_at = to_u64(start);
    let from = usize::try_from(start_at.saturating_sub(tail_at)).unwrap_or(0);
    let end = position(&tail, delimiter.as_bytes(), from).ok_or("no end of the file")?;
    let end_at = tail_at + to_u64(end);
    upload.filename = [&head[..name], &tail[end..]].into_iter().find_map(|part| {
        let field = position(part, b"name=\"filename\"", 0)?;
        let value = position(part, b"\r\n\r\n", field)? + 4;
        let after = position(part, delimiter.as_bytes(), value).unwrap_or(part.len());
        Some(String::from_utf8_lossy(&part[value..after]).into_owned())
    });
    file.set_len(end_at).map_err(|e| e.to_string())?;
    (upload.offset, upload.size) = (start_at, end_at - start_at);
    Ok(())
}

fn position(bytes: &[u8], wanted: &[u8], from: usize) -> Option<usize> {
    let found = bytes.get(from..)?.windows(wanted.len()).position(|window| window == wanted)?;
    Some(from + found)
}

fn to_u64(number: usize) -> u64 {
    u64::try_from(number).expect("a usize fits")
}

/// The server itself, with a client that has nothing to do with ours.
#[tokio::test(flavor = "multi_thread")]
async fn the_upload_server_keeps_what_it_is_given() {
    const CLIENT: &str = "\
import requests, sys
url, how, path = sys.argv[1:]
headers = {'Idempotency-Key': 'k'}
with open(path, 'rb') as file:
    if how == 'form':
        form = {'binfile': ('exam.zip', file)}
        answer = requests.post(url, headers=headers, files=form, data={'filename': 'exam'})
    elif how == 'put':
        answer = requests.put(url, headers=headers, data=file)
    else:
        answer = requests.post(url, headers=headers, data={'x': 'y'})
print(answer.status_code)";
    let Some(tools) = Tools::find() else { return };
    let uploads = Uploads::start().await;
    let folder = Folder::new();
    for (name, size) in [("small", 10_usize), ("large", 3 << 20)] {
        let file = folder.join(name);
        std::fs::write(&file, vec![b'x'; size]).expect("a file");
        let sum = Command::new("sha256sum").arg(&file).output().expect("sha256sum").stdout;
        let sum = String::from_utf8(sum).expect("text");
        let sum = sum.split_once(' ').expect("a sum").0;
        let send = |path: &str, how: &str| {
            let mut client = Command::new(&tools.python);
            client.args(["-c", CLIENT, &uploads.url(path), how]).arg(&file);
            Running::start(client).ended().stdout
        };
        let (form, put) = (format!("/form/{name}"), format!("/put/{name}"));
        uploads.fail(1);
        assert_eq!(send(&form, "form"), "500");
        assert_eq!(send(&form, "form"), "201");
        assert_eq!(send(&put, "put"), "201");
        for (path, filename) in [(&form, Some("exam")), (&put, None)] {
            let upload = uploads.wait_for(path).await;
            assert_eq!((upload.size, upload.sha256().as_str()), (to_u64(size), sum), "{path}");
            assert_eq!(upload.filename.as_deref(), filename);
            assert_eq!(upload.key.as_deref(), Some("k"));
        }
        assert_eq!(send("/no-form", "neither"), "400");
    }
    assert_eq!(uploads.attempts(), BTreeMap::from([(Some("k".to_owned()), 8)]));
}
