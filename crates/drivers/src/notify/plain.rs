//! Text that came from somebody, made harmless: one line, no control characters, bounded.
//!
//! Escaping for HTML is the templates' business and encoding for headers the mail library's; this
//! takes away what no form of text may carry.

/// `text` on one line. Line breaks, tabs and other control characters become spaces; characters
/// that turn the direction of writing around, which could make one name look like another, go.
pub(crate) fn one_line(text: &str, max_chars: usize) -> String {
    let mut line = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control() || is_break(c)) {
        let word: String = word.chars().filter(|c| !turns_direction(*c)).collect();
        if word.is_empty() {
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&word);
    }
    shorten(line, max_chars)
}

/// `text` with its lines, each as [`one_line`] makes it, at most `most` of them.
pub(crate) fn lines(text: &str, max_chars: usize, most: usize) -> String {
    let kept: Vec<_> = text.lines().take(most).map(|line| one_line(line, max_chars)).collect();
    kept.join("\n").trim().to_owned()
}

/// A link that may be clicked: an absolute HTTP address without spaces, or nothing.
pub(crate) fn web_link(link: Option<&str>) -> Option<String> {
    const MAX_TEXT_BYTES: usize = 4096;
    let link = link?;
    let scheme = link.split_once("://")?.0;
    let web = scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http");
    let clean = !link.chars().any(|c| c.is_whitespace() || c.is_control() || turns_direction(c));
    (web && clean && link.len() <= MAX_TEXT_BYTES).then(|| link.to_owned())
}

/// Cuts `text` to `max_chars` characters, an ellipsis included.
fn shorten(text: String, max_chars: usize) -> String {
    if text.chars().count() <= max_chars {
        return text;
    }
    let mut short: String = text.chars().take(max_chars.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Line and paragraph separators that are neither white space nor control characters everywhere.
const fn is_break(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}')
}

const fn turns_direction(c: char) -> bool {
    matches!(c, '\u{200E}' | '\u{200F}' | '\u{061C}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breaks_of_every_sort_become_one_space() {
        let text = " a\r\nBcc: x\u{2028}b\u{0085}c\u{0}d\t\te\u{b} ";
        assert_eq!(one_line(text, 100), "a Bcc: x b c d e");
    }

    #[test]
    fn direction_marks_go() {
        assert_eq!(one_line("invoice\u{202E}fdp.exe", 100), "invoicefdp.exe");
    }

    #[test]
    fn long_text_is_cut_by_characters() {
        assert_eq!(one_line("ααααα", 3), "αα…");
        assert_eq!(one_line("ααα", 3), "ααα");
        assert_eq!(one_line("abc", 0), "…");
    }

    #[test]
    fn lines_stay_apart_and_are_bounded() {
        assert_eq!(lines("a\r\n b\tc \nd\ne", 10, 3), "a\nb c\nd");
    }

    #[test]
    fn only_web_addresses_are_links() {
        assert_eq!(web_link(Some("https://x/y?z=1")), Some("https://x/y?z=1".to_owned()));
        assert_eq!(web_link(Some("HTTP://x")), Some("HTTP://x".to_owned()));
        for bad in
            ["javascript:alert(1)", "data://x", "https://x y", "https://x\r\nBcc: y", "", "//x"]
        {
            assert_eq!(web_link(Some(bad)), None, "{bad:?}");
        }
        assert_eq!(web_link(None), None);
    }
}
