//! `Multipart` and `Put`: one request that carries the archive.

use futures::stream;
use http::{HeaderName, StatusCode, header};
use reqwest::multipart::{Form, Part};
use reqwest::{RequestBuilder, Url};
use tokio::sync::oneshot;

use super::packing::{BodyForm, CONTENT_DIGEST, Meter, Packed, Packing, UploadOutcome};
use super::peer::Peer;
use super::receipt::Receipt;
use super::{ArchiveError, Method, Progress, SubmissionRequest, SubmitError, credential};

const SEND: &str = "send the archive";
const MEASURE: &str = "measure the archive for what will be sent";
const ZIP: &str = "application/zip";
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Answers of servers that take no body of unknown length.
const LENGTH_WANTED: [StatusCode; 2] = [StatusCode::LENGTH_REQUIRED, StatusCode::NOT_IMPLEMENTED];

pub(super) async fn send(
    peer: &Peer<'_>,
    submission: &SubmissionRequest,
) -> Result<Receipt, SubmitError> {
    match attempt(peer, submission, None).await {
        Err(SubmitError::Refused { status, .. })
            if LENGTH_WANTED.iter().any(|wanted| wanted.as_u16() == status) =>
        {
            let measured = measure(peer, submission).await?;
            attempt(peer, submission, Some(measured)).await
        }
        other => other,
    }
}

/// Makes the archive once for its size and digest.
pub(super) async fn measure(
    peer: &Peer<'_>,
    submission: &SubmissionRequest,
) -> Result<Packed, SubmitError> {
    let meter = Meter::default();
    let measuring = async { Ok(Packing::measure(submission.volume(), &meter).await?) };
    peer.watched(MEASURE, &meter, |bytes| Progress::Measured { bytes }, measuring).await
}

async fn attempt(
    peer: &Peer<'_>,
    submission: &SubmissionRequest,
    measured: Option<Packed>,
) -> Result<Receipt, SubmitError> {
    let meter = Meter::default();
    let (request, upload_outcome) = if submission.method == Method::Put {
        put(peer, submission, measured.as_ref(), &meter)?
    } else {
        form(peer, submission, measured.as_ref(), &meter)?
    };
    let mut request = request.header(IDEMPOTENCY_KEY, &submission.idempotency_key);
    if let Some(folder) = &submission.secret_dir {
        request = request.header(header::AUTHORIZATION, credential::authorization(folder)?);
    }

    let answer = match peer.exchange(SEND, request, &meter).await {
        Ok(answer) => answer,
        // That the archive broke off is what the other end saw last, so it is the cause.
        Err(error @ SubmitError::Exchange { .. }) => {
            return match learn(peer, &meter, upload_outcome).await {
                Err(SubmitError::Archive(ArchiveError::Unwanted)) => Err(error),
                Err(cause @ SubmitError::Archive(_)) => Err(cause),
                _ => Err(error),
            };
        }
        Err(error) => return Err(error),
    };
    if !answer.status.is_success() {
        return Err(peer.refused(SEND, &answer));
    }
    let packed = match learn(peer, &meter, upload_outcome).await {
        Ok(packed) => packed,
        Err(SubmitError::Archive(ArchiveError::Unwanted)) => {
            let status = answer.status.as_u16();
            return Err(SubmitError::AnsweredEarly { doing: SEND, url: peer.shown(), status });
        }
        Err(error) => return Err(error),
    };
    if measured.is_some_and(|measured| measured != packed) {
        return Err(SubmitError::Changed);
    }
    Ok(Receipt::new(&packed, &answer.receipt(), false))
}

/// What became of the archive. Its maker may still be at work for somebody who does not listen.
async fn learn(
    peer: &Peer<'_>,
    meter: &Meter,
    upload_outcome: UploadOutcome,
) -> Result<Packed, SubmitError> {
    let learning = async { Ok(upload_outcome.learn().await?) };
    peer.watched(SEND, meter, |bytes| Progress::Sent { bytes }, learning).await
}

fn put(
    peer: &Peer<'_>,
    submission: &SubmissionRequest,
    measured: Option<&Packed>,
    meter: &Meter,
) -> Result<(RequestBuilder, UploadOutcome), SubmitError> {
    let request = peer
        .request(http::Method::PUT, put_url(&peer.url, &submission.zip_name()))
        .header(header::CONTENT_TYPE, ZIP);
    let request = match measured {
        Some(measured) => request.header(CONTENT_DIGEST, measured.content_digest()),
        None => request.header(header::TRAILER, CONTENT_DIGEST.as_str()),
    };
    let form = BodyForm {
        length: measured.map(|measured| measured.size),
        trailer: measured.is_none(),
        digest: None,
    };
    let (body, upload_outcome) = Packing::start(submission.volume()).into_body(meter.clone(), form);
    Ok((request.body(reqwest::Body::wrap(body)), upload_outcome))
}

/// A URL that ends in `/` is a folder, which gets the archive by its name.
fn put_url(url: &Url, zip_name: &str) -> Url {
    let mut url = url.clone();
    if url.path().ends_with('/') {
        url.set_path(&format!("{}{zip_name}", url.path()));
    }
    url
}

fn form(
    peer: &Peer<'_>,
    submission: &SubmissionRequest,
    measured: Option<&Packed>,
    meter: &Meter,
) -> Result<(RequestBuilder, UploadOutcome), SubmitError> {
    let (told, digest) = oneshot::channel();
    let body_form = BodyForm {
        length: measured.map(|measured| measured.size),
        trailer: false,
        digest: measured.is_none().then_some(told),
    };
    let (body, upload_outcome) =
        Packing::start(submission.volume()).into_body(meter.clone(), body_form);
    let body = reqwest::Body::wrap(body);
    let (file, digest) = match measured {
        Some(measured) => {
            (Part::stream_with_length(body, measured.size), Part::text(measured.hex()))
        }
        None => {
            let digest = reqwest::Body::wrap_stream(stream::once(digest));
            (Part::stream(body), Part::stream(digest))
        }
    };
    let file = file.file_name(submission.zip_name()).mime_str(ZIP).map_err(|source| {
        SubmitError::Exchange { doing: "describe the archive", url: peer.shown(), source }
    })?;
    let form = Form::new()
        .text("filename", submission.filename.clone())
        .part("binfile", file)
        .part("sha256", digest);
    Ok((peer.request(http::Method::POST, peer.url.clone()).multipart(form), upload_outcome))
}
