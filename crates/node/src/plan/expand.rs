//! `$(VAR)` in commands, arguments and values.
//!
//! `$$` is a dollar, so `$$(VAR)` stands for the text `$(VAR)`. What is not known, not closed or no
//! reference at all is left as it is written.

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is longer than {limit} bytes once its references are replaced")]
pub(super) struct TooLong {
    limit: usize,
}

/// Replaces references by what `lookup` says. References multiply, so the result is bounded while
/// it grows: thirty variables that each name the one before twice would fill a machine's memory.
pub(super) fn expand<'a>(
    input: &str,
    limit: usize,
    mut lookup: impl FnMut(&str) -> Option<&'a str>,
) -> Result<String, TooLong> {
    let mut expanded = String::new();
    let mut rest = input;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            expanded.push('$');
            rest = after;
        } else if let Some((name, after)) =
            after.strip_prefix('(').and_then(|opened| opened.split_once(')'))
        {
            match lookup(name) {
                Some(value) => expanded.push_str(value),
                None => expanded.extend(["$(", name, ")"]),
            }
            rest = after;
        } else {
            expanded.push('$');
            rest = after;
        }
        if expanded.len() > limit {
            return Err(TooLong { limit });
        }
    }
    expanded.push_str(rest);
    if expanded.len() > limit { Err(TooLong { limit }) } else { Ok(expanded) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn expanded(input: &str) -> String {
        let lookup = |name: &str| match name {
            "VAR_A" => Some("A"),
            "VAR_B" => Some("B"),
            "VAR_C" => Some("C"),
            "VAR_REF" => Some("$(VAR_A)"),
            "VAR_EMPTY" => Some(""),
            "strange name" => Some("strange"),
            _ => None,
        };
        expand(input, 1 << 10, lookup).expect("short")
    }

    #[test]
    fn references_are_replaced_as_a_kubelet_does() {
        for (input, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("$(VAR_A)", "A"),
            ("___$(VAR_B)___", "___B___"),
            ("$(VAR_A)$(VAR_B)", "AB"),
            ("$(VAR_A)-1", "A-1"),
            ("$(VAR_EMPTY)", ""),
            // What a value refers to is not looked at again.
            ("$(VAR_REF)", "$(VAR_A)"),
            // Escapes.
            ("$$(VAR_A)", "$(VAR_A)"),
            ("$$$(VAR_A)", "$A"),
            ("$$$$(VAR_A)", "$$(VAR_A)"),
            ("$$$$$(VAR_A)", "$$A"),
            ("f000-$$VAR_A", "f000-$VAR_A"),
            ("$$", "$"),
            // Left alone.
            ("$", "$"),
            ("$VAR_A", "$VAR_A"),
            ("${VAR_A}", "${VAR_A}"),
            ("$(UNKNOWN)", "$(UNKNOWN)"),
            ("$()", "$()"),
            ("$(", "$("),
            ("$(VAR_A", "$(VAR_A"),
            ("$(VAR_A$(VAR_B)", "$(VAR_A$(VAR_B)"),
            ("foo$(VAR_A", "foo$(VAR_A"),
            ("$)(VAR_A)", "$)(VAR_A)"),
            ("VAR_A)$(", "VAR_A)$("),
            ("\\$(VAR_A)", "\\A"),
            ("$(strange name)", "strange"),
            ("$\u{e4}$(VAR_A)\u{1f600}", "$\u{e4}A\u{1f600}"),
            ("$((VAR_A))", "$((VAR_A))"),
            ("$(VAR_A))", "A)"),
        ] {
            assert_eq!(expanded(input), expected, "{input}");
        }
    }

    #[test]
    fn growth_is_bounded() {
        let value = "x".repeat(600);
        let lookup = |_: &str| Some(value.as_str());
        assert_eq!(expand("$(A)", 600, lookup).map(|text| text.len()), Ok(600));
        assert_eq!(expand("$(A)$(A)", 1_000, lookup), Err(TooLong { limit: 1_000 }));
        assert_eq!(expand("$(A)y", 600, lookup), Err(TooLong { limit: 600 }));
    }

    proptest! {
        #[test]
        fn text_without_a_dollar_stays(text in "[^$]*") {
            prop_assert_eq!(expanded_any(&text), text);
        }

        #[test]
        fn escaped_text_comes_back(text in any::<String>()) {
            prop_assert_eq!(expanded_any(&text.replace('$', "$$")), text);
        }

        #[test]
        fn nothing_makes_it_panic(text in "[$()A-C\u{e4} ]{0,40}") {
            let result = expand(&text, 16, |name| (name == "A").then_some("value"));
            if let Ok(text) = result {
                prop_assert!(text.len() <= 16);
            }
        }
    }

    fn expanded_any(text: &str) -> String {
        expand(text, usize::MAX, |_| None).expect("unbounded")
    }
}
