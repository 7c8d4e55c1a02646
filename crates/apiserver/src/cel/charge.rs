//! What a call costs when it is made, in the reference's units.
//!
//! These must not exceed what [`super::estimate`] foresees, or rules that were accepted would fail.

use super::value::Val;

/// What making a list costs.
pub(super) const LIST: u64 = 10;
pub(super) const MAP: u64 = 30;

/// The cost of looking at one character.
pub(super) const PER_CHARACTER: f64 = 0.1;
/// The cost of one character of a pattern, per unit of the text it is applied to.
pub(super) const PER_PATTERN_CHARACTER: f64 = 0.25;

/// How the cost of a function follows from its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Charge {
    Unit,
    /// Every element of the first argument, strings by length.
    Traversal,
    /// The first argument's length, this many times.
    Length(u8),
    /// The result's length, twice.
    ResultLength,
    Pattern,
    Substring,
    /// The shorter of two arguments.
    Shorter,
    Equality,
    /// Both arguments together.
    Both,
    Membership,
    /// Every pair of elements, this many times.
    Pairs(u8),
    ResultList,
    Flatten,
    /// Every pair of elements of the argument at this position.
    SelfPairs(usize),
    ContainsIp {
        parses: bool,
    },
    ContainsCidr {
        parses: bool,
    },
    NamedFormat,
}

impl Charge {
    /// By function first, then by overload; an overload is `""` where several are possible.
    pub(super) fn of(function: &str, overload: &str) -> Self {
        match overload {
            "list_sets_contains_list" | "list_sets_intersects_list" => return Self::Pairs(1),
            "list_sets_equivalent_list" => return Self::Pairs(2),
            "list_slice" | "lists_range" | "list_reverse" => return Self::ResultList,
            "list_flatten" | "list_flatten_int" => return Self::Flatten,
            "list_distinct" => return Self::SelfPairs(0),
            _ if overload.ends_with("_sortByAssociatedKeys") => return Self::SelfPairs(1),
            _ if overload.ends_with("_sort") => return Self::SelfPairs(0),
            _ => {}
        }
        match function {
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => Self::Traversal,
            "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "cidr" | "isIP"
            | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver" => Self::Length(1),
            "ip" if overload != "cidr_ip" => Self::Length(1),
            "replace" | "split" | "ip.isCanonical" => Self::Length(2),
            "join" => Self::ResultLength,
            "find" | "findAll" => Self::Pattern,
            "containsIP" => Self::ContainsIp { parses: overload == "cidr_contains_ip_string" },
            "containsCIDR" => {
                Self::ContainsCidr { parses: overload == "cidr_contains_cidr_string" }
            }
            "validate" => Self::NamedFormat,
            "_==_" => Self::Equality,
            _ => Self::of_overload(overload),
        }
    }

    fn of_overload(overload: &str) -> Self {
        match overload {
            "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string"
            | "strings_quote" | "string_format" => Self::Length(1),
            "in_list" => Self::Membership,
            "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes"
            | "not_equals" => Self::Shorter,
            "add_string" | "add_bytes" => Self::Both,
            "matches_string" => Self::Pattern,
            "contains_string" => Self::Substring,
            _ => Self::Unit,
        }
    }

    pub(super) fn cost(self, args: &[Val<'_>], result: &Val<'_>) -> u64 {
        let size = |index: usize| args.get(index).map_or(1, Val::size);
        match self {
            Self::Unit => 1,
            Self::Traversal => args.first().map_or(0, traversal),
            Self::Length(times) => scaled(size(0), f64::from(times) * PER_CHARACTER),
            Self::ResultLength => scaled(result.size(), 2.0 * PER_CHARACTER),
            Self::Pattern => {
                let text = scaled(size(0).saturating_add(1), PER_CHARACTER);
                text.saturating_mul(scaled(size(1), PER_PATTERN_CHARACTER))
            }
            Self::Substring => {
                scaled(size(0), PER_CHARACTER).saturating_mul(scaled(size(1), PER_CHARACTER))
            }
            Self::Equality if is_library_value(args.first()) => 1,
            Self::Shorter | Self::Equality => scaled(size(0).min(size(1)), PER_CHARACTER),
            Self::Both => scaled(size(0).saturating_add(size(1)), PER_CHARACTER),
            Self::Membership => size(1),
            Self::Pairs(times) => {
                size(0).saturating_mul(size(1)).saturating_mul(u64::from(times)).saturating_add(1)
            }
            Self::ResultList => result.size().saturating_add(1 + LIST),
            Self::Flatten => {
                let depth = match args.get(1) {
                    Some(Val::Int(depth)) => u64::try_from(*depth).unwrap_or_default(),
                    _ => 1,
                };
                size(0).saturating_mul(depth).saturating_add(1 + LIST)
            }
            Self::SelfPairs(index) => self_pairs(args.get(index)),
            Self::ContainsIp { parses } => {
                let mut cost = scaled(size(0) * 2, PER_CHARACTER);
                if parses {
                    cost += scaled(size(1), PER_CHARACTER);
                }
                cost
            }
            Self::ContainsCidr { parses } => {
                let mut cost = scaled(size(0) * 2, PER_CHARACTER);
                cost += scaled(size(0), PER_CHARACTER) + 1;
                if parses {
                    cost += scaled(size(1), PER_CHARACTER);
                }
                cost
            }
            Self::NamedFormat => match args.first() {
                Some(Val::Format(format)) => {
                    let text = scaled(size(1).saturating_add(1), PER_CHARACTER);
                    let pattern = scaled(format.pattern_size, PER_PATTERN_CHARACTER);
                    text.saturating_mul(pattern)
                }
                _ => 1,
            },
        }
    }
}

/// Size times factor, rounded up.
#[expect(clippy::cast_precision_loss, reason = "sizes of data are far below 2^52")]
#[expect(clippy::cast_possible_truncation, reason = "saturates")]
#[expect(clippy::cast_sign_loss, reason = "sizes and factors are not negative")]
pub(super) fn scaled(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}

fn is_library_value(value: Option<&Val<'_>>) -> bool {
    matches!(
        value,
        Some(
            Val::Quantity(_)
                | Val::Ip(_)
                | Val::Cidr(_)
                | Val::Format(_)
                | Val::Url(_)
                | Val::Semver(_)
        )
    )
}

fn self_pairs(list: Option<&Val<'_>>) -> u64 {
    let Some(list) = list.and_then(Val::as_list) else { return 1 };
    let size = list.len() as u64;
    let is_text = matches!(list.get(0), Ok(Val::Text(_) | Val::Bytes(_)));
    let tenths: u64 = if is_text { 21 } else { 20 };
    (size.saturating_mul(size).saturating_mul(tenths) / 10).saturating_add(1 + LIST)
}

fn traversal(value: &Val<'_>) -> u64 {
    match value {
        Val::Text(text) => (text.len() / 10) as u64,
        Val::Bytes(bytes) => (bytes.len() / 10) as u64,
        _ => {
            if let Some(list) = value.as_list() {
                let items = list.iter().filter_map(Result::ok);
                return items.map(|item| traversal(&item)).sum();
            }
            if let Some(map) = value.as_map() {
                let entry = |key: Val<'_>| {
                    let value = map.find(&key).ok().flatten();
                    traversal(&key) + value.map_or(0, |value| traversal(&value))
                };
                return map.keys().into_iter().map(entry).sum();
            }
            1
        }
    }
}
