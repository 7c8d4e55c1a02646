//! The log: on stderr, as much as `SOJOURN_LOG` asks for, as text. The audit lines of the families are there whatever it
//! asks for, one JSON object each, so that whoever collects them needs no setting and no parser of text.

use std::fmt::Debug;
use std::io::Write as _;

use anyhow::Context as _;
use serde_json::{Map, Value};
use sojourn_operator::clock::{Clock as _, SystemClock};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry, fmt};

use crate::exit::{Exit, Failure};
use crate::printer::Printer;

const VARIABLE: &str = "SOJOURN_LOG";
/// The target of audit lines.
const AUDIT: &str = "audit";

/// Sends what is logged to stderr from now on.
pub(crate) fn start(printer: Printer) -> Result<(), Failure> {
    let asked = std::env::var(VARIABLE).unwrap_or_default();
    let filter = EnvFilter::try_new(directives(&asked))
        .with_context(|| format!("cannot read {VARIABLE}={asked}"))
        .map_err(|error| {
            let advice = "Give a level (error, warn, info, debug, trace) or directives such as \
                          `warn,sojourn_apiserver=debug`.";
            Failure::new(Exit::Usage, error, advice)
        })?;
    subscriber(filter, printer.color(), std::io::stderr).init();
    Ok(())
}

/// A level alone means our own crates: what the libraries beneath say at `debug` is mostly about
/// bytes.
fn directives(asked: &str) -> String {
    match asked.trim() {
        // What the client fails at becomes an error that whoever asked puts into words.
        "" => "warn,kube_client::client=off".to_owned(),
        level if level.parse::<LevelFilter>().is_ok() => format!("warn,sojourn={level}"),
        directives => directives.to_owned(),
    }
}

fn subscriber<W>(filter: EnvFilter, color: bool, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Clone + Send + Sync + 'static,
{
    let is_audit = |metadata: &Metadata<'_>| metadata.target() == AUDIT;
    let text = fmt::layer().with_ansi(color).with_writer(writer.clone());
    // Without a bound of its own it would take that of the other.
    let others = filter_fn(move |metadata| !is_audit(metadata));
    let text = text.with_filter(filter.and(others.with_max_level_hint(LevelFilter::TRACE)));
    let audit = filter_fn(is_audit).with_max_level_hint(LevelFilter::INFO);
    Registry::default().with(text).with(AuditLines(writer).with_filter(audit))
}

/// Writes each event as a line of JSON.
struct AuditLines<W>(W);

impl<S: Subscriber, W: for<'a> MakeWriter<'a> + 'static> Layer<S> for AuditLines<W> {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        fields.0.insert("time".to_owned(), SystemClock.now().to_string().into());
        event.record(&mut fields);
        let mut line = Value::Object(fields.0).to_string();
        line.push('\n');
        // Where stderr is closed, nobody is there who could be told of that.
        let _ = self.0.make_writer().write_all(line.as_bytes());
    }
}

/// The fields of an event, as JSON.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn insert(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.insert(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.insert(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex, PoisonError};

    use super::*;

    /// Keeps what is written.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is written with that in the variable while `logs` runs, line by line.
    fn written(asked: &str, logs: impl Fn()) -> Vec<String> {
        let written = Written::default();
        let filter = EnvFilter::try_new(directives(asked)).expect("directives");
        let writer = written.clone();
        let subscriber = subscriber(filter, false, move || writer.clone());
        tracing::subscriber::with_default(subscriber, logs);
        let bytes = written.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        String::from_utf8(bytes).expect("text").lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_level_means_our_own_crates() {
        for (asked, expected) in [
            ("", "warn,kube_client::client=off"),
            ("debug", "warn,sojourn=debug"),
            ("off", "warn,sojourn=off"),
            ("hyper=trace", "hyper=trace"),
        ] {
            assert_eq!(directives(asked), expected);
        }
        assert!(EnvFilter::try_new(directives("debug")).is_ok());
        assert!(EnvFilter::try_new(directives("a=b=c")).is_err());
    }

    #[test]
    fn an_audit_line_is_one_object_of_json_whatever_is_asked_for() {
        for asked in ["", "off", "error", "debug", "audit=info", "audit=off", "off,hyper=trace"] {
            let lines = written(asked, || {
                let reason = "\"urgent\":\nsee 7 {}";
                tracing::info!(target: "audit", uid = "u-1", actor = "ada", reason, times = 2_u64, "ended");
            });
            let [line] = &lines[..] else { panic!("{asked:?}: {lines:?}") };
            let mut line: Value = serde_json::from_str(line).expect("JSON");
            let time = line.as_object_mut().and_then(|line| line.remove("time"));
            let time = time.as_ref().and_then(Value::as_str).map(str::parse::<jiff::Timestamp>);
            assert!(matches!(time, Some(Ok(_))), "{time:?}");
            let expected = serde_json::json!({
                "uid": "u-1", "actor": "ada", "reason": "\"urgent\":\nsee 7 {}", "times": 2,
                "message": "ended",
            });
            assert_eq!(line, expected, "{asked:?}");
        }
    }

    #[test]
    fn what_is_no_audit_line_is_text_as_far_as_it_is_asked_for() {
        let logs = || {
            tracing::info!(target: "sojourn_operator", "told");
            tracing::warn!(target: "sojourn_operator", "warned");
        };
        let lines = written("", logs);
        assert!(lines.len() == 1 && lines[0].ends_with("sojourn_operator: warned"), "{lines:?}");
        let lines = written("info", logs);
        assert!(lines.len() == 2 && lines[0].ends_with("sojourn_operator: told"), "{lines:?}");
        assert_eq!(written("off", || tracing::error!("lost")), Vec::<String>::new());
    }
}
