//! IP addresses and CIDRs as older API fields take them: what is new must be strict, what an object
//! already had may stay, and odd spellings are warned about.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::Value;

use super::grammar::Errors;
use crate::field::{FieldError, Path};
use crate::go;

/// Checks an address; one that is among `existing` is left alone.
pub(crate) fn ip(errors: &mut Errors, path: &Path<'_>, value: &str, existing: &[Value]) {
    if existing.iter().any(|old| old.as_str() == Some(value)) {
        return;
    }
    if parse(value).is_none() {
        let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        errors.push(FieldError::invalid_text(path, value, detail));
        return;
    }
    match value.parse::<IpAddr>() {
        Err(_) => errors.push(FieldError::invalid_text(path, value, "must not have leading 0s")),
        Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => {
            let detail = "must not be an IPv4-mapped IPv6 address";
            errors.push(FieldError::invalid_text(path, value, detail));
        }
        Ok(_) => {}
    }
}

/// Checks a CIDR; one that is among `existing` is left alone.
pub(crate) fn cidr(errors: &mut Errors, path: &Path<'_>, value: &str, existing: &[Value]) {
    if existing.iter().any(|old| old.as_str().map(str::trim) == Some(value)) {
        return;
    }
    let Some(sloppy) = Cidr::parse(value) else {
        let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        errors.push(FieldError::invalid_text(path, value, detail));
        return;
    };
    let detail = if !sloppy.strict {
        "must not have leading 0s in IP or prefix length"
    } else if sloppy.mapped {
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
    let sloppy = parse(value)?;
    match value.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => None,
        Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_none() => {
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
    let Some(cidr) = Cidr::parse(value) else {
        return Vec::new();
    };
    let mut warnings = Vec::new();
    let network = format!("{}/{}", cidr.masked(), cidr.prefix);
    if cidr.masked() != cidr.address {
        let width = if cidr.address.is_ipv4() { 32 } else { 128 };
        let single = format!("{}/{width}", cidr.address);
        warnings.push(format!(
            "{path}: CIDR value {} is ambiguous in this context (should be {} or {}?)",
            go::quote(value),
            go::quote(&network),
            go::quote(&single)
        ));
    }
    if !cidr.strict || cidr.mapped {
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

/// An address, leading zeros allowed, IPv4-mapped IPv6 as the IPv4 address that it is.
pub(crate) fn parse(value: &str) -> Option<IpAddr> {
    if value.contains(':') {
        let v6: Ipv6Addr = value.parse().ok()?;
        return Some(v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4));
    }
    let mut octets = [0u8; 4];
    let mut parts = value.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let digits = part.trim_start_matches('0');
        *octet = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    }
    parts.next().is_none().then_some(IpAddr::V4(Ipv4Addr::from(octets)))
}

/// Whether these addresses are of both families. `None`: one is not an address.
pub(crate) fn is_dual_stack<'a>(values: impl Iterator<Item = &'a str>) -> Option<bool> {
    both_families(values.map(parse))
}

/// Whether these CIDRs are of both families. `None`: one is not a CIDR.
pub(crate) fn is_dual_stack_cidr<'a>(values: impl Iterator<Item = &'a str>) -> Option<bool> {
    both_families(values.map(|value| Some(Cidr::parse(value)?.address)))
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
    Cidr::parse(value).is_some()
}

struct Cidr {
    address: IpAddr,
    prefix: u8,
    /// No leading zeros anywhere.
    strict: bool,
    mapped: bool,
}

impl Cidr {
    fn parse(value: &str) -> Option<Self> {
        let (address, prefix) = value.split_once('/')?;
        let parsed = parse(address)?;
        if prefix.is_empty() || !prefix.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let length: u8 = prefix.trim_start_matches('0').parse().unwrap_or(0);
        let digits = prefix.trim_start_matches('0');
        if digits.len() > 3 || (!digits.is_empty() && digits.parse::<u8>().is_err()) {
            return None;
        }
        let mapped = parsed.is_ipv4() && address.contains(':');
        let width = if parsed.is_ipv4() && !mapped { 32 } else { 128 };
        if length > width {
            return None;
        }
        let strict = address.parse::<IpAddr>().is_ok() && (prefix == "0" || prefix == digits);
        let prefix = if mapped { length.saturating_sub(96) } else { length };
        Some(Self { address: parsed, prefix, strict, mapped })
    }

    fn masked(&self) -> IpAddr {
        match self.address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from(u32::from(v4) & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from(u128::from(v6) & mask))
            }
        }
    }
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
