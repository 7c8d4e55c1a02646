//! What a server answered, as far as we read it.

use http::{HeaderMap, HeaderName, StatusCode, header};

use super::receipt::printable;

/// No answer is read further.
pub(super) const MAX_BODY: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// At most [`MAX_BODY`] bytes.
    pub body: Vec<u8>,
}

impl Answer {
    pub(super) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The words that prove the submission to its owner: a `receipt` of a JSON answer, the `ETag`,
    /// the `Location`, the beginning of the body, or else the status.
    pub(super) fn receipt(&self) -> String {
        let named = self.json_receipt();
        let tag = || self.header(&header::ETAG).map(str::to_owned);
        let location = || self.header(&header::LOCATION).map(str::to_owned);
        [named, tag(), location(), Some(self.text())]
            .into_iter()
            .flatten()
            .map(|words| printable(&words))
            .find(|words| !words.is_empty())
            .unwrap_or_else(|| self.status.to_string())
    }

    fn json_receipt(&self) -> Option<String> {
        let json: serde_json::Value = serde_json::from_slice(&self.body).ok()?;
        match json.get("receipt")? {
            serde_json::Value::String(words) => Some(words.clone()),
            serde_json::Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_receipt_is_the_most_telling_thing_that_was_said() {
        let json = r#"{"receipt": "R-1", "ok": true}"#;
        let number = r#"{"receipt": 17}"#;
        type Headers = &'static [(HeaderName, &'static str)];
        let table: [(Headers, &str, &str); 8] = [
            (&[(header::ETAG, "\"t\"")], json, "R-1"),
            (&[], number, "17"),
            (&[(header::ETAG, "\"t\""), (header::LOCATION, "/a")], "thanks", "\"t\""),
            (&[(header::LOCATION, "/a")], "thanks", "/a"),
            (&[], "  thank\n you ", "thank you"),
            (&[], r#"{"receipt": null}"#, r#"{"receipt": null}"#),
            (&[], "", "201 Created"),
            (&[(header::ETAG, "")], r#"{"receipt": ""}"#, r#"{"receipt": ""}"#),
        ];
        for (headers, body, receipt) in table {
            let answer = Answer {
                status: StatusCode::CREATED,
                headers: headers
                    .iter()
                    .map(|(name, value)| (name.clone(), value.parse().unwrap()))
                    .collect(),
                body: body.as_bytes().to_vec(),
            };
            assert_eq!(answer.receipt(), receipt);
        }
    }
}
