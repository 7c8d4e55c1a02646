//! What players and tests ask of the example game server: one line of text.

/// So many players are known at most, and names are so long: everybody can send datagrams.
pub(super) const MAX_PLAYERS: u32 = 1000;
const MAX_NAME_BYTES: usize = 64;

/// What a match is in, as the classic routes call it.
const STATES: [&str; 4] = ["Idle", "Assigned", "Running", "PostMatch"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request<'a> {
    Join(&'a str),
    Leave(&'a str),
    Players(u32),
    Ready,
    Allocate,
    Reserve {
        seconds: u32,
    },
    State(&'static str),
    Label {
        key: &'a str,
        value: &'a str,
    },
    Annotation {
        key: &'a str,
        value: &'a str,
    },
    /// Whether pings are sent from now on.
    Health {
        good: bool,
    },
    /// It asks its endpoint to be ended.
    Shutdown,
    /// It asks to go when it is empty.
    Mark,
    /// It ends by itself, with code 0.
    Exit,
    /// It ends by itself, with code 1.
    Crash,
    /// It does nothing any more, and does not end when it is asked to.
    Hang,
    Who,
    /// Where its own SDK endpoint is.
    Endpoint,
    Echo(&'a str),
}

/// Reads one line; what cannot be meant is answered with this.
pub(super) fn parse(line: &str) -> Result<Request<'_>, &'static str> {
    let line = line.trim_end_matches(['\r', '\n']);
    let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
    if verb == "ECHO" {
        return Ok(Request::Echo(rest));
    }
    let rest = rest.trim();
    Ok(match (verb, rest) {
        ("READY", "") => Request::Ready,
        ("ALLOCATE", "") => Request::Allocate,
        ("SHUTDOWN", "") => Request::Shutdown,
        ("MARK", "") => Request::Mark,
        ("EXIT", "") => Request::Exit,
        ("CRASH", "") => Request::Crash,
        ("HANG", "") => Request::Hang,
        ("WHO", "") => Request::Who,
        ("ENDPOINT", "") => Request::Endpoint,
        ("HEALTH", "good") => Request::Health { good: true },
        ("HEALTH", "bad") => Request::Health { good: false },
        ("HEALTH", _) => return Err("say good or bad"),
        ("JOIN", _) => Request::Join(name(rest)?),
        ("LEAVE", _) => Request::Leave(name(rest)?),
        ("PLAYERS", _) => Request::Players(number(rest, MAX_PLAYERS)?),
        ("RESERVE", _) => Request::Reserve { seconds: number(rest, u32::MAX)? },
        ("STATE", _) => {
            let known = STATES.into_iter().find(|state| *state == rest);
            Request::State(known.ok_or("say Idle, Assigned, Running or PostMatch")?)
        }
        ("LABEL" | "ANNOTATION", _) => {
            let (key, value) = rest.split_once(' ').ok_or("say a key and a value")?;
            match verb {
                "LABEL" => Request::Label { key, value },
                _ => Request::Annotation { key, value },
            }
        }
        _ => return Err("nothing like this is known here"),
    })
}

fn name(text: &str) -> Result<&str, &'static str> {
    if text.is_empty() || text.len() > MAX_NAME_BYTES {
        return Err("say who, in at most 64 bytes");
    }
    Ok(text)
}

fn number(text: &str, most: u32) -> Result<u32, &'static str> {
    text.parse().ok().filter(|number| *number <= most).ok_or("say how many, and not too many")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_request_and_its_end_does_not_matter() {
        for (line, expected) in [
            ("JOIN ada\n", Request::Join("ada")),
            ("LEAVE ada\r\n", Request::Leave("ada")),
            ("PLAYERS 0", Request::Players(0)),
            ("PLAYERS 1000", Request::Players(1000)),
            ("READY", Request::Ready),
            ("ALLOCATE", Request::Allocate),
            ("RESERVE 5", Request::Reserve { seconds: 5 }),
            ("STATE PostMatch", Request::State("PostMatch")),
            ("LABEL mode duel", Request::Label { key: "mode", value: "duel" }),
            ("ANNOTATION map a b", Request::Annotation { key: "map", value: "a b" }),
            ("HEALTH bad", Request::Health { good: false }),
            ("HEALTH good", Request::Health { good: true }),
            ("SHUTDOWN", Request::Shutdown),
            ("MARK", Request::Mark),
            ("EXIT", Request::Exit),
            ("CRASH", Request::Crash),
            ("HANG", Request::Hang),
            ("WHO", Request::Who),
            ("ENDPOINT", Request::Endpoint),
            ("ECHO  two  words\n", Request::Echo(" two  words")),
            ("ECHO", Request::Echo("")),
        ] {
            assert_eq!(parse(line), Ok(expected), "{line:?}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let long = format!("JOIN {}", "x".repeat(65));
        for line in [
            "",
            "join ada",
            "JOIN",
            &long,
            "PLAYERS",
            "PLAYERS -1",
            "PLAYERS 1001",
            "RESERVE soon",
            "STATE idle",
            "HEALTH",
            "LABEL mode",
            "READY now",
            "GET / HTTP/1.1",
        ] {
            parse(line).expect_err(line);
        }
    }
}
