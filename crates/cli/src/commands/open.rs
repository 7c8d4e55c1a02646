//! `sojourn open`: a link that signs a browser in, and the browser where there is one.

use std::io::IsTerminal as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use anyhow::anyhow;
use http::Method;
use serde_json::Value;

use super::people::PeopleClient;
use super::{connect, table};
use crate::args::Open;
use crate::exit::{Exit, Failure};
use crate::printer::Printer;

pub(super) fn run(open: Open, printer: Printer) -> Result<(), Failure> {
    let url = connect::run(async move {
        let client = PeopleClient::find(&open.connection, &open.people).await?;
        let answer = client.ask(Method::POST, "/open", None).await?;
        if !answer.status.is_success() {
            let error = anyhow!("{} answers {}", client.web(), answer.status);
            return Err(Failure::new(Exit::Negative, error, "Is the token of that API?"));
        }
        let url = answer.body.get("url").and_then(Value::as_str).unwrap_or_default();
        Ok(url.to_owned())
    })?;
    table::write(&format!("{url}\n"));
    let desktop = Desktop {
        is_terminal: std::io::stdout().is_terminal(),
        is_macos: cfg!(target_os = "macos"),
        has_display: ["DISPLAY", "WAYLAND_DISPLAY"]
            .iter()
            .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty())),
    };
    // What a server says is handed to no program unless it is a link.
    let is_link = url.starts_with("http://") || url.starts_with("https://");
    if let Some(opener) = desktop.opener().filter(|_| !open.print && is_link) {
        start(opener, &url, printer);
    }
    Ok(())
}

/// What is known of where the command was typed.
#[derive(Debug, Clone, Copy)]
struct Desktop {
    is_terminal: bool,
    is_macos: bool,
    has_display: bool,
}

impl Desktop {
    /// The program that opens links, if somebody sits before a screen of this machine.
    const fn opener(self) -> Option<&'static str> {
        match (self.is_terminal, self.is_macos, self.has_display) {
            (true, true, _) => Some("open"),
            (true, false, true) => Some("xdg-open"),
            _ => None,
        }
    }
}

/// Starts the opener and leaves it: some go on for as long as the browser does. In a process group of its own, so that
/// neither Ctrl-C nor the end of the terminal ends the browser.
fn start(opener: &str, url: &str, printer: Printer) {
    let mut command = Command::new(opener);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.process_group(0);
    match command.spawn() {
        Ok(_) => printer.line("It is opened in your browser."),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            printer.line(format_args!("Open it in a browser ({opener} is not installed here)."));
        }
        Err(error) => printer.line(format_args!("Open it in a browser ({opener}: {error}).")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_opened_only_for_somebody_who_sees_it() {
        for (is_terminal, is_macos, has_display, opener) in [
            (true, false, true, Some("xdg-open")),
            (true, true, false, Some("open")),
            (true, false, false, None),
            (false, false, true, None),
            (false, true, true, None),
        ] {
            let desktop = Desktop { is_terminal, is_macos, has_display };
            assert_eq!(desktop.opener(), opener, "{desktop:?}");
        }
    }
}
