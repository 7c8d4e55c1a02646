//! Functions on text.

use super::super::convert::{as_int, as_text};
use super::super::eval::{Evaluated, Fault, Meter};
use super::super::format;
use super::super::value::{Text, Val};
use super::{Native, only, text_first};

pub(super) fn native(function: &str) -> Option<Native> {
    let found: Native = match function {
        "contains" => |args, meter| test(args, meter, |text, part| text.contains(part)),
        "startsWith" => |args, meter| test(args, meter, |text, part| text.starts_with(part)),
        "endsWith" => |args, meter| test(args, meter, |text, part| text.ends_with(part)),
        "charAt" => char_at,
        "lowerAscii" => |args, meter| changed(args, meter, str::to_ascii_lowercase),
        "upperAscii" => |args, meter| changed(args, meter, str::to_ascii_uppercase),
        "trim" => |args, meter| changed(args, meter, |text| text.trim().to_owned()),
        "strings.quote" => |args, meter| changed(args, meter, quote),
        "replace" => replace,
        "split" => split,
        "substring" => substring,
        "join" => join,
        "format" => |args, meter| {
            let (text, rest) = text_first(args)?;
            meter.work(text.len())?;
            let shown = format::format(text, only(rest)?)?;
            meter.work(usize::try_from(shown.size()).unwrap_or(usize::MAX))?;
            Ok(shown)
        },
        _ => return None,
    };
    Some(found)
}

fn test<'a>(
    args: &[Val<'a>],
    meter: &mut Meter,
    holds: impl Fn(&str, &str) -> bool,
) -> Evaluated<'a> {
    let (text, rest) = text_first(args)?;
    meter.work(text.len())?;
    Ok(Val::Bool(holds(text, as_text(only(rest)?)?)))
}

fn changed<'a>(
    args: &[Val<'a>],
    meter: &mut Meter,
    change: impl Fn(&str) -> String,
) -> Evaluated<'a> {
    let (text, _) = text_first(args)?;
    meter.work(text.len())?;
    Ok(Val::text(change(text)))
}

/// A piece of text, borrowed from the data if the text is.
pub(in super::super) fn slice_of<'a>(text: &Text<'a>, found: Option<regex::Match<'_>>) -> Val<'a> {
    match found {
        Some(found) => piece(text, found.start(), found.end()),
        None => Val::Text(Text::Borrowed("")),
    }
}

fn piece<'a>(text: &Text<'a>, from: usize, to: usize) -> Val<'a> {
    match text {
        Text::Borrowed(text) => Val::Text(Text::Borrowed(&text[from..to])),
        Text::Shared(text) => Val::text(text[from..to].to_owned()),
    }
}

fn out_of_range(index: i64) -> Fault {
    Fault::new(format!("index out of range: {index}"))
}

/// The byte where the character of this index starts; one past the last is allowed.
fn byte_at(text: &str, index: i64) -> Option<usize> {
    let wanted = usize::try_from(index).ok()?;
    let mut starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    starts.nth(wanted)
}

fn char_at<'a>(args: &[Val<'a>], meter: &mut Meter) -> Evaluated<'a> {
    let (text, rest) = text_first(args)?;
    meter.work(text.len())?;
    let index = as_int(only(rest)?)?;
    let start = byte_at(text, index).ok_or_else(|| out_of_range(index))?;
    let end = start + text[start..].chars().next().map_or(0, char::len_utf8);
    Ok(piece(text, start, end))
}

fn substring<'a>(args: &[Val<'a>], meter: &mut Meter) -> Evaluated<'a> {
    let (text, rest) = text_first(args)?;
    meter.work(text.len())?;
    let at = |index: i64| byte_at(text, index).ok_or_else(|| out_of_range(index));
    match rest {
        [start] => Ok(piece(text, at(as_int(start)?)?, text.len())),
        [start, end] => {
            let (start, end) = (as_int(start)?, as_int(end)?);
            if start > end {
                let message = format!("invalid substring range. start: {start}, end: {end}");
                return Err(Fault::new(message));
            }
            Ok(piece(text, at(start)?, at(end)?))
        }
        _ => Err(Fault::no_such_overload()),
    }
}

fn replace<'a>(args: &[Val<'a>], meter: &mut Meter) -> Evaluated<'a> {
    let (text, rest) = text_first(args)?;
    let (old, new, most) = match rest {
        [old, new] => (as_text(old)?, as_text(new)?, -1),
        [old, new, most] => (as_text(old)?, as_text(new)?, as_int(most)?),
        _ => return Err(Fault::no_such_overload()),
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    // How long the result can get must be known before it is made.
    let places = if old.is_empty() { text.len() + 1 } else { text.len() / old.len() };
    meter.work(text.len().saturating_add(places.min(most).saturating_mul(new.len())))?;
    Ok(Val::text(text.replacen(&**old, new, most)))
}

fn split<'a>(args: &[Val<'a>], meter: &mut Meter) -> Evaluated<'a> {
    let (text, rest) = text_first(args)?;
    let (separator, most) = match rest {
        [separator] => (as_text(separator)?, -1),
        [separator, most] => (as_text(separator)?, as_int(most)?),
        _ => return Err(Fault::no_such_overload()),
    };
    meter.work(text.len())?;
    if most == 0 {
        return Ok(Val::list(Vec::new()));
    }
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut parts = Vec::new();
    let mut start = 0;
    while parts.len() + 1 < most && start <= text.len() {
        let tail = &text[start..];
        let found = if separator.is_empty() {
            // Nothing between characters: each is a part of its own.
            let first = tail.chars().next().map_or(0, char::len_utf8);
            (first > 0 && first < tail.len()).then_some((first, first))
        } else {
            tail.find(&**separator).map(|at| (at, at + separator.len()))
        };
        let Some((end, next)) = found else { break };
        parts.push(piece(text, start, start + end));
        start += next;
    }
    if !(separator.is_empty() && text.is_empty()) {
        parts.push(piece(text, start, text.len()));
    }
    Ok(Val::list(parts))
}

fn join<'a>(args: &[Val<'a>], meter: &mut Meter) -> Evaluated<'a> {
    let (list, separator) = match args {
        [list] => (list, ""),
        [list, separator] => (list, &**as_text(separator)?),
        _ => return Err(Fault::no_such_overload()),
    };
    let list = list.as_list().ok_or_else(Fault::no_such_overload)?;
    let mut joined = String::new();
    for (index, item) in list.iter().enumerate() {
        let item = item?;
        let Val::Text(text) = &item else {
            return Err(Fault::new(format!("join: invalid input: {}", item.shown())));
        };
        meter.work(text.len() + separator.len())?;
        if index > 0 {
            joined.push_str(separator);
        }
        joined.push_str(text);
    }
    Ok(Val::text(joined))
}

fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// `indexOf` and `lastIndexOf` on text; positions count characters.
pub(super) fn index_of<'a>(args: &[Val<'a>], meter: &mut Meter, last: bool) -> Evaluated<'a> {
    let (text, rest) = text_first(args)?;
    let (part, offset) = match rest {
        [part] => (as_text(part)?, None),
        [part, offset] => (as_text(part)?, Some(as_int(offset)?)),
        _ => return Err(Fault::no_such_overload()),
    };
    meter.work(text.len())?;
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if part.is_empty() {
        return Ok(Val::Int(offset.unwrap_or(if last { length } else { 0 })));
    }
    let offset = match offset {
        None if last && text.len() < part.len() => return Ok(Val::Int(-1)),
        None => {
            if last {
                length - 1
            } else {
                0
            }
        }
        Some(offset) if offset < 0 => return Err(out_of_range(offset)),
        Some(offset) => offset,
    };
    if offset >= length {
        return Ok(Val::Int(-1));
    }
    let start = byte_at(text, offset).ok_or_else(|| out_of_range(offset))?;
    let found = if last {
        // The match may begin no later than the offset.
        let end = start.saturating_add(part.len()).min(text.len());
        let end = (end..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        text[..end].rfind(&**part).filter(|at| *at <= start)
    } else {
        text[start..].find(&**part).map(|at| start + at)
    };
    Ok(Val::Int(match found {
        Some(at) => i64::try_from(text[..at].chars().count()).unwrap_or(i64::MAX),
        None => -1,
    }))
}
