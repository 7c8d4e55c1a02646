//! The recorded answers of a real server: one JSON file per topic under `transcripts/`, an object
//! with the steps' records by scenario.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use crate::normalize::normalize;
use crate::pick::pick;
use crate::run::Run;
use crate::scenario;

/// Step label and record, in order of the steps.
pub(crate) type Records = Vec<(String, Value)>;

/// What a run answered, normalised, reduced to what its steps pick.
pub(crate) fn records(run: Run) -> Records {
    let (steps, mut values): (Vec<(String, Vec<String>)>, Vec<Value>) = run
        .outcomes
        .into_iter()
        .map(|outcome| ((outcome.label, outcome.pick), outcome.record))
        .unzip();
    let picked = |values: &[Value]| -> Vec<Value> {
        steps.iter().zip(values).map(|((_, picks), value)| reduce(value, picks)).collect()
    };
    let kept = picked(&values);
    normalize(&mut values, &kept);
    let values = picked(&values);
    steps.into_iter().map(|(label, _)| label).zip(values).collect()
}

/// The record with only the picked parts of its body, or of each of its events.
fn reduce(record: &Value, picks: &[String]) -> Value {
    let mut record = record.clone();
    if !picks.is_empty() {
        let body = &mut record["body"];
        *body = match &*body {
            Value::Array(events) => events.iter().map(|event| pick(event, picks)).collect(),
            body => pick(body, picks),
        };
    }
    record
}

fn path(topic: &str) -> PathBuf {
    scenario::directory().join("transcripts").join(format!("{topic}.json"))
}

/// The topics that have a transcript.
pub(crate) fn topics() -> Vec<String> {
    std::fs::read_dir(scenario::directory().join("transcripts"))
        .expect("the transcripts are beside this file")
        .map(|entry| entry.expect("readable directory").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .collect()
}

/// The recorded steps of a topic by scenario; empty if it was never recorded.
pub(crate) fn load(topic: &str) -> BTreeMap<String, Records> {
    let Ok(text) = std::fs::read_to_string(path(topic)) else { return BTreeMap::new() };
    let scenarios: BTreeMap<String, Vec<Value>> =
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("transcript {topic}: {e}"));
    scenarios
        .into_iter()
        .map(|(name, steps)| {
            let records = steps.into_iter().map(|mut step| {
                let label = step["step"].take();
                let members = step.as_object_mut().expect("a recorded step is an object");
                members.remove("step");
                (label.as_str().unwrap_or_default().to_owned(), step)
            });
            (name, records.collect())
        })
        .collect()
}

pub(crate) fn save(topic: &str, scenarios: &BTreeMap<String, Records>) {
    let document = scenarios
        .iter()
        .map(|(name, records)| {
            let steps = records.iter().map(|(label, record)| {
                let mut step = record.clone();
                step["step"] = label.as_str().into();
                step
            });
            (name.clone(), steps.collect())
        })
        .collect();
    let mut text = String::new();
    print(&Value::Object(document), 0, &mut text);
    text.push('\n');
    std::fs::write(path(topic), text).expect("the transcripts' folder is writable");
}

/// JSON for reading and for line-wise comparison: what fits into a line stays on one.
fn print(value: &Value, indent: usize, out: &mut String) {
    let line = value.to_string();
    let (elements, open, close): (Vec<(String, &Value)>, _, _) = match value {
        Value::Object(members) if line.len() + indent > WIDTH => {
            let members = members.iter().map(|(key, v)| (format!("{}: ", Value::from(&**key)), v));
            (members.collect(), '{', '}')
        }
        Value::Array(elements) if line.len() + indent > WIDTH => {
            (elements.iter().map(|v| (String::new(), v)).collect(), '[', ']')
        }
        _ => {
            out.push_str(&line);
            return;
        }
    };
    out.push(open);
    for (number, (key, element)) in elements.into_iter().enumerate() {
        out.push_str(if number == 0 { "\n" } else { ",\n" });
        out.push_str(&" ".repeat(indent + 1));
        out.push_str(&key);
        print(element, indent + 1, out);
    }
    out.push('\n');
    out.push_str(&" ".repeat(indent));
    out.push(close);
}

const WIDTH: usize = 140;
