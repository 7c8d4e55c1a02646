//! Request bodies by their media type: JSON, YAML, and the protobuf that kubectl sends for some
//! commands.

use bytes::Bytes;
use http::{HeaderMap, header};
use serde_json::Value;

use crate::body::{self, Parsed};
use crate::json::Access;
use crate::status::ApiError;
use crate::typed;

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Reads a body as its `Content-Type` says.
pub(crate) fn read(headers: &HeaderMap, bytes: &Bytes, kind: &str) -> Result<Parsed, ApiError> {
    let malformed = |e: body::ParseError| {
        e.answer(|e| ApiError::bad_request(body::unrecognized(kind, e, bytes)))
    };
    let checked = |parsed: Parsed| match body::TypeMeta::of(&parsed.value) {
        Ok(_) => Ok(parsed),
        Err(error) => Err(malformed(error)),
    };
    match media_type(headers) {
        "" | JSON | "*/*" => body::parse_json(bytes).map_err(malformed).and_then(checked),
        YAML => body::parse_yaml(bytes).map_err(malformed).and_then(checked),
        PROTOBUF => {
            let value = typed::decode_protobuf(bytes).map_err(|e| match e {
                typed::ProtobufError::TooLarge(why) => why.into(),
                other => malformed(body::ParseError::Yaml(other.to_string())),
            })?;
            Ok(Parsed { value, duplicates: Vec::new() })
        }
        _ => Err(unsupported()),
    }
}

/// The same, for options that come in the body of a delete.
pub(crate) fn read_options(headers: &HeaderMap, bytes: &Bytes) -> Result<Value, ApiError> {
    let mut value = match media_type(headers) {
        PROTOBUF => read(headers, bytes, "DeleteOptions")?.value,
        YAML => read(headers, bytes, "DeleteOptions")?.value,
        _ => {
            let parsed = body::parse_json(bytes).map_err(|e| {
                e.answer(|e| {
                    let why = format!("couldn't get version/kind; json parse error: {e}");
                    ApiError::bad_request(why)
                })
            })?;
            parsed.value
        }
    };
    let (api_version, kind) = (value.text("apiVersion"), value.text("kind"));
    if !matches!(kind, "" | "DeleteOptions") {
        return Err(ApiError::bad_request(format!(
            "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \
             \"pkg/runtime/scheme.go:111\""
        )));
    }
    let ty = typed::table().lookup("v1", "DeleteOptions");
    if let Some(ty) = ty {
        typed::decode(ty, &mut value, &mut Vec::new())
            .map_err(|e| e.answer(|e| ApiError::bad_request(e.to_string())))?;
    }
    Ok(value)
}

fn media_type(headers: &HeaderMap) -> &str {
    let given = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
    given.unwrap_or_default().split(';').next().unwrap_or_default().trim()
}

fn unsupported() -> ApiError {
    ApiError::unsupported_media_type(format!(
        "the body of the request was in an unknown format - accepted media types include: {JSON}, \
         {YAML}, {PROTOBUF}"
    ))
}
