//! What Prometheus answers on the wire, read with care: any server may stand behind an address.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;

use super::{Answer, Labels, Series};

/// How many characters of a message from outside are passed on.
const MAX_WORDS: usize = 300;
/// How many warnings of one answer are passed on.
const MAX_WARNINGS: usize = 10;
/// What some versions put in front of notes that do not make an answer less whole.
const INFO_PREFIX: &str = "PromQL info";

/// Why there is no answer in a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoAnswer {
    TooMuch(String),
    Refused(String),
    Garbled(String),
}

#[derive(Deserialize)]
struct Body {
    status: String,
    data: Option<Data>,
    #[serde(default, rename = "errorType")]
    error_type: String,
    #[serde(default)]
    error: String,
    #[serde(default)]
    warnings: Vec<String>,
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Data {
    Matrix(Vec<WireSeries>),
    Vector(Vec<WireSeries>),
    Scalar(WireSample),
    String(serde::de::IgnoredAny),
}

#[derive(Deserialize)]
struct WireSeries {
    #[serde(default)]
    metric: BTreeMap<Box<str>, Box<str>>,
    #[serde(default)]
    values: Vec<WireSample>,
    value: Option<WireSample>,
}

/// Seconds, and the value as text because JSON has no NaN.
#[derive(Deserialize)]
struct WireSample(f64, String);

/// Reads a body, whatever the HTTP status was: Prometheus explains its errors in JSON.
pub(super) fn read(body: &[u8]) -> Result<Answer, NoAnswer> {
    let body: Body = serde_json::from_slice(body)
        .map_err(|error| NoAnswer::Garbled(format!("{error}; it begins with {:?}", start(body))))?;
    match body.status.as_str() {
        "success" => {}
        "error" => return Err(refusal(&body.error_type, &body.error)),
        other => return Err(NoAnswer::Garbled(format!("its status is {:?}", sanitized(other)))),
    }
    let series = match body.data {
        Some(Data::Matrix(series) | Data::Vector(series)) => {
            series.into_iter().map(read_series).collect::<Result<_, _>>()?
        }
        Some(Data::Scalar(sample)) => {
            vec![Series { labels: Labels::default(), samples: vec![read_sample(&sample)?] }]
        }
        Some(Data::String(_)) => {
            return Err(NoAnswer::Garbled("it is a text, not numbers".to_owned()));
        }
        None => return Err(NoAnswer::Garbled("it has no data".to_owned())),
    };
    let whole = |warning: &String| !warning.starts_with(INFO_PREFIX);
    let warnings = body
        .warnings
        .iter()
        .filter(|w| whole(w))
        .take(MAX_WARNINGS)
        .map(|w| sanitized(w))
        .collect();
    Ok(Answer { series, warnings })
}

fn read_series(wire: WireSeries) -> Result<Series, NoAnswer> {
    let mut samples = Vec::with_capacity(wire.values.len() + usize::from(wire.value.is_some()));
    for sample in wire.values.iter().chain(&wire.value) {
        samples.push(read_sample(sample)?);
    }
    if !samples.is_sorted_by(|(a, _), (b, _)| a < b) {
        return Err(NoAnswer::Garbled("the samples of a series are not in order".to_owned()));
    }
    Ok(Series { labels: wire.metric.into_iter().collect(), samples })
}

fn read_sample(WireSample(seconds, value): &WireSample) -> Result<(Timestamp, f64), NoAnswer> {
    #[expect(clippy::cast_possible_truncation, reason = "a cast from a float saturates")]
    let at = Timestamp::from_millisecond((seconds * 1000.0).round() as i64)
        .map_err(|_| NoAnswer::Garbled(format!("{seconds} is not a time")))?;
    let value = value
        .parse()
        .map_err(|_| NoAnswer::Garbled(format!("{:?} is not a value", sanitized(value))))?;
    Ok((at, value))
}

/// Which refusals mean that less would be answered. Prometheus has no code of its own for them.
fn refusal(kind: &str, message: &str) -> NoAnswer {
    let too_much = kind == "timeout"
        || message.contains("too many samples")
        || message.contains("exceeded maximum resolution")
        || message.contains("maximum number of samples");
    let message = sanitized(&format!("{kind}: {message}"));
    if too_much { NoAnswer::TooMuch(message) } else { NoAnswer::Refused(message) }
}

/// The beginning of a body that is not what it should be.
fn start(body: &[u8]) -> String {
    sanitized(&String::from_utf8_lossy(&body[..body.len().min(MAX_WORDS)]))
}

/// A text from outside, short and without control characters.
pub(super) fn sanitized(text: &str) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    text.trim().chars().take(MAX_WORDS).map(printable).collect()
}
