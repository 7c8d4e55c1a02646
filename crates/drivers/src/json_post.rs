//! Posts JSON to an address that somebody else chose, and reads the JSON that is answered, within the guard.

use std::time::Duration;

use reqwest::header::ACCEPT;
use serde_json::Value;

use crate::guard::{self, Allow};

const USER_AGENT: &str = "sojourn";
const TIMEOUT: Duration = Duration::from_secs(10);
/// More than any answer needs.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Posts once. The words say what went wrong, and name no address of the inner network.
pub async fn post(url: &str, allowed: &[String], body: &Value) -> Result<Value, String> {
    let allow = Allow::parse(allowed).map_err(|error| error.to_string())?;
    let url = guard::check_url(url, &allow).map_err(|error| error.to_string())?;
    let client = guard::client(&allow).user_agent(USER_AGENT).timeout(TIMEOUT).build();
    let client = client.map_err(|error| format!("cannot set up the client: {error}"))?;
    let sent = client.post(url).header(ACCEPT, "application/json").json(body).send().await;
    let mut answer = sent.map_err(|error| match guard::refusal(&error) {
        Some(refused) => refused.to_string(),
        None => format!("cannot ask: {}", error.without_url()),
    })?;
    if !answer.status().is_success() {
        return Err(format!("it answered {}", answer.status().as_u16()));
    }
    let mut bytes = Vec::new();
    while let Some(chunk) =
        answer.chunk().await.map_err(|error| format!("cannot read: {}", error.without_url()))?
    {
        if bytes.len() + chunk.len() > MAX_ANSWER_BYTES {
            return Err(format!("it answered more than {MAX_ANSWER_BYTES} bytes"));
        }
        bytes.extend_from_slice(&chunk);
    }
    serde_json::from_slice(&bytes).map_err(|error| format!("it answered no JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    async fn answering(answer: String) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let mut read = [0; 4096];
            let _ = stream.read(&mut read).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        });
        format!("http://{address}/scale")
    }

    fn ok(body: &str) -> String {
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    }

    #[tokio::test]
    async fn json_is_posted_and_read_only_where_that_is_allowed() {
        let here = ["127.0.0.1".to_owned()];
        let url = answering(ok(r#"{"replicas":3}"#)).await;
        assert_eq!(post(&url, &here, &json!({})).await, Ok(json!({"replicas": 3})));
        let url = answering(ok("{}")).await;
        post(&url, &[], &json!({})).await.expect_err("this machine is not allowed by itself");
        let url = answering(ok("no JSON")).await;
        let error = post(&url, &here, &json!({})).await.expect_err("no JSON");
        assert!(error.starts_with("it answered no JSON"), "{error}");
        let url = answering("HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n".to_owned()).await;
        assert_eq!(post(&url, &here, &json!({})).await, Err("it answered 503".to_owned()));
        let url = answering(ok(&format!("\"{}\"", "x".repeat(MAX_ANSWER_BYTES)))).await;
        let error = post(&url, &here, &json!({})).await.expect_err("too long");
        assert!(error.starts_with("it answered more than"), "{error}");
    }
}
