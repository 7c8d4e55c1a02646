//! Cluster: whole clusters that sleep and wake. Everything between the decision and the outside.
//!
//! | file | holds |
//! |---|---|
//! | `actuators` | who stops and starts the machines of a platform, and what they answer as `core` has it |
//! | `calls` | calls of machines, beside the controllers |
//! | `lookups` | whatever else is asked of the outside, beside the controllers |
//! | `pod` | the actuator that is built in: a machine is a Pod |
//! | `target` | what is read of a cluster itself, and what is done in it |
//!
//! Nothing here decides: it takes what `core::cluster` has decided, and gives what that needs to be seen.

pub mod actuators;
pub mod calls;
pub mod lookups;
pub mod pod;
pub mod target;

/// What somebody else's program or API said, for a condition: short, and without what changes a terminal.
const MAX_WORDS: usize = 500;

/// Another's words, as people are shown them.
fn words(text: &str) -> String {
    let printable = |char: char| if char.is_control() { ' ' } else { char };
    text.chars().take(MAX_WORDS).map(printable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_others_are_short_and_printable() {
        assert_eq!(words("no\nroute\x1b[31m"), "no route [31m");
        assert_eq!(words(&"é".repeat(10_000)).chars().count(), MAX_WORDS);
    }
}
