//! Named formats: `format.dns1123Label().validate(self.name)`.

use base64::Engine as _;

use super::super::eval::Fault;
use super::super::time;
use super::super::value::Val;
use super::url::Url;
use super::{Native, text_first};
use crate::name;

/// A grammar that text can be checked against.
#[derive(Debug)]
pub(in super::super) struct NamedFormat {
    name: &'static str,
    /// How long an equivalent pattern would be; it decides what checking costs.
    pub(in super::super) pattern_size: u64,
    problems: fn(&str) -> Vec<String>,
}

static FORMATS: [NamedFormat; 13] = [
    NamedFormat { name: "dns1123Label", pattern_size: 30, problems: name::dns1123_label },
    NamedFormat { name: "dns1123Subdomain", pattern_size: 60, problems: name::dns1123_subdomain },
    NamedFormat { name: "dns1035Label", pattern_size: 30, problems: name::dns1035_label },
    NamedFormat { name: "qualifiedName", pattern_size: 60, problems: name::qualified_name },
    NamedFormat {
        name: "dns1123LabelPrefix",
        pattern_size: 30,
        problems: |text| name::dns1123_label(&mask_trailing_dash(text)),
    },
    NamedFormat {
        name: "dns1123SubdomainPrefix",
        pattern_size: 60,
        problems: |text| name::dns1123_subdomain(&mask_trailing_dash(text)),
    },
    NamedFormat {
        name: "dns1035LabelPrefix",
        pattern_size: 30,
        problems: |text| name::dns1035_label(&mask_trailing_dash(text)),
    },
    NamedFormat { name: "labelValue", pattern_size: 40, problems: name::label_value },
    NamedFormat {
        name: "uri",
        pattern_size: 1103,
        problems: |text| match Url::parse_request(text) {
            Ok(_) => Vec::new(),
            Err(problem) => vec![problem],
        },
    },
    NamedFormat {
        name: "uuid",
        pattern_size: 71,
        problems: |text| unless(is_uuid(text), "does not match the UUID format"),
    },
    NamedFormat {
        name: "byte",
        pattern_size: 84,
        problems: |text| {
            let decoded = base64::engine::general_purpose::STANDARD.decode(text);
            unless(decoded.is_ok() && !text.is_empty(), "invalid base64")
        },
    },
    NamedFormat {
        name: "date",
        pattern_size: 71,
        problems: |text| unless(time::parse_date(text).is_some(), "invalid date"),
    },
    NamedFormat {
        name: "datetime",
        pattern_size: 71,
        problems: |text| unless(is_date_time(text), "invalid datetime"),
    },
];

fn unless(valid: bool, problem: &str) -> Vec<String> {
    if valid { Vec::new() } else { vec![problem.to_owned()] }
}

/// A prefix may end in a dash where a name may not. The letter takes the place of the last two.
fn mask_trailing_dash(text: &str) -> String {
    let mut kept = text.chars();
    if text.len() > 1 && kept.next_back() == Some('-') {
        kept.next_back();
        return format!("{}a", kept.as_str());
    }
    text.to_owned()
}

fn is_uuid(text: &str) -> bool {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let dashes: Vec<usize> = text.match_indices('-').map(|(at, _)| at).collect();
    let well_placed = dashes.iter().all(|at| {
        // Each of the four dashes may be missing; the groups are of 8, 4, 4, 4 and 12 digits.
        let before = text[..*at].bytes().filter(|b| *b != b'-').count();
        matches!(before, 8 | 12 | 16 | 20)
    });
    let single = dashes.windows(2).all(|pair| pair[1] > pair[0] + 1);
    digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_hexdigit()) && well_placed && single
}

fn is_date_time(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    upper.ends_with(|c: char| c == 'Z' || c.is_ascii_digit())
        && upper.len() > 10
        && time::parse_timestamp(&upper).is_some()
}

pub(super) fn native(function: &str) -> Option<Native> {
    if function == "validate" {
        return Some(|args, meter| match args {
            [Val::Format(format), Val::Text(text)] => {
                meter.work(text.len())?;
                let problems = (format.problems)(text);
                if problems.is_empty() {
                    return Ok(Val::Optional(None));
                }
                Ok(Val::some(Val::list(problems.into_iter().map(Val::text).collect())))
            }
            _ => Err(Fault::no_such_overload()),
        });
    }
    if function == "format.named" {
        return Some(|args, _| {
            let name = text_first(args)?.0;
            let found = FORMATS.iter().find(|format| format.name == &**name);
            Ok(found.map_or(Val::Optional(None), |format| Val::some(Val::Format(format))))
        });
    }
    let name = function.strip_prefix("format.")?;
    // One function each, because functions carry no data.
    macro_rules! constant {
        ($($index:literal),*) => {
            match FORMATS.iter().position(|format| format.name == name)? {
                $($index => Some(|_, _| Ok(Val::Format(&FORMATS[$index]))),)*
                _ => None,
            }
        };
    }
    constant!(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_and_refuse() {
        for (name, text, valid) in [
            ("dns1123Label", "my-name", true),
            ("dns1123Label", "My", false),
            ("dns1123LabelPrefix", "my-", true),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", true),
            ("uuid", "123e4567e89b12d3a456426614174000", true),
            ("uuid", "123e4567-e89b-12d3-a456-42661417400", false),
            ("byte", "aGVsbG8=", true),
            ("byte", "a", false),
            ("date", "2021-01-01", true),
            ("date", "2021-13-01", false),
            ("datetime", "2021-01-01T00:00:00Z", true),
            ("datetime", "2021-01-01", false),
            ("uri", "http://example.com", true),
            ("uri", "example", false),
        ] {
            let format = FORMATS.iter().find(|format| format.name == name).unwrap();
            assert_eq!((format.problems)(text).is_empty(), valid, "{name} {text}");
        }
    }
}
