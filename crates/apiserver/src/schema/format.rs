//! The string formats that upstream checks; any other `format` is a remark and checks nothing.
//!
//! Each check accepts what the Go function behind it accepts, not what the format's standard says:
//! `date-time` takes no leap second, `duration` takes Scala's spellings, `ipv4` takes leading zeros.

mod internet;
mod time;

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

pub(crate) use self::internet::is_absolute_url;
use crate::json::Access;

/// The `format` of a schema, if it means nothing to the server.
pub(crate) fn unrecognised_format(schema: &Value) -> Option<&str> {
    let name = schema.text("format");
    let unknown = Format::recognise(name, schema.text("type")).is_none();
    Some(name).filter(|name| !name.is_empty() && unknown)
}

/// A recognised format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    BsonObjectId,
    Uri,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
    Isbn,
    Isbn10,
    Isbn13,
    CreditCard,
    Ssn,
    HexColor,
    RgbColor,
    Byte,
    Password,
    Date,
    Duration,
    DateTime,
    ShortName,
    LongName,
    Int32,
    Int64,
    Float,
    Double,
    /// Known by name only.
    Unchecked,
}

impl Format {
    /// The format by its name, if it means something for a schema of this type. Dashes in the
    /// names of string formats do not matter.
    pub(super) fn recognise(name: &str, schema_type: &str) -> Option<Self> {
        match (schema_type, name) {
            ("integer", "int32") => return Some(Self::Int32),
            ("integer", "int64") => return Some(Self::Int64),
            ("number", "float") => return Some(Self::Float),
            ("number", "double") => return Some(Self::Double),
            ("" | "string", _) => {}
            _ => return None,
        }
        Some(match name.replace('-', "").as_str() {
            "bsonobjectid" => Self::BsonObjectId,
            "uri" => Self::Uri,
            "email" => Self::Email,
            "hostname" => Self::Hostname,
            "ipv4" => Self::Ipv4,
            "ipv6" => Self::Ipv6,
            "cidr" => Self::Cidr,
            "mac" => Self::Mac,
            "uuid" => Self::Uuid,
            "uuid3" => Self::Uuid3,
            "uuid4" => Self::Uuid4,
            "uuid5" => Self::Uuid5,
            "isbn" => Self::Isbn,
            "isbn10" => Self::Isbn10,
            "isbn13" => Self::Isbn13,
            "creditcard" => Self::CreditCard,
            "ssn" => Self::Ssn,
            "hexcolor" => Self::HexColor,
            "rgbcolor" => Self::RgbColor,
            "byte" => Self::Byte,
            "password" => Self::Password,
            "date" => Self::Date,
            "duration" => Self::Duration,
            "datetime" => Self::DateTime,
            "k8sshortname" => Self::ShortName,
            "k8slongname" => Self::LongName,
            _ => return None,
        })
    }

    /// The format of texts by its name, whatever the type of the schema.
    pub(super) fn recognise_text(name: &str) -> Self {
        Self::recognise(name, "").unwrap_or(Self::Unchecked)
    }

    /// Whether it is a format of numbers, which bounds a range instead of a spelling.
    pub(super) const fn is_numeric(self) -> bool {
        matches!(self, Self::Int32 | Self::Int64 | Self::Float | Self::Double)
    }

    pub(super) fn accepts(self, text: &str) -> bool {
        match self {
            Self::BsonObjectId => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
            Self::Uri => internet::is_request_uri(text),
            Self::Email => internet::is_email(text),
            Self::Hostname => internet::is_hostname(text),
            Self::Ipv4 => internet::is_ipv4(text),
            Self::Ipv6 => internet::is_ipv6(text),
            Self::Cidr => internet::is_cidr(text),
            Self::Mac => internet::is_mac(text),
            Self::Uuid => uuid_digits(text).is_some(),
            Self::Uuid3 => uuid_digits(text).is_some_and(|d| d[12] == b'3'),
            Self::Uuid4 => {
                uuid_digits(text).is_some_and(|d| d[12] == b'4' && is_rfc_variant(d[16]))
            }
            Self::Uuid5 => {
                uuid_digits(text).is_some_and(|d| d[12] == b'5' && is_rfc_variant(d[16]))
            }
            Self::Isbn => is_isbn10(text) || is_isbn13(text),
            Self::Isbn10 => is_isbn10(text),
            Self::Isbn13 => is_isbn13(text),
            Self::CreditCard => is_credit_card(text),
            Self::Ssn => text.len() == 11 && SSN.is_match(text),
            Self::HexColor => is_hex_color(text),
            Self::RgbColor => RGB_COLOR.is_match(text),
            Self::Byte => is_base64(text),
            Self::Date => crate::go::time::parse_date(text).is_some(),
            Self::Duration => crate::go::duration::parse_lenient(text).is_some(),
            Self::DateTime => time::is_date_time(text),
            Self::ShortName => text.len() <= 63 && is_short_name(text),
            Self::LongName => text.len() <= 253 && text.split('.').all(is_short_name),
            Self::Password
            | Self::Int32
            | Self::Int64
            | Self::Float
            | Self::Double
            | Self::Unchecked => true,
        }
    }
}

fn fixed(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is a constant of this module")
}

static SSN: LazyLock<Regex> = LazyLock::new(|| fixed("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"));

static RGB_COLOR: LazyLock<Regex> = LazyLock::new(|| {
    const SPACE: &str = r"[\t\n\x0C\r ]*";
    const LEVEL: &str = "(?:0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])";
    fixed(&format!(r"^rgb\({SPACE}{LEVEL}{SPACE},{SPACE}{LEVEL}{SPACE},{SPACE}{LEVEL}{SPACE}\)$"))
});

static CREDIT_CARD: LazyLock<Regex> = LazyLock::new(|| {
    fixed(
        "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}\
         |3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$",
    )
});

/// The 32 digits of a UUID; any of its four dashes may be missing.
fn uuid_digits(text: &str) -> Option<[u8; 32]> {
    let mut digits = [0_u8; 32];
    let mut rest = text.bytes().peekable();
    for (at, place) in digits.iter_mut().enumerate() {
        if matches!(at, 8 | 12 | 16 | 20) {
            rest.next_if_eq(&b'-');
        }
        *place = rest.next().filter(u8::is_ascii_hexdigit)?.to_ascii_lowercase();
    }
    rest.next().is_none().then_some(digits)
}

const fn is_rfc_variant(digit: u8) -> bool {
    matches!(digit, b'8' | b'9' | b'a' | b'b')
}

/// The characters of an ISBN without its spaces and dashes.
fn isbn_digits(text: &str) -> Vec<u8> {
    text.bytes().filter(|b| !matches!(b, b'-' | b'\t' | b'\n' | 0xc | b'\r' | b' ')).collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = isbn_digits(text);
    let Some((check, body)) = digits.split_last().filter(|(_, body)| body.len() == 9) else {
        return false;
    };
    if !body.iter().all(u8::is_ascii_digit) || !(check.is_ascii_digit() || *check == b'X') {
        return false;
    }
    let check = if *check == b'X' { 10 } else { u32::from(check - b'0') };
    let sum: u32 = (1..).zip(body).map(|(at, d)| at * u32::from(d - b'0')).sum();
    (sum + 10 * check).is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let digits = isbn_digits(text);
    if digits.len() != 13 || !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let weights = [1, 3].into_iter().cycle();
    let sum: u32 = weights.zip(&digits[..12]).map(|(w, d)| w * u32::from(d - b'0')).sum();
    u32::from(digits[12] - b'0') == (10 - sum % 10) % 10
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if !CREDIT_CARD.is_match(&digits) {
        return false;
    }
    let doubled = [false, true].into_iter().cycle();
    let sum: u32 = digits
        .bytes()
        .rev()
        .zip(doubled)
        .map(|(d, double)| match (u32::from(d - b'0'), double) {
            (d, false) => d,
            (d, true) if d >= 5 => d * 2 - 9,
            (d, true) => d * 2,
        })
        .sum();
    sum.is_multiple_of(10)
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Standard alphabet, padded, and not empty.
fn is_base64(text: &str) -> bool {
    let body = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    let in_alphabet = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
    !text.is_empty() && text.len().is_multiple_of(4) && body.bytes().all(in_alphabet)
}

fn is_short_name(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests;
