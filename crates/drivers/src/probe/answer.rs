//! What the body of a status answer says.
//!
//! The body may be anything; only a JSON object is looked into, and of it only `deadline`. (Status
//! servers also send `error` and `idnumber`, which change nothing: the code says it all.)

use jiff::Timestamp;
use serde_json::Value;

/// The deadline in the body of an answer that keeps, if it has one; words if it has one that is no
/// time, since acting without it could be as wrong as acting on it.
pub(super) fn deadline(body: &[u8]) -> Result<Option<Timestamp>, String> {
    let Ok(Value::Object(answer)) = serde_json::from_slice(body) else { return Ok(None) };
    let deadline = match answer.get("deadline") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => return Ok(None),
        Some(Value::String(text)) => text.trim().parse().ok().or_else(|| seconds(text.trim())),
        Some(Value::Number(number)) => seconds(&number.to_string()),
        Some(Value::Bool(_) | Value::Array(_) | Value::Object(_)) => None,
    };
    let Some(deadline) = deadline else {
        return Err("the deadline in the answer is no time".to_owned());
    };
    // Servers in Go send the first second of year 1 for a time that was never set, others 0.
    Ok(Some(deadline).filter(|deadline| *deadline > Timestamp::UNIX_EPOCH))
}

/// Seconds since 1970; a fraction of a second is dropped.
fn seconds(text: &str) -> Option<Timestamp> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = fraction.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = whole.parse().ok().filter(|_| is_number)?;
    Timestamp::from_second(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect(text)
    }

    #[test]
    fn deadlines_are_read_in_both_forms() {
        let expected = at("2026-07-01T10:00:00Z");
        for body in [
            r#"{"deadline": "2026-07-01T10:00:00Z"}"#,
            r#"{"error": "", "deadline": "2026-07-01T12:00:00+02:00", "idnumber": "s1"}"#,
            r#"{"deadline": 1782900000}"#,
            r#"{"deadline": 1782900000.75}"#,
            r#"{"deadline": "1782900000"}"#,
        ] {
            assert_eq!(deadline(body.as_bytes()), Ok(Some(expected)), "{body}");
        }
    }

    // Only a JSON object is looked into; all else is as good as no body.
    #[test]
    fn a_body_without_a_deadline_is_fine() {
        for body in [
            "",
            "OK",
            "<html></html>",
            "{\"deadline\": \"2026-07-01T10:00",
            "null",
            "17",
            "[]",
            "{}",
            r#"{"deadline": null}"#,
            r#"{"deadline": ""}"#,
            r#"{"deadline": 0}"#,
            r#"{"deadline": "0001-01-01T00:00:00Z"}"#,
            r#"{"deadline": "1970-01-01T00:00:00Z"}"#,
            r#"{"error": "unknown student"}"#,
        ] {
            assert_eq!(deadline(body.as_bytes()), Ok(None), "{body}");
        }
        assert_eq!(deadline(&[0xff, 0xfe, 0]), Ok(None));
    }

    #[test]
    fn a_deadline_that_is_no_time_is_said() {
        for body in [
            r#"{"deadline": "tomorrow"}"#,
            r#"{"deadline": "2026-07-01"}"#,
            r#"{"deadline": "2026-07-01T10:00:00"}"#,
            r#"{"deadline": true}"#,
            r#"{"deadline": ["2026-07-01T10:00:00Z"]}"#,
            r#"{"deadline": 1782900000000}"#,
            r#"{"deadline": 1e99}"#,
            r#"{"deadline": "1782900000.x"}"#,
        ] {
            let words = deadline(body.as_bytes()).expect_err(body);
            assert_eq!(words, "the deadline in the answer is no time");
        }
    }
}
