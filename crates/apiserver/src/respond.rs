//! Answers: which form the client wants, and objects and lists written in it.
//!
//! Stored text is served as it is: a header with the asked-for `apiVersion` and the body from the
//! store. Only tables and metadata-only answers look inside.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::request::Query;
use crate::serve::block_in_place;
use crate::serve::fairness::work::Work;
use crate::status::ApiError;
use crate::store::StoredObject;
use crate::table::{self, Include, ListMeta, MetaVersion, View};
use crate::verb::Call;
use crate::verb::list::Page;

/// A list without a limit is sent in pieces of about this size.
const CHUNK_BYTES: usize = 256 << 10;

/// The shape in which objects are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Table {
        version: MetaVersion,
        include: Include,
    },
    /// `PartialObjectMetadata`: metadata alone.
    Partial {
        version: MetaVersion,
        list: bool,
    },
}

const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

impl Form {
    pub(crate) fn negotiate(headers: &HeaderMap, query: &Query) -> Result<Self, ApiError> {
        let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or("*/*");
        let form = accept.split(',').find_map(|clause| Self::of_clause(clause.trim())).ok_or_else(
            || {
                if accept.contains("as=") {
                    return Self::only_accepted();
                }
                ApiError::not_acceptable(format!(
                    "406: Not Acceptable\n\nAvailable representations: {ACCEPTED}"
                ))
                .with_details(serde_json::json!({}))
            },
        )?;
        Ok(match form {
            Self::Table { version, .. } => {
                let include = Include::parse(query.text("includeObject"));
                Self::Table { version, include: include.map_err(ApiError::bad_request)? }
            }
            form => form,
        })
    }

    /// The same for answers that cannot be shown as a Table.
    pub(crate) fn negotiate_without_table(
        headers: &HeaderMap,
        query: &Query,
    ) -> Result<Self, ApiError> {
        let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or("*/*");
        let forms = accept.split(',').filter_map(|clause| Self::of_clause(clause.trim()));
        let mut others = forms.filter(|form| !matches!(form, Self::Table { .. }));
        match (others.next(), Self::negotiate(headers, query)?) {
            (Some(form), _) => Ok(form),
            (None, Self::Table { .. }) => Err(Self::only_accepted()),
            (None, form) => Ok(form),
        }
    }

    fn only_accepted() -> ApiError {
        ApiError::not_acceptable(format!("only the following media types are accepted: {ACCEPTED}"))
    }

    fn of_clause(clause: &str) -> Option<Self> {
        let mut parts = clause.split(';').map(str::trim);
        let media = parts.next()?;
        if !matches!(media, "application/json" | "*/*" | "") {
            return None;
        }
        let parameters: Vec<(&str, &str)> = parts.filter_map(|p| p.split_once('=')).collect();
        let get = |name: &str| parameters.iter().find(|(k, _)| *k == name).map(|(_, v)| *v);
        let Some(wanted) = get("as") else { return Some(Self::Json) };
        if get("g") != Some("meta.k8s.io") {
            return None;
        }
        let version = match get("v")? {
            "v1" => MetaVersion::V1,
            "v1beta1" => MetaVersion::V1beta1,
            _ => return None,
        };
        match wanted {
            "Table" => Some(Self::Table { version, include: Include::Metadata }),
            "PartialObjectMetadata" => Some(Self::Partial { version, list: false }),
            "PartialObjectMetadataList" => Some(Self::Partial { version, list: true }),
            _ => None,
        }
    }
}

/// A JSON answer.
pub(crate) fn json(code: StatusCode, value: &Value) -> Response<Body> {
    bytes(code, value.to_string())
}

pub(crate) fn bytes(code: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::from(body.into()));
    *response.status_mut() = code;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// One object in the form that was asked for.
pub(crate) fn object(
    call: &Call,
    code: StatusCode,
    stored: &StoredObject,
    form: Form,
) -> Result<Response<Body>, ApiError> {
    let mut out = Vec::with_capacity(stored.len() + 64);
    match form {
        Form::Json => write_object(call, stored, &mut out),
        Form::Partial { list: true, .. } => {
            return Err(ApiError::not_acceptable(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list \
                 ({})",
                call.endpoint.go_type()
            )));
        }
        Form::Partial { version, .. } => write_partial(stored, version, &mut out)?,
        Form::Table { version, include } => {
            let object = call.endpoint.to_object(stored);
            let view = View { version, include, headers: true, now: call.now() };
            let list = ListMeta::of_object(&object);
            out = table::render(call.endpoint.printer(), &view, &list, [&object]);
        }
    }
    Ok(bytes(code, out))
}

/// The object with the `apiVersion` that was asked for.
pub(crate) fn write_object(call: &Call, stored: &StoredObject, out: &mut Vec<u8>) {
    if call.endpoint.serves_as_stored(stored) {
        out.extend_from_slice(call.endpoint.version().header.as_bytes());
        stored.write_body(out);
    } else {
        let object = call.endpoint.to_object(stored);
        serde_json::to_writer(out, &object).expect("writing JSON to memory cannot fail");
    }
}

/// An item of a list: built-in lists leave out each item's `apiVersion` and `kind`.
fn write_item(call: &Call, stored: &StoredObject, out: &mut Vec<u8>) {
    if !call.endpoint.bare_items() {
        write_object(call, stored, out);
    } else if call.endpoint.serves_as_stored(stored) {
        out.push(b'{');
        stored.write_body(out);
    } else {
        let mut object = call.endpoint.to_object(stored);
        object.remove("apiVersion");
        object.remove("kind");
        serde_json::to_writer(out, &object).expect("writing JSON to memory cannot fail");
    }
}

#[derive(Deserialize)]
struct OnlyMetadata<'a> {
    #[serde(borrow)]
    metadata: &'a RawValue,
}

/// `PartialObjectMetadata` of an object.
pub(crate) fn write_partial(
    stored: &StoredObject,
    version: MetaVersion,
    out: &mut Vec<u8>,
) -> Result<(), ApiError> {
    let json = stored.json();
    let parsed: OnlyMetadata<'_> = serde_json::from_slice(&json).map_err(ApiError::internal)?;
    out.extend_from_slice(br#"{"kind":"PartialObjectMetadata","apiVersion":""#);
    out.extend_from_slice(version.api_version().as_bytes());
    out.extend_from_slice(br#"","metadata":"#);
    out.extend_from_slice(parsed.metadata.get().as_bytes());
    out.push(b'}');
    Ok(())
}

/// A page of objects in the form that was asked for.
pub(crate) fn list(call: &Call, page: &Page, form: Form) -> Result<Response<Body>, ApiError> {
    let mut out = Vec::new();
    match form {
        Form::Table { version, include } => {
            let objects: Vec<_> = page.objects.iter().map(|o| call.endpoint.to_object(o)).collect();
            let view = View { version, include, headers: true, now: call.now() };
            let resource_version = page.version.to_string();
            let list = ListMeta {
                resource_version: &resource_version,
                continue_token: page.next.as_deref().unwrap_or_default(),
                remaining: page.remaining,
            };
            out = table::render(call.endpoint.printer(), &view, &list, objects.iter());
            return Ok(bytes(StatusCode::OK, out));
        }
        Form::Json if page.next.is_none() && page.objects.len() > 1_000 => {
            return Ok(streamed(call, page));
        }
        Form::Json => open_list(
            &call.endpoint.resource.list_kind,
            &call.endpoint.version().api_version,
            // Lists of custom kinds show it even when there is nothing to continue.
            !call.endpoint.bare_items(),
            page,
            &mut out,
        ),
        Form::Partial { list: false, .. } => {
            return Err(ApiError::not_acceptable(format!(
                "you requested PartialObjectMetadata, but the requested object is a list ({}List)",
                call.endpoint.go_type()
            )));
        }
        Form::Partial { version, .. } => {
            open_list("PartialObjectMetadataList", version.api_version(), false, page, &mut out);
        }
    }
    for (index, object) in page.objects.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        match form {
            Form::Partial { version, .. } => write_partial(object, version, &mut out)?,
            _ => write_item(call, object, &mut out),
        }
    }
    out.extend_from_slice(b"]}\n");
    Ok(bytes(StatusCode::OK, out))
}

fn open_list(kind: &str, api_version: &str, shows_continue: bool, page: &Page, out: &mut Vec<u8>) {
    let mut metadata = serde_json::json!({"resourceVersion": page.version.to_string()});
    if page.next.is_some() || shows_continue {
        metadata["continue"] = Value::from(page.next.as_deref().unwrap_or_default());
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = Value::from(remaining);
    }
    let (kind, api_version) = (Value::from(kind), Value::from(api_version));
    let open =
        format!(r#"{{"kind":{kind},"apiVersion":{api_version},"metadata":{metadata},"items":["#);
    out.extend_from_slice(open.as_bytes());
}

/// A large list, written piece by piece while it is sent: memory stays bounded.
fn streamed(call: &Call, page: &Page) -> Response<Body> {
    let mut begun = Vec::with_capacity(CHUNK_BYTES);
    let kind = &call.endpoint.resource.list_kind;
    let api_version = &call.endpoint.version().api_version;
    open_list(kind, api_version, !call.endpoint.bare_items(), page, &mut begun);
    let pieces =
        ChunkStream { call: call.for_stream(), objects: page.objects.clone(), next: 0, begun };
    let pieces = futures::stream::unfold(Some(pieces), |pieces| async move {
        let mut pieces = pieces?;
        let piece = pieces.write().await;
        let rest = (pieces.next < pieces.objects.len()).then_some(pieces);
        Some((Ok::<_, std::convert::Infallible>(piece), rest))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// What is left of a large list.
struct ChunkStream {
    call: Call,
    objects: Vec<Arc<StoredObject>>,
    next: usize,
    begun: Vec<u8>,
}

impl ChunkStream {
    async fn write(&mut self) -> Bytes {
        let work = Work::writing(Form::Json, CHUNK_BYTES, 0).as_chunk();
        let _seat = self.call.engine.fairness.admit_chunk(&self.call.identity, work).await;
        block_in_place::run(work.is_heavy(), || {
            let mut out = std::mem::take(&mut self.begun);
            out.reserve(CHUNK_BYTES);
            while self.next < self.objects.len() && out.len() < CHUNK_BYTES {
                if self.next > 0 {
                    out.push(b',');
                }
                write_item(&self.call, &self.objects[self.next], &mut out);
                self.next += 1;
            }
            if self.next == self.objects.len() {
                out.extend_from_slice(b"]}\n");
            }
            out.into()
        })
    }
}

/// Adds `Warning` headers.
pub(crate) fn warn(response: &mut Response<Body>, warnings: &[String]) {
    for text in warnings {
        let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{escaped}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}
