//! `list`: which version, which objects, which page.

use std::ops::Bound;
use std::sync::Arc;

use axum::body::Body;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::Response;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::field::{FieldError, Path};
use crate::request::Query;
use crate::respond::{self, Form};
use crate::selection::Selection;
use crate::status::ApiError;
use crate::store::{Gone, Objects, StoredObject};

use super::Call;

/// What a list found.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) objects: Vec<Arc<StoredObject>>,
    pub(crate) version: u64,
    pub(crate) next: Option<String>,
    pub(crate) remaining: Option<u64>,
}

/// Which state the client wants to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    Newest,
    NotOlderThan(u64),
    Exact(u64),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct VersionRule {
    pub(crate) matching: VersionMatch,
}

pub(crate) async fn list(call: &Call) -> Result<Response<Body>, ApiError> {
    let form = Form::negotiate(&call.headers, &call.query)?;
    let page = select(call, call.engine.limits.page_objects).await?;
    respond::list(call, &page, form)
}

/// The objects that the request's selectors, version and page ask for. A page that is asked for has
/// `max_objects` of them; without a limit there are no pages, since clients that name none rely on the whole.
pub(crate) async fn select(call: &Call, max_objects: usize) -> Result<Page, ApiError> {
    // As upstream: whoever takes any state there is gets all of it.
    let any = call.query.text("resourceVersion") == "0" && call.query.text("continue").is_empty();
    let limit = call.query.int("limit")?.filter(|l| *l > 0 && !any);
    let limit =
        limit.map_or(usize::MAX, |l| usize::try_from(l).unwrap_or(usize::MAX).min(max_objects));
    let token = call.query.text("continue");
    let rule = VersionRule::for_list(&call.query, limit != usize::MAX)?;
    let selection = Selection::of(call)?;
    let table = &call.endpoint.resource.table;
    if token.is_empty() {
        let (objects, version) = snapshot(call, rule.matching).await?;
        let left = (limit != usize::MAX && selection.is_all())
            .then(|| count(&objects, call.namespace(), None));
        return Ok(cut_page(call, &objects, version, None, limit, &selection, left));
    }
    let token = ContinueToken::decode(token)?;
    if token.version == 0 {
        // The client chose to go on with whatever is there now.
        let (objects, version) = snapshot(call, VersionMatch::Newest).await?;
        let left =
            selection.is_all().then(|| count(&objects, call.namespace(), Some(&token.start)));
        return Ok(cut_page(call, &objects, version, Some(&token.start), limit, &selection, left));
    }
    let objects = table.snapshot_at(token.version).map_err(|Gone| token.expired())?;
    if !token.start.starts_with(&prefix(call.namespace())) {
        let why = "invalid continue token: continue key is not valid: it is of another list";
        return Err(ApiError::bad_request(why));
    }
    Ok(cut_page(call, &objects, token.version, Some(&token.start), limit, &selection, token.left))
}

/// The state that a rule asks for, and its version.
async fn snapshot(call: &Call, matching: VersionMatch) -> Result<(Objects, u64), ApiError> {
    let engine = &call.engine;
    match matching {
        VersionMatch::Exact(version) => {
            engine.wait_for_version(version).await?;
            let objects = call.endpoint.resource.table.snapshot_at(version).map_err(|Gone| {
                ApiError::expired("The resourceVersion for the provided list is too old.")
            })?;
            Ok((objects, version))
        }
        VersionMatch::NotOlderThan(version) => {
            engine.wait_for_version(version).await?;
            Ok(newest(call))
        }
        VersionMatch::Newest => Ok(newest(call)),
    }
}

/// Everything now. The store's version is read first: the table holds at least that much.
pub(super) fn newest(call: &Call) -> (Objects, u64) {
    let global = call.engine.store.version();
    let (objects, last) = call.endpoint.resource.table.snapshot();
    (objects, global.max(last))
}

fn cut_page(
    call: &Call,
    objects: &Objects,
    version: u64,
    after: Option<&str>,
    limit: usize,
    selection: &Selection,
    left: Option<u64>,
) -> Page {
    let mut page = Page { version, ..Page::default() };
    let mut found = range(objects, call.namespace(), after).filter(|o| selection.matches(o));
    page.objects.extend(found.by_ref().take(limit).cloned());
    if found.next().is_some() {
        let taken = u64::try_from(page.objects.len()).unwrap_or(u64::MAX);
        page.remaining = left.map(|l| l.saturating_sub(taken));
        let start = page.objects.last().map(|o| o.key.to_string()).unwrap_or_default();
        page.next = Some(ContinueToken { version, start, left: page.remaining }.encode());
        call.endpoint.resource.table.keep_snapshot(version, objects.clone());
    }
    page
}

fn prefix(namespace: &str) -> String {
    if namespace.is_empty() { String::new() } else { format!("{namespace}/") }
}

/// The objects of a namespace (or all), in order, after a key.
pub(crate) fn range<'a>(
    objects: &'a Objects,
    namespace: &str,
    after: Option<&str>,
) -> impl Iterator<Item = &'a Arc<StoredObject>> + use<'a> {
    let low = prefix(namespace);
    // `0` is the character after `/`: keys of the namespace sort below it.
    let high = if namespace.is_empty() { None } else { Some(format!("{namespace}0")) };
    let low: Bound<Arc<str>> = match after {
        Some(key) => Bound::Excluded(key.into()),
        None => Bound::Included(low.into()),
    };
    let high: Bound<Arc<str>> = high.map_or(Bound::Unbounded, |h| Bound::Excluded(h.into()));
    objects.range((low, high)).map(|(_, object)| object)
}

fn count(objects: &Objects, namespace: &str, after: Option<&str>) -> u64 {
    let all = if namespace.is_empty() && after.is_none() {
        objects.len()
    } else {
        range(objects, namespace, after).count()
    };
    u64::try_from(all).unwrap_or(u64::MAX)
}

impl VersionRule {
    pub(crate) fn for_get(query: &Query) -> Result<Self, ApiError> {
        let matching = match parse_version(query.text("resourceVersion"))? {
            None | Some(0) => VersionMatch::Newest,
            Some(version) => VersionMatch::NotOlderThan(version),
        };
        Ok(Self { matching })
    }

    fn for_list(query: &Query, limited: bool) -> Result<Self, ApiError> {
        let mut errors = Vec::new();
        let version = query.text("resourceVersion");
        let matching = query.text("resourceVersionMatch");
        let at = Path::new("resourceVersionMatch");
        if query.get("sendInitialEvents").is_some() {
            let why = "sendInitialEvents is forbidden for list";
            errors.push(FieldError::forbidden(&Path::new("sendInitialEvents"), why));
        }
        if !matching.is_empty() {
            if version.is_empty() {
                let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                errors.push(FieldError::forbidden(&at, why));
            }
            if !query.text("continue").is_empty() {
                let why = "resourceVersionMatch is forbidden when continue is provided";
                errors.push(FieldError::forbidden(&at, why));
            }
            if !matches!(matching, "Exact" | "NotOlderThan") {
                let supported = ["Exact", "NotOlderThan", ""];
                errors.push(FieldError::not_supported(&at, &json!(matching), &supported));
            }
            if matching == "Exact" && version == "0" {
                let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                errors.push(FieldError::forbidden(&at, why));
            }
        }
        if !errors.is_empty() {
            return Err(ApiError::invalid("meta.k8s.io", "ListOptions", "", &errors));
        }
        let parsed = parse_version(version).map_err(|error| {
            ApiError::bad_request(format!("invalid resource version: {}", error.message))
        })?;
        if !query.text("continue").is_empty() && parsed.is_some_and(|v| v != 0) {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        Ok(Self {
            matching: match (parsed, matching) {
                (None | Some(0), _) => VersionMatch::Newest,
                (Some(version), "Exact") => VersionMatch::Exact(version),
                // Before there was a match parameter, a limit meant exactly this version.
                (Some(version), "") if limited => VersionMatch::Exact(version),
                (Some(version), _) => VersionMatch::NotOlderThan(version),
            },
        })
    }
}

pub(super) fn parse_version(text: &str) -> Result<Option<u64>, ApiError> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        let at = Path::new("resourceVersion");
        let why = format!("strconv.ParseUint: parsing {}: invalid syntax", crate::go::quote(text));
        ApiError::unexplained(FieldError::invalid_text(&at, text, why).to_string())
    })
}

/// What `metadata.continue` carries.
#[derive(Debug, Serialize, Deserialize)]
struct ContinueToken {
    #[serde(rename = "rv")]
    version: u64,
    /// The last key of the page before.
    start: String,
    /// Objects that are still to come, where that is known.
    #[serde(default)]
    left: Option<u64>,
}

impl ContinueToken {
    fn encode(&self) -> String {
        let text = serde_json::to_string(self).expect("a token is plain data");
        BASE64_URL_SAFE_NO_PAD.encode(text)
    }

    fn decode(text: &str) -> Result<Self, ApiError> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text.trim_end_matches('='));
        let invalid = |why: &dyn std::fmt::Display| {
            let text = format!("invalid continue token: continue key is not valid: {why}");
            ApiError::bad_request(text)
        };
        let bytes = bytes.map_err(|error| invalid(&error))?;
        let parsed = crate::body::parse_json(&bytes).map_err(|error| invalid(&error))?;
        serde_json::from_value(parsed.value).map_err(|error| invalid(&error))
    }

    /// The version is gone; the client may go on with the newest state instead.
    fn expired(&self) -> ApiError {
        let resume = Self { version: 0, start: self.start.clone(), left: None };
        let mut error = ApiError::expired(
            "The provided continue parameter is too old to display a consistent list result. You \
             can start a new list without the continue parameter, or use the continue token in \
             this response to retrieve the remainder of the results. Continuing with the provided \
             token results in an inconsistent list - objects that were created, modified, or \
             deleted between the time the first chunk was returned and now may show up in the list.",
        );
        error.resume = Some(resume.encode());
        error
    }
}
