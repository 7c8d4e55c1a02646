//! What a family registers about its notices: its templates, and the values that it gives to them.
//!
//! Every notice has the general facts; a family names what it tells beyond them once, here. So a
//! misspelt name in a template is an error at loading, and a program that gets notices by HTTP finds
//! the same fields in the same order every time.

use super::Facts;

/// The templates of a family.
#[derive(Debug)]
pub struct TemplateSet {
    /// What its objects are called, in snake case: the value that holds the object's name, and the
    /// word for it in errors.
    pub object: &'static str,
    /// The title of an object that has neither title nor name.
    pub untitled: &'static str,
    /// Why people get these mails, as what follows "because".
    pub sent_because: &'static str,
    /// What is told beyond the general facts, in the order in which it is shown.
    pub texts: &'static [TextValue],
    /// The signed links, in the order in which they are shown.
    pub links: &'static [LinkValue],
    pub templates: &'static [BuiltIn],
    /// Facts of which none is empty. Every template is rendered with them when it is loaded.
    pub sample: fn() -> Facts,
}

/// A text of the family.
#[derive(Debug)]
pub struct TextValue {
    /// In snake case.
    pub name: &'static str,
    /// What stands before it in the last lines of a mail; without, it is not there by itself.
    pub label: Option<&'static str>,
}

/// A signed link of the family.
#[derive(Debug)]
pub struct LinkValue {
    /// In snake case.
    pub name: &'static str,
    /// What it does, in words that begin with a small letter. `{zone}` stands for the name of the
    /// time zone.
    pub label: &'static str,
}

/// A template as it is built in.
#[derive(Debug)]
pub struct BuiltIn {
    /// The name of its files, without the ending.
    pub name: &'static str,
    pub text: &'static str,
    pub html: &'static str,
    /// Whether a mail without the object's title and name would leave its reader helpless.
    pub names_object: bool,
}
