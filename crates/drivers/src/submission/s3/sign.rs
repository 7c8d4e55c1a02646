//! Signatures of S3: AWS Signature Version 4, in the header.

use jiff::Timestamp;
use ring::{digest, hmac};

use crate::submission::credential::Keys;

/// What is signed of a request.
#[derive(Debug)]
pub(super) struct Unsigned<'a> {
    pub method: &'a str,
    /// Encoded as [`encode_path`] does.
    pub path: &'a str,
    /// Encoded as [`encode_query`] does.
    pub query: &'a str,
    pub host: &'a str,
    /// Further headers, names in lower case.
    pub headers: &'a [(&'static str, String)],
    pub payload_sha256: &'a str,
}

/// Every header that the request needs, among them `authorization`.
pub(super) fn sign(
    unsigned: &Unsigned<'_>,
    keys: &Keys,
    at: Timestamp,
) -> Vec<(&'static str, String)> {
    let moment = at.strftime("%Y%m%dT%H%M%SZ").to_string();
    let day = &moment[..8];
    let mut headers: Vec<(&'static str, String)> = unsigned.headers.to_vec();
    headers.push(("x-amz-content-sha256", unsigned.payload_sha256.to_owned()));
    headers.push(("x-amz-date", moment.clone()));
    if let Some(token) = &keys.session_token {
        headers.push(("x-amz-security-token", token.reveal().to_owned()));
    }
    headers.push(("host", unsigned.host.to_owned()));
    headers.sort_unstable();
    let names = headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
    let lines: String =
        headers.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
    let canonical =
        [unsigned.method, unsigned.path, unsigned.query, &lines, &names, unsigned.payload_sha256]
            .join("\n");

    let scope = format!("{day}/{}/s3/aws4_request", keys.region);
    let text = format!("AWS4-HMAC-SHA256\n{moment}\n{scope}\n{}", sha256_hex(canonical.as_bytes()));
    let mut key = format!("AWS4{}", keys.secret_access_key.reveal()).into_bytes();
    for step in [day, &keys.region, "s3", "aws4_request"] {
        key = keyed(&key, step);
    }
    let signature = hex::encode(keyed(&key, &text));
    let id = &keys.access_key_id;
    headers.retain(|(name, _)| *name != "host");
    headers.push((
        "authorization",
        format!(
            "AWS4-HMAC-SHA256 Credential={id}/{scope},SignedHeaders={names},Signature={signature}"
        ),
    ));
    headers
}

pub(super) fn sha256_hex(data: &[u8]) -> String {
    hex::encode(digest::digest(&digest::SHA256, data))
}

fn keyed(key: &[u8], text: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
}

/// A path of which every byte is encoded that S3 wants encoded, once.
pub(super) fn encode_path(path: &[u8]) -> String {
    encode(path, true)
}

/// A query, sorted, with `=` also where there is no value.
pub(super) fn encode_query(pairs: &[(&str, &str)]) -> String {
    let mut pairs: Vec<String> = pairs
        .iter()
        .map(|(name, value)| {
            format!("{}={}", encode(name.as_bytes(), false), encode(value.as_bytes(), false))
        })
        .collect();
    pairs.sort_unstable();
    pairs.join("&")
}

fn encode(text: &[u8], keep_slash: bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for &byte in text {
        let plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if plain || (keep_slash && byte == b'/') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// What a path of a URL stands for; a `%` that encodes nothing stands for itself.
pub(super) fn decode_path(path: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, tail @ ..] = rest {
        let value = match tail {
            [high, low, ..] if *first == b'%' => hex::decode([*high, *low]).ok(),
            _ => None,
        };
        match value.as_deref() {
            Some([byte]) => {
                decoded.push(*byte);
                rest = &tail[2..];
            }
            _ => {
                decoded.push(*first);
                rest = tail;
            }
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submission::credential::Keys;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    /// The example that the vendor's manual computes step by step.
    #[test]
    fn signs_as_the_manual_does() {
        let keys =
            Keys::for_test("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
        let unsigned = Unsigned {
            method: "GET",
            path: "/test.txt",
            query: "",
            host: "examplebucket.s3.amazonaws.com",
            headers: &[("range", "bytes=0-9".to_owned())],
            payload_sha256: EMPTY,
        };
        let headers = sign(&unsigned, &keys, "2013-05-24T00:00:00Z".parse().unwrap());
        let (_, authorization) = headers.iter().find(|(name, _)| *name == "authorization").unwrap();
        assert_eq!(
            authorization,
            "AWS4-HMAC-SHA256 \
             Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
             SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,\
             Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        );
    }

    #[test]
    fn paths_and_queries_are_encoded_once() {
        assert_eq!(decode_path("/b/a%20b%2Bc%"), b"/b/a b+c%");
        assert_eq!(encode_path(b"/b/a b+c(1)~.zip"), "/b/a%20b%2Bc%281%29~.zip");
        assert_eq!(
            encode_query(&[("uploadId", "a/b+c="), ("partNumber", "1")]),
            "partNumber=1&uploadId=a%2Fb%2Bc%3D"
        );
        assert_eq!(encode_query(&[("uploads", "")]), "uploads=");
    }
}
