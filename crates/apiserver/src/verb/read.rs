//! `get`, of an object or its status.

use axum::body::Body;
use http::{Response, StatusCode};

use crate::respond::{self, Form};
use crate::status::ApiError;

use super::Call;
use super::list::{VersionMatch, VersionRule};

pub(crate) async fn get(call: &Call) -> Result<Response<Body>, ApiError> {
    let form = Form::negotiate(&call.headers, &call.query)?;
    let rule = VersionRule::for_get(&call.query)?;
    if let VersionMatch::NotOlderThan(version) = rule.matching {
        call.engine.wait_for_version(version).await?;
    }
    let stored = call.endpoint.resource.table.get(&call.key()).ok_or_else(|| call.not_found())?;
    respond::object(call, StatusCode::OK, &stored, form)
}
