//! A text that tells templates apart: the same for equal ones, in whatever order their fields were written.

use ring::digest;
use serde_json::{Map, Value};

/// So many bytes of the digest tell templates apart.
const DIGEST: usize = 16;

pub(crate) fn hash(value: Value) -> String {
    let digest = digest::digest(&digest::SHA256, sorted(value).to_string().as_bytes());
    hex::encode(&digest.as_ref()[..DIGEST])
}

/// With the fields of every object in order. What is null says nothing and is left out.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.into_iter().filter(|(_, v)| !v.is_null()).collect();
            fields.sort_by(|(left, _), (right, _)| left.cmp(right));
            Value::Object(
                fields.into_iter().map(|(key, v)| (key, sorted(v))).collect::<Map<_, _>>(),
            )
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        plain => plain,
    }
}
