//! How game servers run.

use std::ops::RangeInclusive;

use sojourn_operator::game::webhook::HttpScalingWebhook;
use sojourn_operator::game::{GAME_PORTS, GameSetup};

/// How game servers run.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Game {
    /// Let the numbers of game servers follow their use
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub(crate) podautoscaler: bool,

    /// Ports of nodes that are given to game servers [default: 20000-30000]
    #[arg(long, value_name = "FIRST-LAST", value_parser = port_range)]
    pub(crate) game_ports: Option<RangeInclusive<u16>>,
}

impl Game {
    /// `listeners`: servers are on this machine, and talk to listeners of their own here.
    pub(crate) fn setup(&self, listeners: bool) -> GameSetup {
        GameSetup {
            ports: self.game_ports.clone().unwrap_or(GAME_PORTS),
            autoscaler: self.podautoscaler,
            listeners,
            webhook: Some(std::sync::Arc::new(HttpScalingWebhook)),
        }
    }
}

fn port_range(text: &str) -> Result<RangeInclusive<u16>, String> {
    let numbers = text.split_once('-').and_then(|(first, last)| {
        Some(first.trim().parse::<u16>().ok()?..=last.trim().parse::<u16>().ok()?)
    });
    match numbers {
        Some(range) if *range.start() > 0 && !range.is_empty() => Ok(range),
        _ => Err("give the first and the last port, such as 20000-30000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_a_first_and_a_last_port() {
        assert_eq!(port_range("20000-20010"), Ok(20_000..=20_010));
        for wrong in ["", "20000", "20010-20000", "0-10", "1-70000", "a-b"] {
            port_range(wrong).expect_err(wrong);
        }
    }
}
