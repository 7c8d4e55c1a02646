//! `pods/log`: the answer comes from the node that runs the Pod.

use axum::body::Body;
use http::Response;

use crate::json::Access;
use crate::status::ApiError;
use crate::verb::Call;

/// Relays log requests to nodes.
#[derive(Debug, Default)]
pub(crate) struct LogRelay;

impl LogRelay {
    pub(crate) async fn relay(&self, call: &Call) -> Result<Response<Body>, ApiError> {
        let stored =
            call.endpoint.resource.table.get(&call.key()).ok_or_else(|| call.not_found())?;
        let pod = call.endpoint.to_object(&stored);
        let node = pod.at("spec").text("nodeName");
        if node.is_empty() {
            let name = stored.name();
            return Err(ApiError::bad_request(format!("pod {name} does not have a host assigned")));
        }
        Err(ApiError::unavailable(format!("the node {node} cannot be asked for logs")))
    }
}
