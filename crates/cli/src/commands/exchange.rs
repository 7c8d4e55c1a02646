//! One request to the API and its answer, for commands that need more of it than the client's typed calls
//! tell: the code, the warnings, and the server's Tables.

use http::header::{ACCEPT, CONTENT_TYPE, WARNING};
use http::{HeaderMap, Method, Request, StatusCode};
use kube::client::Body;
use kube::core::Status;
use serde_json::Value;

use super::connect::ApiContext;
use super::resource::encoded;
use crate::printer::Printer;

/// An object or a list as the server keeps it.
pub(super) const OBJECT: &str = "application/json";
/// The columns that the server would show of it.
pub(super) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// What is asked.
pub(super) struct Question<'a> {
    pub(super) method: Method,
    pub(super) path: &'a str,
    pub(super) query: &'a [(&'a str, &'a str)],
    pub(super) accept: &'a str,
    /// With its content type.
    pub(super) body: Option<(&'a str, &'a Value)>,
}

/// What the server did, and says.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Value,
}

impl Question<'_> {
    pub(super) fn request(&self) -> Result<Request<Vec<u8>>, kube::Error> {
        let pairs = self.query.iter().map(|(key, value)| format!("{key}={}", encoded(value)));
        let query = pairs.collect::<Vec<_>>().join("&");
        let mark = if query.is_empty() { "" } else { "?" };
        let request = Request::builder()
            .method(self.method.clone())
            .uri(format!("{}{mark}{query}", self.path))
            .header(ACCEPT, self.accept);
        let request = match self.body {
            Some((content_type, body)) => {
                let bytes = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
                request.header(CONTENT_TYPE, content_type).body(bytes)
            }
            None => request.body(Vec::new()),
        };
        request.map_err(kube::Error::HttpError)
    }
}

/// Something that is read.
pub(super) fn reading<'a>(
    path: &'a str,
    query: &'a [(&'a str, &'a str)],
    accept: &'a str,
) -> Question<'a> {
    Question { method: Method::GET, path, query, accept, body: None }
}

impl ApiContext {
    /// Asks once. What the server warns of goes to whoever reads stderr.
    pub(super) async fn ask(
        &self,
        question: &Question<'_>,
        printer: Printer,
    ) -> Result<Answer, kube::Error> {
        let answer = self.client.send(question.request()?.map(Body::from)).await?;
        let status = answer.status();
        for warning in warnings(answer.headers()) {
            printer.warning(warning);
        }
        let bytes = answer.into_body().collect_bytes().await?;
        if status.is_success() {
            let body = serde_json::from_slice(&bytes).map_err(kube::Error::SerdeError)?;
            return Ok(Answer { status, body });
        }
        let refusal = serde_json::from_slice::<Status>(&bytes).unwrap_or_else(|_| {
            let text = String::from_utf8_lossy(&bytes);
            Status::failure(text.trim(), "").with_code(status.as_u16())
        });
        Err(kube::Error::Api(refusal.boxed()))
    }
}

/// The texts of `Warning: 299 - "text"`.
fn warnings(headers: &HeaderMap) -> impl Iterator<Item = String> {
    headers.get_all(WARNING).iter().filter_map(|value| {
        let (_, quoted) = value.to_str().ok()?.split_once('"')?;
        let text = quoted.rsplit_once('"').map_or(quoted, |(text, _)| text);
        Some(text.replace("\\\"", "\"").replace("\\\\", "\\"))
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_query_is_encoded() {
        let query = [("labelSelector", "app=web,tier!=a b"), ("limit", "5")];
        let request = reading("/api/v1/pods", &query, TABLE).request().expect("a request");
        assert_eq!(
            request.uri().to_string(),
            "/api/v1/pods?labelSelector=app%3Dweb%2Ctier%21%3Da%20b&limit=5"
        );
        let plain = reading("/api/v1/pods", &[], OBJECT).request().expect("a request");
        assert_eq!(plain.uri().to_string(), "/api/v1/pods");
    }

    #[test]
    fn warnings_are_their_texts() {
        let mut headers = HeaderMap::new();
        for value in [r#"299 - "v1 is \"old\"""#, "nonsense", r#"299 - "second""#] {
            headers.append(WARNING, HeaderValue::from_static(value));
        }
        assert_eq!(warnings(&headers).collect::<Vec<_>>(), ["v1 is \"old\"", "second"]);
    }
}
