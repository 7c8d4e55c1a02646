//! Semantic versions.

use std::cmp::Ordering;
use std::rc::Rc;

use super::super::eval::{Evaluated, Fault};
use super::super::value::{Text, Val};
use super::{Native, only};

#[derive(Debug)]
pub(in super::super) struct Semver {
    /// Major, minor, patch.
    numbers: [u64; 3],
    pre_release: Vec<Identifier>,
}

#[derive(Debug)]
enum Identifier {
    Number(u64),
    Word(String),
}

impl Semver {
    /// Precedence: build metadata does not count.
    pub(in super::super) fn compare(&self, other: &Self) -> Ordering {
        let numbers = self.numbers.cmp(&other.numbers);
        if numbers != Ordering::Equal {
            return numbers;
        }
        match (&self.pre_release[..], &other.pre_release[..]) {
            ([], []) => Ordering::Equal,
            ([], _) => Ordering::Greater,
            (_, []) => Ordering::Less,
            (own, others) => own
                .iter()
                .zip(others)
                .map(|(a, b)| a.compare(b))
                .find(|order| *order != Ordering::Equal)
                .unwrap_or_else(|| own.len().cmp(&others.len())),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (rest, build) = match text.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (text, None),
        };
        let (core, pre) = match rest.split_once('-') {
            Some((core, pre)) => (core, Some(pre)),
            None => (rest, None),
        };
        let word = |part: &str| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        if build.is_some_and(|build| !build.split('.').all(word)) {
            return None;
        }
        let mut parts = core.split('.');
        let mut numbers = [0; 3];
        for slot in &mut numbers {
            *slot = number(parts.next()?)?;
        }
        if parts.next().is_some() {
            return None;
        }
        let pre_release = match pre {
            None => Vec::new(),
            Some(pre) => pre
                .split('.')
                .map(|part| match part {
                    _ if !word(part) => None,
                    _ if part.bytes().all(|b| b.is_ascii_digit()) => {
                        number(part).map(Identifier::Number)
                    }
                    _ => Some(Identifier::Word(part.to_owned())),
                })
                .collect::<Option<_>>()?,
        };
        Some(Self { numbers, pre_release })
    }

    /// Forgives a leading `v`, missing parts and leading zeros.
    fn parse_normalized(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(str::to_owned).collect();
        for part in &mut parts {
            if part.len() > 1 {
                let trimmed = part.trim_start_matches('0');
                let needs_zero = !trimmed.starts_with(|c: char| c.is_ascii_digit());
                *part = if needs_zero { format!("0{trimmed}") } else { trimmed.to_owned() };
            }
        }
        if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return None;
        }
        parts.resize(3, "0".to_owned());
        Self::parse(&parts.join("."))
    }
}

impl Identifier {
    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a.cmp(b),
            (Self::Number(_), Self::Word(_)) => Ordering::Less,
            (Self::Word(_), Self::Number(_)) => Ordering::Greater,
            (Self::Word(a), Self::Word(b)) => a.cmp(b),
        }
    }
}

fn number(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}

pub(super) fn native(function: &str) -> Option<Native> {
    let found: Native = match function {
        "semver" => |args, _| {
            let (text, parsed) = read(args)?;
            let wrong = || Fault::new(problem(text));
            Ok(Val::Semver(Rc::new(parsed.ok_or_else(wrong)?)))
        },
        "isSemver" => |args, _| Ok(Val::Bool(read(args)?.1.is_some())),
        "major" => |args, _| part(args, 0),
        "minor" => |args, _| part(args, 1),
        "patch" => |args, _| part(args, 2),
        _ => return None,
    };
    Some(found)
}

/// What is wrong with a version, in the words of the Go library where they are simple.
fn problem(text: &str) -> String {
    if text.is_empty() {
        return "Version string empty".to_owned();
    }
    if text.splitn(3, '.').count() < 3 {
        return "No Major.Minor.Patch elements found".to_owned();
    }
    format!("Invalid semantic version {}", crate::go::quote(text))
}

fn read<'v, 'a>(args: &'v [Val<'a>]) -> Result<(&'v Text<'a>, Option<Semver>), Fault> {
    match args {
        [Val::Text(text)] | [Val::Text(text), Val::Bool(false)] => Ok((text, Semver::parse(text))),
        [Val::Text(text), Val::Bool(true)] => Ok((text, Semver::parse_normalized(text))),
        _ => Err(Fault::no_such_overload()),
    }
}

fn part<'a>(args: &[Val<'a>], index: usize) -> Evaluated<'a> {
    match only(args)? {
        Val::Semver(version) => {
            Ok(Val::Int(i64::try_from(version.numbers[index]).unwrap_or(i64::MAX)))
        }
        _ => Err(Fault::no_such_overload()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_precedence() {
        let ordered =
            ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-2", "1.0.0", "1.2.0"];
        let order =
            |a: &str, b: &str| Semver::parse(a).unwrap().compare(&Semver::parse(b).unwrap());
        assert_eq!(order(ordered[0], ordered[1]), Ordering::Less);
        assert_eq!(order(ordered[1], ordered[2]), Ordering::Less);
        assert_eq!(order(ordered[3], ordered[0]), Ordering::Less);
        assert_eq!(order(ordered[2], ordered[4]), Ordering::Less);
        assert_eq!(order("1.0.0+a", "1.0.0+b"), Ordering::Equal);
        for wrong in ["1.0", "01.0.0", "v1.0.0", "1.0.0-", "1.0.0-01", "1.0.0.0", ""] {
            assert!(Semver::parse(wrong).is_none(), "{wrong}");
        }
        assert_eq!(Semver::parse_normalized("v01.2").unwrap().numbers, [1, 2, 0]);
        assert!(Semver::parse_normalized("1.2-a").is_none());
    }
}
