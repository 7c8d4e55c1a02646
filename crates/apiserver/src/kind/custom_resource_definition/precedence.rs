//! Which of two API versions is the better one.

use std::cmp::Reverse;

/// Orders versions from worst to best: names that are no versions in reverse alphabetical order,
/// then alpha, beta and stable ones, each by number.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Precedence<'n> {
    Other(Reverse<&'n str>),
    Version { stability: Stability, major: u64, minor: u64 },
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stability {
    Alpha,
    Beta,
    Stable,
}

impl<'n> Precedence<'n> {
    pub(crate) fn of(name: &'n str) -> Self {
        Self::parse(name).unwrap_or(Self::Other(Reverse(name)))
    }

    /// `v1`, `v2beta1`, `v3alpha2`.
    fn parse(name: &str) -> Option<Self> {
        let rest = name.strip_prefix('v')?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (major, suffix) = rest.split_at(end);
        let (stability, minor) = match suffix {
            "" => (Stability::Stable, "0"),
            suffix => match suffix.strip_prefix("beta") {
                Some(minor) => (Stability::Beta, minor),
                None => (Stability::Alpha, suffix.strip_prefix("alpha")?),
            },
        };
        let number = |digits: &str| {
            let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            plain.then(|| digits.parse().ok()).flatten()
        };
        Some(Self::Version { stability, major: number(major)?, minor: number(minor)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_rank_as_upstream_ranks_them() {
        let ranked = ["foo10", "foo1", "v3alpha1", "v11alpha2", "v3beta1", "v12beta1", "v1", "v10"];
        for pair in ranked.windows(2) {
            assert!(Precedence::of(pair[0]) < Precedence::of(pair[1]), "{pair:?}");
        }
    }
}
