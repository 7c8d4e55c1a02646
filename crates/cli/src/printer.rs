//! What people read: on stderr, coloured where that helps and is wanted.

use std::fmt::Display;
use std::io::{IsTerminal, Write};

use crate::commands::api_error;
use crate::exit::Failure;

/// Writes lines for people. Data for programs goes to stdout, never through this.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Printer {
    color: bool,
}

#[derive(Debug, Clone, Copy)]
enum Style {
    Bold,
    Green,
    Yellow,
    Red,
}

impl Printer {
    pub(crate) fn for_stderr() -> Self {
        // https://no-color.org: present and not empty, whatever its value.
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { color: !unwanted && std::io::stderr().is_terminal() }
    }

    pub(crate) const fn color(self) -> bool {
        self.color
    }

    pub(crate) fn line(self, text: impl Display) {
        // Nobody reads it, then; that is no reason to stop.
        drop(writeln!(std::io::stderr().lock(), "{text}"));
    }

    /// A line that says that something worked.
    pub(crate) fn good(self, text: impl Display) {
        self.line(self.styled(Style::Green, text));
    }

    /// An indented line with a label.
    pub(crate) fn field(self, label: &str, value: impl Display) {
        self.line(format_args!(
            "  {} {value}",
            self.styled(Style::Bold, format_args!("{label:<11}"))
        ));
    }

    pub(crate) fn warning(self, text: impl Display) {
        self.line(format_args!("{} {text}", self.styled(Style::Yellow, "warning:")));
    }

    pub(crate) fn failure(self, failure: &Failure) {
        let error = api_error::in_one_line(&failure.error);
        self.line(format_args!("{} {error}", self.styled(Style::Red, "error:")));
        if !failure.advice.is_empty() {
            self.line(&failure.advice);
        }
    }

    fn styled(self, style: Style, text: impl Display) -> String {
        if !self.color {
            return text.to_string();
        }
        let code = match style {
            Style::Bold => "1",
            Style::Green => "32",
            Style::Yellow => "33",
            Style::Red => "31",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_only_there_when_wanted() {
        let plain = Printer { color: false };
        assert_eq!(plain.styled(Style::Red, "error:"), "error:");
        let colored = Printer { color: true };
        assert_eq!(colored.styled(Style::Red, "error:"), "\x1b[31merror:\x1b[0m");
    }
}
