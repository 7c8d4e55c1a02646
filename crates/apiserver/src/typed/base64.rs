//! Bytes in JSON: standard base64 with padding, read as leniently as Go reads it.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};

/// Go ignores what the last character says beyond the last byte.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// Checks a text and returns its canonical form if that is another one; or the offset of the first
/// byte that is wrong, as Go counts.
pub(super) fn canonical(text: &str) -> Result<Option<String>, usize> {
    let canonical_already = text.len().is_multiple_of(4)
        && match text.as_bytes() {
            [] => true,
            // Only the last group may have padding, or bits to spare.
            [body @ .., _, _, _, _] => {
                body.iter().all(|byte| is_digit(*byte))
                    && STANDARD.decode(&text[body.len()..]).is_ok()
            }
            _ => false,
        };
    if canonical_already {
        return Ok(None);
    }
    check(text.as_bytes())?;
    let compact: Vec<u8> = text.bytes().filter(|byte| !is_line_break(*byte)).collect();
    let bytes = LENIENT.decode(compact).map_err(|_| text.len())?;
    Ok(Some(encode(&bytes)))
}

pub(super) fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/'
}

fn is_line_break(byte: u8) -> bool {
    byte == b'\n' || byte == b'\r'
}

/// Finds the first wrong byte: groups of four digits, line breaks anywhere, padding at the end.
fn check(text: &[u8]) -> Result<(), usize> {
    let next = |from: usize| {
        text[from..].iter().position(|byte| !is_line_break(*byte)).map(|offset| from + offset)
    };
    let mut group_len = 0;
    let mut at = 0;
    while let Some(position) = next(at) {
        at = position + 1;
        if is_digit(text[position]) {
            group_len = (group_len + 1) % 4;
            continue;
        }
        if text[position] != b'=' || group_len < 2 {
            return Err(position);
        }
        if group_len == 2 {
            let second = next(at).ok_or(text.len())?;
            if text[second] != b'=' {
                return Err(second - 1);
            }
            at = second + 1;
        }
        return next(at).map_or(Ok(()), Err);
    }
    if group_len == 0 { Ok(()) } else { Err(text.len() - group_len) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_texts_are_kept_or_made_canonical() {
        for kept in ["", "YQ==", "YWI=", "YWJj", "YWJjZA=="] {
            assert_eq!(canonical(kept), Ok(None), "{kept}");
        }
        for (given, wanted) in
            [("YQ==\n", "YQ=="), ("Y\nQ=\r=", "YQ=="), ("YR==", "YQ=="), ("YWJj\nZA==", "YWJjZA==")]
        {
            assert_eq!(canonical(given), Ok(Some(wanted.to_owned())), "{given}");
        }
    }

    /// Offsets verified with Go's encoding/base64.
    #[test]
    fn bad_texts_are_refused_where_go_refuses_them() {
        for (given, offset) in [
            ("!!", 0),
            ("YQ", 0),
            ("YWJjZ", 4),
            ("Y", 0),
            ("YQ=", 3),
            ("YQ=a", 2),
            ("Y===", 1),
            ("=", 0),
            ("YQ==a", 4),
            ("YWI=a", 4),
            ("YWJj!", 4),
            ("YQ\n", 1),
            ("é", 0),
            ("YWJé", 3),
        ] {
            assert_eq!(canonical(given), Err(offset), "{given}");
        }
    }
}
