use proptest::prelude::*;

use super::*;

fn receipt(words: &str) -> Receipt {
    Receipt {
        size: u64::MAX,
        sha256: "0f".repeat(32),
        receipt: words.to_owned(),
        entries: 7,
        skipped: 2,
        already_there: true,
    }
}

#[test]
fn a_message_is_read_back_and_has_the_names_of_the_api() {
    let message = receipt("\"e-1\"").to_termination_message();
    assert_eq!(
        message,
        format!(
            "{{\"size\":18446744073709551615,\"sha256\":\"{}\",\"receipt\":\"\\\"e-1\\\"\",\
             \"entries\":7,\"skipped\":2,\"alreadyThere\":true}}",
            "0f".repeat(32)
        )
    );
    assert_eq!(Receipt::from_termination_message(&message).unwrap(), receipt("\"e-1\""));
}

#[test]
fn what_is_no_receipt_is_an_error() {
    let good = receipt("x").to_termination_message();
    for (message, words) in [
        (String::new(), "not the JSON"),
        ("panicked at 'no'".to_owned(), "not the JSON"),
        (good[..good.len() - 1].to_owned(), "not the JSON"),
        (good.replace("\"size\":", "\"size\":-"), "not the JSON"),
        (good.replace("0f0f", "0F0F"), "64 hex digits"),
        (good.replace("0f0f", ""), "64 hex digits"),
        (format!("{good}{}", " ".repeat(4096)), "more than 4096"),
    ] {
        let error = Receipt::from_termination_message(&message).unwrap_err().to_string();
        assert!(error.contains(words), "{message}: {error}");
    }
}

#[test]
fn words_are_printable_and_on_one_line() {
    assert_eq!(
        printable("  thank\u{1b}[31m you\r\n\tvery \u{202e}much\0 "),
        "thank [31m you very much"
    );
    assert_eq!(printable(&"ä".repeat(1000)), "ä".repeat(200));
    assert_eq!(printable("https://a/b\\c"), "https://a/b\\c");
    assert_eq!(printable("\n\0"), "");
}

proptest! {
    #[test]
    fn any_words_fit_and_come_back(words in any::<String>(), more in "\\PC{0,3000}") {
        let message = receipt(&format!("{words}{more}")).to_termination_message();
        prop_assert!(message.len() <= MAX_TERMINATION_MESSAGE);
        let told = Receipt::from_termination_message(&message).unwrap();
        prop_assert_eq!(told.to_termination_message(), message);
    }

    #[test]
    fn no_message_is_too_strange(message in any::<String>()) {
        _ = Receipt::from_termination_message(&message);
    }
}
