//! One line of a log file, and how it is shown.

use jiff::Timestamp;

use super::query::{Query, Stream};

/// A line is `<time> stdout|stderr F|P <text>`; `P` is a part of a line that goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'a> {
    time: Timestamp,
    /// The time as it is written.
    stamp: &'a str,
    stream: Stream,
    /// Whether the line ends here.
    pub(super) whole: bool,
    text: &'a [u8],
}

impl<'a> Line<'a> {
    /// `None` if it is not in the format.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut fields = bytes.splitn(4, |byte| *byte == b' ');
        let stamp = str::from_utf8(fields.next()?).ok()?;
        let time = stamp.parse().ok()?;
        let stream = match fields.next()? {
            b"stdout" => Stream::Stdout,
            b"stderr" => Stream::Stderr,
            _ => return None,
        };
        // There may be more tags one day; the first tells whether the line is whole.
        let tags = fields.next()?;
        let whole = tags.split(|byte| *byte == b':').next() != Some(b"P");
        Some(Self { time, stamp, stream, whole, text: fields.next()? })
    }
}

/// What is left to show of an answer.
#[derive(Debug)]
pub(super) struct LineFilter {
    since: Option<Timestamp>,
    timestamps: bool,
    stream: Stream,
    left: u64,
    /// Whether what was shown last ended a line.
    fresh: bool,
}

impl LineFilter {
    pub(super) fn new(query: &Query) -> Self {
        Self {
            since: query.since,
            timestamps: query.timestamps,
            stream: query.stream,
            left: query.limit_bytes.unwrap_or(u64::MAX),
            fresh: true,
        }
    }

    /// Whether no more bytes are wanted.
    pub(super) const fn is_full(&self) -> bool {
        self.left == 0
    }

    /// Adds a line of a file to what is sent, unless it is not asked for or not in the format.
    pub(super) fn add(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let Some(line) = Line::parse(bytes) else { return };
        if self.stream != Stream::All && line.stream != self.stream {
            return;
        }
        if self.since.is_some_and(|since| line.time < since) {
            return;
        }
        if self.timestamps && self.fresh {
            self.push(line.stamp.as_bytes(), out);
            self.push(b" ", out);
        }
        self.push(line.text, out);
        if line.whole {
            self.push(b"\n", out);
        }
        self.fresh = line.whole;
    }

    fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let room = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        out.extend_from_slice(&bytes[..room]);
        self.left -= room as u64;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const T: &str = "2026-01-02T03:04:05.123456789Z";

    fn show(query: &Query, lines: &[&str]) -> String {
        let (mut shown, mut out) = (LineFilter::new(query), Vec::new());
        for line in lines {
            shown.add(line.as_bytes(), &mut out);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_are_in_the_format_or_left_out() {
        let cases = [
            (format!("{T} stdout F text"), Some((true, "text"))),
            (format!("{T} stderr P  two  spaces "), Some((false, " two  spaces "))),
            (format!("{T} stdout F "), Some((true, ""))),
            (format!("{T} stdout F:new text"), Some((true, "text"))),
            (format!("{T} stdout P:new text"), Some((false, "text"))),
            ("2026-01-02T05:04:05+02:00 stdout F x".to_owned(), Some((true, "x"))),
            (format!("{T} stdout F"), None),
            (format!("{T} stdin F x"), None),
            (format!("{T}  stdout F x"), None),
            ("yesterday stdout F x".to_owned(), None),
            ("99999-01-02T03:04:05Z stdout F x".to_owned(), None),
            (String::new(), None),
            (" ".to_owned(), None),
            ("   ".to_owned(), None),
        ];
        for (line, expected) in cases {
            let parsed = Line::parse(line.as_bytes());
            let parsed = parsed.map(|line| (line.whole, str::from_utf8(line.text).unwrap()));
            assert_eq!(parsed, expected, "{line:?}");
        }
        assert_eq!(Line::parse(b"\xff\xfe stdout F x"), None);
        let any = [T.as_bytes(), b" stdout F \xff\x00"].concat();
        assert_eq!(Line::parse(&any).unwrap().text, b"\xff\x00");
    }

    #[test]
    fn parts_are_joined() {
        let lines = [
            "2026-01-01T00:00:01Z stdout P a",
            "2026-01-01T00:00:02Z stdout P b",
            "damaged",
            "2026-01-01T00:00:03Z stdout F c",
            "2026-01-01T00:00:04Z stderr F d",
            "2026-01-01T00:00:05Z stdout P e",
        ];
        let plain = Query::default();
        let since = |time: &str| Query { since: Some(time.parse().unwrap()), ..plain.clone() };
        let cases = [
            (plain.clone(), "abc\nd\ne"),
            (
                Query { timestamps: true, ..plain.clone() },
                "2026-01-01T00:00:01Z abc\n2026-01-01T00:00:04Z d\n2026-01-01T00:00:05Z e",
            ),
            (Query { stream: Stream::Stdout, ..plain.clone() }, "abc\ne"),
            (Query { stream: Stream::Stderr, ..plain.clone() }, "d\n"),
            (Query { limit_bytes: Some(5), ..plain.clone() }, "abc\nd"),
            (Query { limit_bytes: Some(22), timestamps: true, ..plain.clone() }, {
                "2026-01-01T00:00:01Z a"
            }),
            (since("2026-01-01T00:00:04Z"), "d\ne"),
            (since("2026-01-01T00:00:03.000000001Z"), "d\ne"),
            (Query { timestamps: true, ..since("2026-01-01T00:00:03Z") }, {
                "2026-01-01T00:00:03Z c\n2026-01-01T00:00:04Z d\n2026-01-01T00:00:05Z e"
            }),
            (since("2027-01-01T00:00:00Z"), ""),
        ];
        for (query, expected) in cases {
            assert_eq!(show(&query, &lines), expected, "{query:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_met(bytes: Vec<u8>, text in "[ 0-9TZ:.+FPstdouer-]{0,60}") {
            let query = Query { timestamps: true, limit_bytes: Some(20), ..Query::default() };
            let (mut shown, mut out) = (LineFilter::new(&query), Vec::new());
            shown.add(&bytes, &mut out);
            shown.add(text.as_bytes(), &mut out);
            prop_assert!(out.len() <= 20);
        }
    }
}
