//! IP addresses and CIDRs as older API fields take them: what is new must be strict, what an object
//! already had may stay, and odd spellings are warned about.

use std::net::IpAddr;

use serde_json::Value;

use super::grammar::Errors;
use crate::field::{FieldError, Path};
use crate::go;
use crate::go::address::{self, SloppyCidr, parse_sloppy};

/// Checks an address; one that is among `existing` is left alone.
pub(crate) fn ip(errors: &mut Errors, path: &Path<'_>, value: &str, existing: &[Value]) {
    if existing.iter().any(|old| old.as_str() == Some(value)) {
        return;
    }
    if parse_sloppy(value).is_none() {
        let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        errors.push(FieldError::invalid_text(path, value, detail));
        return;
    }
    match address::parse(value) {
        None => errors.push(FieldError::invalid_text(path, value, "must not have leading 0s")),
        Some(address) if address::is_mapped(address) => {
            let detail = "must not be an IPv4-mapped IPv6 address";
            errors.push(FieldError::invalid_text(path, value, detail));
        }
        Some(_) => {}
    }
}

/// Checks a CIDR; one that is among `existing` is left alone.
pub(crate) fn cidr(errors: &mut Errors, path: &Path<'_>, value: &str, existing: &[Value]) {
    if existing.iter().any(|old| old.as_str().map(str::trim) == Some(value)) {
        return;
    }
    let Some(sloppy) = SloppyCidr::parse(value) else {
        let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        errors.push(FieldError::invalid_text(path, value, detail));
        return;
    };
    let detail = if !sloppy.is_strict {
        "must not have leading 0s in IP or prefix length"
    } else if sloppy.is_mapped {
        "must not have an IPv4-mapped IPv6 address"
    } else if sloppy.masked() != sloppy.address {
        "must not have bits set beyond the prefix length"
    } else {
        return;
    };
    errors.push(FieldError::invalid_text(path, value, detail));
}

/// What a client should be told about the spelling of an address that was let through.
pub(crate) fn ip_warning(path: &Path<'_>, value: &str) -> Option<String> {
    let sloppy = parse_sloppy(value)?;
    match address::parse(value) {
        Some(IpAddr::V4(_)) => None,
        Some(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_none() => {
            (v6.to_string() != value).then(|| {
                format!(
                    "{path}: IPv6 address {} should be in RFC 5952 canonical format ({})",
                    go::quote(value),
                    go::quote(&v6.to_string())
                )
            })
        }
        _ => Some(format!(
            "{path}: non-standard IP address {} is invalid: use {}",
            go::quote(value),
            go::quote(&sloppy.to_string())
        )),
    }
}

/// What a client should be told about the spelling of a CIDR that was let through.
pub(crate) fn cidr_warnings(path: &Path<'_>, value: &str) -> Vec<String> {
    let Some(cidr) = SloppyCidr::parse(value) else {
        return Vec::new();
    };
    let mut warnings = Vec::new();
    let network = format!("{}/{}", cidr.masked(), cidr.bits);
    if cidr.masked() != cidr.address {
        let single = format!("{}/{}", cidr.address, address::width(cidr.address));
        warnings.push(format!(
            "{path}: CIDR value {} is ambiguous in this context (should be {} or {}?)",
            go::quote(value),
            go::quote(&network),
            go::quote(&single)
        ));
    }
    if !cidr.is_strict || cidr.is_mapped {
        warnings.push(format!(
            "{path}: non-standard CIDR value {} is invalid: use {}",
            go::quote(value),
            go::quote(&network)
        ));
    }
    if warnings.is_empty() && cidr.address.is_ipv6() && network != value {
        warnings.push(format!(
            "{path}: IPv6 CIDR value {} should be in RFC 5952 canonical format ({})",
            go::quote(value),
            go::quote(&network)
        ));
    }
    warnings
}

/// Whether these addresses are of both families. `None`: one is not an address.
pub(crate) fn is_dual_stack<'a>(values: impl Iterator<Item = &'a str>) -> Option<bool> {
    both_families(values.map(parse_sloppy))
}

/// Whether these CIDRs are of both families. `None`: one is not a CIDR.
pub(crate) fn is_dual_stack_cidr<'a>(values: impl Iterator<Item = &'a str>) -> Option<bool> {
    both_families(values.map(|value| Some(SloppyCidr::parse(value)?.address)))
}

fn both_families(addresses: impl Iterator<Item = Option<IpAddr>>) -> Option<bool> {
    let (mut v4, mut v6) = (false, false);
    for address in addresses {
        match address? {
            IpAddr::V4(_) => v4 = true,
            IpAddr::V6(_) => v6 = true,
        }
    }
    Some(v4 && v6)
}

pub(crate) fn is_cidr(value: &str) -> bool {
    SloppyCidr::parse(value).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip_texts(value: &str) -> Vec<String> {
        let mut errors = crate::field::FieldErrors::new();
        ip(&mut errors, &Path::new("ip"), value, &[]);
        errors.iter().map(|e| e.detail.clone()).collect()
    }

    #[test]
    fn strictness() {
        assert!(ip_texts("10.0.0.1").is_empty());
        assert!(ip_texts("::1").is_empty());
        assert_eq!(ip_texts("010.0.0.1"), ["must not have leading 0s"]);
        assert_eq!(ip_texts("::ffff:1.2.3.4"), ["must not be an IPv4-mapped IPv6 address"]);
        assert_eq!(
            ip_texts("1.2.3"),
            ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
        );
        assert_eq!(ip_texts("1.2.3.256").len(), 1);
    }

    #[test]
    fn what_was_there_may_stay() {
        let mut errors = crate::field::FieldErrors::new();
        ip(&mut errors, &Path::new("ip"), "010.0.0.1", &["010.0.0.1".into()]);
        assert!(errors.is_empty());
    }

    #[test]
    fn cidrs() {
        let texts = |value: &str| {
            let mut errors = crate::field::FieldErrors::new();
            cidr(&mut errors, &Path::new("c"), value, &[]);
            errors.into_iter().map(|e| e.detail).collect::<Vec<_>>()
        };
        assert!(texts("10.0.0.0/8").is_empty());
        assert!(texts("fd00::/64").is_empty());
        assert!(texts("0.0.0.0/0").is_empty());
        assert_eq!(texts("10.0.0.1/8"), ["must not have bits set beyond the prefix length"]);
        assert_eq!(texts("10.0.0.0/08"), ["must not have leading 0s in IP or prefix length"]);
        assert_eq!(texts("10.0.0.0/33").len(), 1);
        assert_eq!(texts("10.0.0.0/").len(), 1);
        assert_eq!(texts("10.0.0.0").len(), 1);
    }

    #[test]
    fn odd_spellings_are_warned_about() {
        let path = Path::new("ip");
        assert_eq!(ip_warning(&path, "1.2.3.4"), None);
        assert_eq!(
            ip_warning(&path, "01.2.3.4").as_deref(),
            Some(r#"ip: non-standard IP address "01.2.3.4" is invalid: use "1.2.3.4""#)
        );
        assert_eq!(
            ip_warning(&path, "FD00::0").as_deref(),
            Some(r#"ip: IPv6 address "FD00::0" should be in RFC 5952 canonical format ("fd00::")"#)
        );
        assert_eq!(cidr_warnings(&path, "10.0.0.1/8").len(), 1);
    }

    #[test]
    fn families() {
        assert_eq!(is_dual_stack(["1.2.3.4", "::1"].into_iter()), Some(true));
        assert_eq!(is_dual_stack(["1.2.3.4", "5.6.7.8"].into_iter()), Some(false));
        assert_eq!(is_dual_stack(["x"].into_iter()), None);
    }
}
