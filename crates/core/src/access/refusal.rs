//! Why a person is refused, in words, with the status code of the answer.

/// So long a reason may be.
pub const MAX_REASON_CHARS: usize = 500;

/// Why nothing was created or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// They may not.
    #[error("{0}")]
    Forbidden(String),
    /// Somebody was there before.
    #[error("{0}")]
    Conflict(String),
    /// The session is not in a state in which that can be done.
    #[error("{0}")]
    BadState(String),
    /// What they sent cannot be accepted.
    #[error("{0}")]
    Invalid(String),
}

impl Refusal {
    /// The status code of the answer.
    pub const fn code(&self) -> u16 {
        match self {
            Self::Forbidden(_) => 403,
            Self::Conflict(_) => 409,
            Self::BadState(_) => 400,
            Self::Invalid(_) => 422,
        }
    }
}

/// What somebody gave as their reason: kept as it is, `None` if it says nothing.
pub(super) fn check_reason(said: Option<&str>) -> Result<Option<String>, Refusal> {
    let Some(said) = said.filter(|said| !said.trim().is_empty()) else { return Ok(None) };
    if said.chars().any(char::is_control) {
        let text = "the reason must be a single line without control characters";
        return Err(Refusal::Invalid(text.to_owned()));
    }
    let length = said.chars().count();
    if length > MAX_REASON_CHARS {
        return Err(Refusal::Invalid(format!(
            "the reason has {length} characters, and {MAX_REASON_CHARS} are the most"
        )));
    }
    Ok(Some(said.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_kept_as_it_was_written() {
        let ticket = "Störung: https://tickets.example.org/4711?a=b#c (2. Versuch)";
        assert_eq!(check_reason(Some(ticket)), Ok(Some(ticket.to_owned())));
        assert_eq!(check_reason(Some(" \t ")), Ok(None));
        assert_eq!(check_reason(None), Ok(None));
        let longest = "ü".repeat(MAX_REASON_CHARS);
        assert_eq!(check_reason(Some(&longest)), Ok(Some(longest.clone())));
    }

    #[test]
    fn a_reason_that_is_too_long_or_has_control_characters_is_refused() {
        for said in ["a\u{1b}[31m", "two\nlines", "\0", &"x".repeat(MAX_REASON_CHARS + 1)] {
            assert_eq!(check_reason(Some(said)).unwrap_err().code(), 422, "{said:?}");
        }
    }
}
