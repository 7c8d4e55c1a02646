//! Things that live somewhere else, where "is not there" and "could not be asked" are different.

/// What is known of something remote. A failed read is `Unknown`, never the last value seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Known<T> {
    Absent,
    #[default]
    Unknown,
    Is(T),
}

impl<T> Known<T> {
    pub const fn as_ref(&self) -> Known<&T> {
        match self {
            Self::Absent => Known::Absent,
            Self::Unknown => Known::Unknown,
            Self::Is(value) => Known::Is(value),
        }
    }

    /// The value, if there is one that is known.
    pub fn is(self) -> Option<T> {
        match self {
            Self::Is(value) => Some(value),
            Self::Absent | Self::Unknown => None,
        }
    }

    pub const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    pub const fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }
}

impl<T> From<Option<T>> for Known<T> {
    /// For what was really looked up: nothing found is `Absent`.
    fn from(found: Option<T>) -> Self {
        found.map_or(Self::Absent, Self::Is)
    }
}
