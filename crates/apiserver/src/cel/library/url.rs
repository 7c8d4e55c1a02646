//! URLs, read as the Go library reads them.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::super::eval::{Evaluated, Fault};
use super::super::value::Val;
use super::maps;
use super::{Native, only, text_first};

#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct Url {
    scheme: String,
    /// Host and port, as they stand in the URL.
    host: String,
    path: String,
    query: String,
}

impl Url {
    /// An absolute URL, or a path that starts with a slash; fragments are not split off.
    pub(in super::super) fn parse_request(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            let quoted = crate::go::quote(text);
            Err(format!("parse {quoted}: {why}"))
        };
        if text.bytes().any(|b| b < b' ' || b == 0x7f) {
            return wrong("net/url: invalid control character in URL");
        }
        if text.is_empty() {
            return wrong("empty url");
        }
        if text == "*" {
            return Ok(Self {
                scheme: String::new(),
                host: String::new(),
                path: "*".to_owned(),
                query: String::new(),
            });
        }
        let (scheme, rest) = match split_scheme(text) {
            Ok(parts) => parts,
            Err(why) => return wrong(why),
        };
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, query),
            None => (rest, ""),
        };
        if !rest.starts_with('/') {
            // `mailto:x` is absolute but has no path to speak of.
            if scheme.is_empty() {
                return wrong("invalid URI for request");
            }
            return Ok(Self {
                scheme,
                host: String::new(),
                path: String::new(),
                query: query.to_owned(),
            });
        }
        let (authority, path) = match rest.strip_prefix("//") {
            Some(after) if !scheme.is_empty() => {
                let slash = after.find('/').unwrap_or(after.len());
                after.split_at(slash)
            }
            _ => ("", rest),
        };
        let host = match host_of(authority) {
            Ok(host) => host,
            Err(why) => return wrong(&why),
        };
        if let Some(bad) = bad_escape(path) {
            return wrong(&format!("invalid URL escape {}", crate::go::quote(bad)));
        }
        Ok(Self { scheme, host, path: path.to_owned(), query: query.to_owned() })
    }

    /// The same, and then without the fragment.
    fn parse(text: &str) -> Result<Self, String> {
        Self::parse_request(text)?;
        let whole = text.split('#').next().unwrap_or(text);
        Self::parse_request(whole)
    }

    fn hostname(&self) -> &str {
        match self.host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or(rest),
            None => self.host.split_once(':').map_or(&*self.host, |(name, _)| name),
        }
    }

    fn port(&self) -> &str {
        let after_name = match self.host.rfind(']') {
            Some(bracket) => &self.host[bracket + 1..],
            None => &*self.host,
        };
        after_name.split_once(':').map_or("", |(_, port)| port)
    }

    /// The path with everything escaped that needs to be; what is escaped already stays so.
    fn escaped_path(&self) -> String {
        let mut out = String::with_capacity(self.path.len());
        for c in self.path.chars() {
            let plain = c.is_ascii_alphanumeric() || "-_.~$&+,/:;=@!'()*[]%".contains(c);
            if plain {
                out.push(c);
            } else {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    out.push_str(&format!("%{byte:02X}"));
                }
            }
        }
        out
    }

    fn query(&self) -> BTreeMap<String, Vec<String>> {
        let mut query: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Some(key), Some(value)) = (unescape(key), unescape(value)) {
                query.entry(key).or_default().push(value);
            }
        }
        query
    }
}

fn split_scheme(text: &str) -> Result<(String, &str), &'static str> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return Err("missing protocol scheme"),
            ':' => return Ok((text[..at].to_ascii_lowercase(), &text[at + 1..])),
            _ => break,
        }
    }
    Ok((String::new(), text))
}

fn host_of(authority: &str) -> Result<String, String> {
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let port = match host.strip_prefix('[') {
        Some(_) => match host.rfind(']') {
            Some(bracket) => &host[bracket + 1..],
            None => return Err("missing ']' in host".to_owned()),
        },
        None => host.rfind(':').map_or("", |colon| &host[colon..]),
    };
    let digits = port.strip_prefix(':').unwrap_or(port);
    let is_port = port.is_empty() || port.starts_with(':');
    if !is_port || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("invalid port {} after host", crate::go::quote(port)));
    }
    let allowed = |c: char| {
        !c.is_ascii() || c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"%".contains(c)
    };
    match host.chars().find(|c| !allowed(*c)) {
        Some(c) => {
            let quoted = crate::go::quote(&c.to_string());
            Err(format!("invalid character {quoted} in host name"))
        }
        None => Ok(host.to_owned()),
    }
}

/// The first `%` that two hex digits do not follow, with what follows instead.
fn bad_escape(text: &str) -> Option<&str> {
    text.match_indices('%').find_map(|(at, _)| {
        let rest = &text[at..];
        let digits = rest.bytes().skip(1).take(2).filter(u8::is_ascii_hexdigit).count();
        (digits < 2).then(|| rest.get(..3).unwrap_or(rest))
    })
}

fn unescape(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let digits = bytes.get(at + 1..at + 3)?;
                let digits = std::str::from_utf8(digits).ok()?;
                out.push(u8::from_str_radix(digits, 16).ok()?);
                at += 2;
            }
            byte => out.push(byte),
        }
        at += 1;
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}

pub(super) fn native(function: &str) -> Option<Native> {
    let found: Native = match function {
        "url" => |args, _| {
            let parsed = Url::parse(text_first(args)?.0).map_err(|why| {
                Fault::new(format!("URL parse error during conversion from string: {why}"))
            })?;
            Ok(Val::Url(Rc::new(parsed)))
        },
        "isURL" => |args, _| Ok(Val::Bool(Url::parse_request(text_first(args)?.0).is_ok())),
        "getScheme" => |args, _| of_url(args, |url| url.scheme.clone()),
        "getHost" => |args, _| of_url(args, |url| url.host.clone()),
        "getHostname" => |args, _| of_url(args, |url| url.hostname().to_owned()),
        "getPort" => |args, _| of_url(args, |url| url.port().to_owned()),
        "getEscapedPath" => |args, _| of_url(args, Url::escaped_path),
        "getQuery" => |args, _| {
            let Val::Url(url) = only(args)? else { return Err(Fault::no_such_overload()) };
            let entries = url.query().into_iter().map(|(key, values)| {
                (Val::text(key), Val::list(values.into_iter().map(Val::text).collect()))
            });
            maps::from_pairs(entries.collect())
        },
        _ => return None,
    };
    Some(found)
}

fn of_url<'a>(args: &[Val<'a>], give: impl Fn(&Url) -> String) -> Evaluated<'a> {
    match only(args)? {
        Val::Url(url) => Ok(Val::text(give(url))),
        _ => Err(Fault::no_such_overload()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found() {
        for (text, scheme, host, hostname, port, path) in [
            (
                "https://example.com:80/a b",
                "https",
                "example.com:80",
                "example.com",
                "80",
                "/a%20b",
            ),
            ("https://[::1]:80/", "https", "[::1]:80", "::1", "80", "/"),
            ("https://[::1]/", "https", "[::1]", "::1", "", "/"),
            ("/path#x", "", "", "", "", "/path"),
            ("http://u:p@h/%41", "http", "h", "h", "", "/%41"),
            ("mailto:x@y", "mailto", "", "", "", ""),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!(url.scheme, scheme, "{text}");
            assert_eq!(url.host, host, "{text}");
            assert_eq!(url.hostname(), hostname, "{text}");
            assert_eq!(url.port(), port, "{text}");
            assert_eq!(url.escaped_path(), path, "{text}");
        }
        let url = Url::parse("https://e.com/p?k1=a&k2=b&k2=c+d").unwrap();
        assert_eq!(url.query()["k2"], ["b", "c d"]);
        for wrong in ["", "path", ":x", "http://a:b/", "http://[::1/", "/a%zz", "a b://x"] {
            assert!(Url::parse(wrong).is_err(), "{wrong}");
        }
    }
}
