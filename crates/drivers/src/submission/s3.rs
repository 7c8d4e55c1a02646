//! `S3`: the archive as an object of an S3-compatible store, addressed by path.
//!
//! The archive is measured first. An object that is there with its digest and size is an earlier
//! attempt of this submission that nobody saw succeed, and is left as it is. Otherwise the archive
//! goes up in one request when it is small, in parts when it is not: one part is in memory at a
//! time, and nothing shows under the object's name before the last step. An upload that fails is
//! aborted; one that is killed leaves parts behind, which the next attempt sweeps up.

mod sign;

use bytes::{Bytes, BytesMut};
use http::{HeaderName, Method, StatusCode, header};
use jiff::Timestamp;
use reqwest::Url;

use self::sign::{Unsigned, decode_path, encode_path, encode_query, sha256_hex, sign};
use super::answer::Answer;
use super::credential::Keys;
use super::packing::{Meter, Next, Packed, Packing};
use super::peer::{Metered, Peer};
use super::receipt::Receipt;
use super::{Progress, SubmissionRequest, SubmitError, send};

/// Bytes of a part. Stores take no less than 5 MiB; more is used only where the parts would not do.
/// Tests have a store of their own that does not mind, and would spend their time compressing.
const PART_BYTES: u64 = if cfg!(test) { 64 * 1024 } else { 8 * 1024 * 1024 };

/// The largest part that we hold in memory.
const MAX_PART: u64 = 32 * 1024 * 1024;

/// What stores take at most.
const MAX_PARTS: u64 = 10_000;

/// Unfinished uploads of the same object that one attempt sweeps up.
const MAX_LEFTOVERS: usize = 20;

const DIGEST: HeaderName = HeaderName::from_static("x-amz-meta-sha256");

pub(super) async fn send(
    peer: &Peer<'_>,
    submission: &SubmissionRequest,
) -> Result<Receipt, SubmitError> {
    let store = Store::new(peer, submission)?;
    let measured = send::measure(peer, submission).await?;
    if let Some(tag) = store.find(&measured).await? {
        return Ok(Receipt::new(&measured, &tag, true));
    }
    let tag = if measured.size <= PART_BYTES {
        store.put_whole(submission, &measured).await?
    } else {
        store.put_in_parts(submission, &measured).await?
    };
    Ok(Receipt::new(&measured, &tag, false))
}

struct Store<'a> {
    peer: &'a Peer<'a>,
    keys: Keys,
    host: String,
    /// Of the bucket, encoded.
    bucket_path: String,
    /// Of the object within the bucket.
    object: String,
    /// Of the object, encoded, with the bucket.
    path: String,
    idempotency_key: &'a str,
    meter: Meter,
}

/// A request before it is signed.
struct Call<'c> {
    doing: &'static str,
    method: Method,
    path: &'c str,
    query: &'c [(&'c str, &'c str)],
    headers: Vec<(&'static str, String)>,
    body: Bytes,
}

impl<'a> Store<'a> {
    fn new(peer: &'a Peer<'a>, submission: &'a SubmissionRequest) -> Result<Self, SubmitError> {
        let refuse = |why| SubmitError::Url { url: peer.shown(), why };
        if peer.url.query().is_some() {
            return Err(refuse("a URL of S3 has no query"));
        }
        let folder = decode_path(peer.url.path());
        let folder = std::str::from_utf8(&folder)
            .map_err(|_| refuse("its path is not UTF-8"))?
            .trim_matches('/');
        let (bucket, prefix) = folder.split_once('/').unwrap_or((folder, ""));
        if bucket.is_empty() {
            return Err(refuse("its path must begin with a bucket"));
        }
        let zip_name = submission.zip_name();
        let object = if prefix.is_empty() { zip_name } else { format!("{prefix}/{zip_name}") };
        let host = peer.url.host_str().unwrap_or_default();
        Ok(Self {
            peer,
            keys: Keys::read(submission.secret_dir.as_deref())?,
            host: peer.url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")),
            bucket_path: encode_path(format!("/{bucket}").as_bytes()),
            path: encode_path(format!("/{bucket}/{object}").as_bytes()),
            object,
            idempotency_key: &submission.idempotency_key,
            meter: Meter::default(),
        })
    }

    /// The tag of the object, when it is the archive that was measured.
    async fn find(&self, measured: &Packed) -> Result<Option<String>, SubmitError> {
        let doing = "look for an earlier upload";
        let answer = self.call(self.to_object(doing, Method::HEAD, &[])).await?;
        match answer.status {
            StatusCode::OK => {}
            // Without the right to list, nobody is told that something is not there.
            StatusCode::NOT_FOUND | StatusCode::FORBIDDEN => return Ok(None),
            _ => return Err(self.peer.refused(doing, &answer)),
        }
        let size = answer.header(&header::CONTENT_LENGTH).and_then(|size| size.parse().ok());
        let same = answer.header(&DIGEST) == Some(&measured.hex()) && size == Some(measured.size);
        Ok(same.then(|| answer.receipt()))
    }

    async fn put_whole(
        &self,
        submission: &SubmissionRequest,
        measured: &Packed,
    ) -> Result<String, SubmitError> {
        let doing = "send the archive";
        let mut parts = ArchiveParts::start(submission, PART_BYTES);
        let body = parts.next(self).await?.unwrap_or_default();
        parts.must_be(measured)?;
        let call = Call {
            headers: self.metadata(measured),
            body,
            ..self.to_object(doing, Method::PUT, &[])
        };
        let answer = self.succeed(call).await?;
        Ok(answer.receipt())
    }

    async fn put_in_parts(
        &self,
        submission: &SubmissionRequest,
        measured: &Packed,
    ) -> Result<String, SubmitError> {
        let part_size = PART_BYTES.max(measured.size.div_ceil(MAX_PARTS));
        if part_size > MAX_PART {
            let limit = MAX_PART * MAX_PARTS;
            return Err(SubmitError::TooLarge { size: measured.size, limit });
        }
        self.sweep().await;
        let doing = "begin an upload";
        let call = Call {
            headers: self.metadata(measured),
            ..self.to_object(doing, Method::POST, &[("uploads", "")])
        };
        let answer = self.succeed(call).await?;
        let upload =
            element(&answer.text(), "UploadId").ok_or_else(|| self.senseless(doing, &answer))?;
        let sent = self.fill(&upload, ArchiveParts::start(submission, part_size), measured).await;
        if sent.is_err() {
            self.abort(&upload).await;
        }
        sent
    }

    async fn fill(
        &self,
        upload: &str,
        mut parts: ArchiveParts,
        measured: &Packed,
    ) -> Result<String, SubmitError> {
        let mut list = String::from("<CompleteMultipartUpload>");
        let mut number = 0;
        while let Some(body) = parts.next(self).await? {
            number += 1;
            let doing = "send a part of the archive";
            let number = number.to_string();
            let query = [("partNumber", number.as_str()), ("uploadId", upload)];
            let call = Call { body, ..self.to_object(doing, Method::PUT, &query) };
            let answer = self.succeed(call).await?;
            let tag = answer.header(&header::ETAG).ok_or_else(|| self.senseless(doing, &answer))?;
            list.push_str(&format!(
                "<Part><PartNumber>{number}</PartNumber><ETag>{}</ETag></Part>",
                escaped(tag)
            ));
        }
        parts.must_be(measured)?;
        list.push_str("</CompleteMultipartUpload>");

        let doing = "complete the upload";
        let query = [("uploadId", upload)];
        let call = Call { body: list.into(), ..self.to_object(doing, Method::POST, &query) };
        let answer = self.succeed(call).await?;
        // A store may say 200 to keep the connection, and only then find that it failed.
        let text = answer.text();
        match element(&text, "ETag") {
            Some(tag) if text.contains("<CompleteMultipartUploadResult") => Ok(tag),
            _ => Err(self.senseless(doing, &answer)),
        }
    }

    /// Removes the parts of an upload that will not be completed. That it could not be done is told,
    /// but changes nothing: the attempt has failed for another reason.
    async fn abort(&self, upload: &str) {
        let doing = "abort an upload";
        let query = [("uploadId", upload)];
        if let Err(error) = self.succeed(self.to_object(doing, Method::DELETE, &query)).await {
            tracing::warn!(%error, "parts of an upload stay behind");
        }
    }

    /// Aborts what killed attempts left of this object. Stores that do not let us look keep it.
    async fn sweep(&self) {
        let doing = "look for unfinished uploads";
        let query = [("uploads", ""), ("prefix", self.object.as_str())];
        let call = Call { path: &self.bucket_path, ..self.to_object(doing, Method::GET, &query) };
        let listed = match self.succeed(call).await {
            Ok(listed) => listed.text(),
            Err(error) => {
                tracing::debug!(%error, "unfinished uploads cannot be listed");
                return;
            }
        };
        for upload in listed.split("<Upload>").skip(1).take(MAX_LEFTOVERS) {
            if element(upload, "Key").as_deref() == Some(self.object.as_str())
                && let Some(id) = element(upload, "UploadId")
            {
                self.abort(&id).await;
            }
        }
    }

    fn metadata(&self, measured: &Packed) -> Vec<(&'static str, String)> {
        vec![
            ("x-amz-meta-sha256", measured.hex()),
            ("x-amz-meta-idempotency-key", self.idempotency_key.to_owned()),
            ("content-type", "application/zip".to_owned()),
        ]
    }

    fn to_object<'c>(
        &'c self,
        doing: &'static str,
        method: Method,
        query: &'c [(&'c str, &'c str)],
    ) -> Call<'c> {
        Call { doing, method, path: &self.path, query, headers: Vec::new(), body: Bytes::new() }
    }

    async fn succeed(&self, call: Call<'_>) -> Result<Answer, SubmitError> {
        let doing = call.doing;
        let answer = self.call(call).await?;
        if answer.status.is_success() { Ok(answer) } else { Err(self.peer.refused(doing, &answer)) }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the storage compares the signature with its own clock"
    )]
    async fn call(&self, call: Call<'_>) -> Result<Answer, SubmitError> {
        let query = encode_query(call.query);
        let unsigned = Unsigned {
            method: call.method.as_str(),
            path: call.path,
            query: &query,
            host: &self.host,
            headers: &call.headers,
            payload_sha256: &sha256_hex(&call.body),
        };
        let headers = sign(&unsigned, &self.keys, Timestamp::now());
        let mut request = self.peer.request(call.method.clone(), self.url(call.path, &query));
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if !call.body.is_empty() {
            let body = Metered::new(call.body, self.meter.clone());
            request = request.body(reqwest::Body::wrap(body));
        }
        self.peer.exchange(call.doing, request, &self.meter).await
    }

    fn url(&self, path: &str, query: &str) -> Url {
        let mut url = self.peer.url.clone();
        url.set_path(path);
        url.set_query((!query.is_empty()).then_some(query));
        url.set_fragment(None);
        url
    }

    fn senseless(&self, doing: &'static str, answer: &Answer) -> SubmitError {
        let words = super::receipt::printable(&answer.text());
        SubmitError::Answer { doing, url: self.peer.shown(), words }
    }
}

/// An archive cut into parts of the same size, except for the last.
struct ArchiveParts {
    packing: Packing,
    size: usize,
    rest: Bytes,
    end: Option<Packed>,
}

impl ArchiveParts {
    fn start(submission: &SubmissionRequest, size: u64) -> Self {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        Self { packing: Packing::start(submission.volume()), size, rest: Bytes::new(), end: None }
    }

    async fn next(&mut self, store: &Store<'_>) -> Result<Option<Bytes>, SubmitError> {
        let meter = Meter::default();
        let sent = store.meter.read();
        let gathering = async {
            let mut part = BytesMut::with_capacity(self.size);
            while part.len() < self.size && self.end.is_none() {
                if self.rest.is_empty() {
                    match self.packing.next().await? {
                        Next::Data(data) => self.rest = data,
                        Next::End(packed) => self.end = Some(packed),
                    }
                }
                let taken = self.rest.len().min(self.size - part.len());
                meter.add(taken);
                part.extend_from_slice(&self.rest.split_to(taken));
            }
            Ok((!part.is_empty()).then(|| part.freeze()))
        };
        let progress_of = |_gathered| Progress::Sent { bytes: sent };
        store.peer.watched("gather a part of the archive", &meter, progress_of, gathering).await
    }

    /// The object carries the digest of what was measured, so that must be what was sent.
    fn must_be(&self, measured: &Packed) -> Result<(), SubmitError> {
        if self.end.as_ref() == Some(measured) { Ok(()) } else { Err(SubmitError::Changed) }
    }
}

/// The text of the first element of this name. Answers of S3 are flat and use no attributes for
/// what we read.
fn element(xml: &str, name: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    let text = text.trim();
    let plain = text
        .replace("&quot;", "\"")
        .replace("&#34;", "\"")
        .replace("&apos;", "'")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    (!plain.is_empty()).then_some(plain)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
