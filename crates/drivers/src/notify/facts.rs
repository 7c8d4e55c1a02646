//! What a notice can say.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

/// What a notice can say: what is the same in every family, and what the family adds. Everything may
/// be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    pub object: ObjectName,
    /// What people call it; without, its name is shown.
    pub title: String,
    /// What the family adds, under the names of its [`TemplateSet`](super::TemplateSet).
    pub texts: Vec<(&'static str, String)>,
    /// Why, in words, without a full stop: "it has not been used for 14 days".
    pub reason: String,
    /// The time that those words end with, where they end with "since" or "at".
    pub reason_time: Option<Timestamp>,
    /// When it happens; of warnings only.
    pub deadline: Option<Timestamp>,
    /// How long that is from now.
    pub remaining: Option<SignedDuration>,
    /// Which warning of how many.
    pub alert: Option<(u32, u32)>,
    /// Where the object is.
    pub url: Option<String>,
    /// Under the names of the family's [`TemplateSet`](super::TemplateSet).
    pub links: Vec<SignedLink>,
    /// More about what went wrong; may have several lines.
    pub detail: Option<String>,
}

/// Which object a notice is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectName {
    pub kind: &'static str,
    /// Empty, if the kind has no namespaces.
    pub namespace: String,
    pub name: String,
}

/// A link that acts: whoever has it may.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedLink {
    pub name: &'static str,
    /// None, if this notice does not offer it.
    pub url: Option<String>,
}

impl Facts {
    /// The whole reason, with its time as whoever reads it is used to.
    pub fn reason(&self, show: impl FnOnce(Timestamp) -> String) -> String {
        match self.reason_time {
            Some(at) => format!("{} {}", self.reason, show(at)),
            None => self.reason.clone(),
        }
    }

    /// The text of this name; empty, if there is none.
    pub fn text(&self, name: &str) -> &str {
        let text = self.texts.iter().find(|(known, _)| *known == name);
        text.map_or("", |(_, text)| text)
    }

    /// The link of this name, if it is offered.
    pub fn link(&self, name: &str) -> Option<&str> {
        self.links.iter().find(|link| link.name == name)?.url.as_deref()
    }
}

impl fmt::Debug for SignedLink {
    /// Without the address, which must not get into logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.name, self.url.as_ref().map(|_| "…"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signed_links_are_not_in_debug_output() {
        let link = |name, url: &str| SignedLink { name, url: Some(url.to_owned()) };
        let facts = Facts {
            links: vec![
                link("keep_hour", "https://s/keep?sig=secret1"),
                link("keep_tomorrow", "https://s/keep?sig=secret2"),
                link("stop", "https://s/stop?sig=secret3"),
            ],
            ..Facts::default()
        };
        let shown = format!("{facts:?} {facts:#?}");
        assert!(!shown.contains("secret"), "{shown}");
        assert!(shown.contains("keep_hour: Some(\"…\")"), "{shown}");
    }

    #[test]
    fn what_is_not_told_is_empty() {
        let facts = Facts {
            texts: vec![("shelf", "A3".to_owned())],
            links: vec![SignedLink { name: "give_back", url: None }],
            ..Facts::default()
        };
        assert_eq!((facts.text("shelf"), facts.text("floor")), ("A3", ""));
        assert_eq!((facts.link("give_back"), facts.link("extend")), (None, None));
    }
}
