//! Checks of options that several families have.

use std::net::IpAddr;

use super::value::SecretKey;
use crate::grammar::{REFERENCE, URL};
use crate::problem::Report;

/// An option that may be left out, with its name.
pub(crate) type Named<'a, T> = (&'a str, &'a Option<T>);

pub(crate) fn urls<const N: usize>(report: &mut Report, options: [Named<'_, String>; N]) {
    for (option, url) in options {
        let _ = url.as_ref().map(|url| report.take(option, URL.check(url)));
    }
}

pub(crate) fn files<const N: usize>(report: &mut Report, options: [Named<'_, String>; N]) {
    for (option, path) in options {
        if path.as_ref().is_some_and(|path| !path.starts_with('/')) {
            report.note(option, "must be an absolute path");
        }
    }
}

pub(crate) fn secrets<const N: usize>(report: &mut Report, options: [Named<'_, SecretKey>; N]) {
    for (option, secret) in options {
        let Some(secret) = secret else { continue };
        report.take(&format!("{option}.name"), REFERENCE.check(&secret.name));
        if secret.key.is_empty() {
            report.note(format!("{option}.key"), "must not be empty");
        }
    }
}

/// The Secrets that are named, each with its option.
pub(crate) fn named_secrets<const N: usize>(
    options: [Named<'_, SecretKey>; N],
) -> Vec<(String, SecretKey)> {
    let options = options.into_iter();
    options.filter_map(|(option, secret)| Some((option.to_owned(), secret.clone()?))).collect()
}

/// Addresses and ranges that may be connected to.
pub(crate) fn ranges(report: &mut Report, option: &str, ranges: &[String]) {
    for (index, range) in ranges.iter().enumerate() {
        if !is_range(range) {
            let message = "must be an address or a range such as 10.0.0.0/8";
            report.note(format!("{option}[{index}]"), message);
        }
    }
}

fn is_range(text: &str) -> bool {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let Ok(address) = address.parse::<IpAddr>() else { return false };
    let most = if address.is_ipv4() { 32 } else { 128 };
    length.is_none_or(|length| {
        length.bytes().all(|b| b.is_ascii_digit()) && length.parse().is_ok_and(|n: u8| n <= most)
    })
}
