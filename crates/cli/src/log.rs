//! The log: on stderr, as much as `SOJOURN_LOG` asks for.

use anyhow::Context as _;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

use crate::exit::{Exit, Failure};
use crate::printer::Printer;

const VARIABLE: &str = "SOJOURN_LOG";

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
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(printer.color())
        .with_writer(std::io::stderr)
        .init();
    Ok(())
}

/// A level alone means our own crates: what the libraries beneath say at `debug` is mostly about
/// bytes.
fn directives(asked: &str) -> String {
    match asked.trim() {
        "" => "warn".to_owned(),
        level if level.parse::<LevelFilter>().is_ok() => format!("warn,sojourn={level}"),
        directives => directives.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_means_our_own_crates() {
        for (asked, expected) in [
            ("", "warn"),
            ("debug", "warn,sojourn=debug"),
            ("off", "warn,sojourn=off"),
            ("hyper=trace", "hyper=trace"),
        ] {
            assert_eq!(directives(asked), expected);
        }
        assert!(EnvFilter::try_new(directives("debug")).is_ok());
        assert!(EnvFilter::try_new(directives("a=b=c")).is_err());
    }
}
