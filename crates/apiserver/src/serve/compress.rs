//! Large answers are compressed for clients that can read it; watches never are.

use std::io::Write;

use axum::body::Body;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue, Response, header};
use http_body::Body as _;
use http_body_util::BodyExt;

use super::block_in_place;
use super::fairness::work::Work;

/// Upstream compresses answers above this size.
const MIN_COMPRESSED_BYTES: u64 = 128 << 10;

pub(super) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|v| v.to_str().ok());
    accepted.is_some_and(|a| a.split(',').any(|e| e.trim().split(';').next() == Some("gzip")))
}

pub(super) async fn compress(response: Response<Body>) -> Response<Body> {
    // Only bodies whose size is known up front: a watch has none.
    let large = response.body().size_hint().exact().is_some_and(|size| size > MIN_COMPRESSED_BYTES);
    if !large {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let bytes = match body.collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) => {
            tracing::error!(%error, "cannot read an answer to compress it");
            return Response::from_parts(parts, Body::empty());
        }
    };
    let packed = block_in_place::run(Work::compressing(bytes.len()).is_heavy(), || {
        let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
        encoder.write_all(&bytes).and_then(|()| encoder.finish())
    });
    match packed {
        Ok(packed) => {
            let gzip = HeaderValue::from_static("gzip");
            parts.headers.insert(header::CONTENT_ENCODING, gzip);
            let vary = HeaderValue::from_static("Accept-Encoding");
            parts.headers.append(header::VARY, vary);
            Response::from_parts(parts, Body::from(packed))
        }
        Err(_) => Response::from_parts(parts, Body::from(bytes)),
    }
}
