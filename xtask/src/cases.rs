//! `cargo xtask cases FAMILY`: which test covers which acceptance case.
//!
//! | file or comment                        | says                                              |
//! |----------------------------------------|---------------------------------------------------|
//! | `xtask/cases/FAMILY.txt`               | which cases there are, which await something that |
//! |                                        | is not here yet, and which cannot apply           |
//! | `// case: FAMILY ID[, ID…]`            | the test or table row below covers them           |
//! | `# case: FAMILY ID[, ID…]`             | the same in YAML and Python                       |
//!
//! A claim that is not above a test, and one of a case that nobody listed, are errors: a list that
//! can be satisfied by a comment anywhere says nothing.

mod claim;
mod list;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use self::claim::{Claim, Language};
use self::list::{Applicability, Case};
use crate::process::print_line;
use crate::tidy;

/// How many cases a family has, how many of them await something, and how many cannot apply. Whoever lists one more,
/// takes one away or turns one into a case that awaits something or cannot apply changes what is promised, and says so
/// here.
const PINNED: [(&str, Numbers); 5] = [
    ("lab", Numbers { all: 98, awaiting: 0, not_applicable: 0 }),
    ("group", Numbers { all: 93, awaiting: 0, not_applicable: 22 }),
    ("access", Numbers { all: 92, awaiting: 0, not_applicable: 8 }),
    ("game", Numbers { all: 89, awaiting: 0, not_applicable: 1 }),
    ("cluster", Numbers { all: 103, awaiting: 12, not_applicable: 11 }),
];

/// How many cases there are of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Numbers {
    all: usize,
    awaiting: usize,
    not_applicable: usize,
}

impl Numbers {
    fn of(listed: &[Case]) -> Self {
        let count = |is: fn(&Applicability) -> bool| {
            listed.iter().filter(|case| is(&case.applicability)).count()
        };
        Self {
            all: listed.len(),
            awaiting: count(|one| matches!(one, Applicability::Awaits(_))),
            not_applicable: count(|one| matches!(one, Applicability::NotApplicable(_))),
        }
    }
}

/// Prints every case with where it is covered; an error when one is missing or a claim is wrong.
pub(crate) fn run(root: &Path, family: &str) -> Result<()> {
    let listed = list::read(root, family)?;
    let mut claims = Vec::new();
    for path in tidy::files(root)? {
        let Some(language) = Language::of(&path) else { continue };
        if let Some(source) = text(&root.join(&path))? {
            claims.extend(claim::find(&path, &source, language, family));
        }
    }
    let report = Report::new(family, &listed, &claims);
    let mut out = std::io::stdout().lock();
    out.write_all(report.text.as_bytes()).context("cannot print the cases")?;
    out.flush().context("cannot print the cases")?;
    for wrong in &report.wrong {
        print_line(&format!("error: {wrong}"));
    }
    match (report.wrong.len(), report.missing) {
        (0, 0) => Ok(()),
        (0, missing) => bail!("{missing} cases of {family} without a test"),
        (wrong, _) => bail!("{wrong} claims to mend"),
    }
}

/// What is printed, and what is wrong.
struct Report {
    /// One line per case, further ones where it is covered more than once, and the sum.
    text: String,
    wrong: Vec<String>,
    missing: usize,
}

impl Report {
    fn new(family: &str, listed: &[Case], claims: &[Claim]) -> Self {
        let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let mut wrong = Vec::new();
        for claim in claims {
            let at = format!("{}:{}", claim.path.display(), claim.line);
            let test = match &claim.covers {
                Ok(test) => test,
                Err(why) => {
                    wrong.push(format!("{at}: {why}"));
                    continue;
                }
            };
            for id in &claim.ids {
                match listed.iter().find(|case| case.id == *id).map(|case| &case.applicability) {
                    Some(Applicability::Applies) => {
                        places.entry(id).or_default().push(format!("{at} {test}"));
                    }
                    Some(Applicability::Awaits(what)) => wrong.push(format!(
                        "{at}: {id} is listed as awaiting {what}: it is covered, so take that away"
                    )),
                    Some(Applicability::NotApplicable(reason)) => {
                        wrong.push(format!("{at}: {id} is listed as not applicable: {reason}"));
                    }
                    None => wrong.push(format!("{at}: {family} has no case `{id}`")),
                }
            }
        }
        wrong.extend(pinned(family, listed));
        let mut report = Self { text: String::new(), wrong, missing: 0 };
        report.print(family, listed, &places);
        report
    }

    fn print(&mut self, family: &str, listed: &[Case], places: &BTreeMap<&str, Vec<String>>) {
        let mut covered = 0;
        for Case { id, about, applicability } in listed {
            match (applicability, places.get(id.as_str())) {
                (Applicability::Applies, Some(places)) => {
                    covered += 1;
                    self.line(format_args!("{id:<4} {about}"));
                    for place in places {
                        self.line(format_args!("     {place}"));
                    }
                }
                (Applicability::Applies, None) => {
                    self.missing += 1;
                    self.line(format_args!("{id:<4} {about}\n     MISSING"));
                }
                (Applicability::Awaits(what), _) => {
                    self.line(format_args!("{id:<4} {about}\n     awaits {what}"));
                }
                (Applicability::NotApplicable(reason), _) => {
                    self.line(format_args!("{id:<4} not applicable: {reason}"));
                }
            }
        }
        let Numbers { all, awaiting, not_applicable } = Numbers::of(listed);
        let missing = self.missing;
        let awaiting = match awaiting {
            0 => String::new(),
            some => format!("{some} awaiting what is not here yet, "),
        };
        self.line(format_args!(
            "{family}: {covered} covered, {awaiting}{not_applicable} not applicable, {missing} missing of {all}"
        ));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{line}").expect("writing to a string succeeds");
    }
}

/// What is wrong with how many cases a family has.
fn pinned(family: &str, listed: &[Case]) -> Option<String> {
    let found = Numbers::of(listed);
    let (_, promised) = PINNED.into_iter().find(|(name, _)| *name == family)?;
    (found != promised).then(|| {
        format!(
            "xtask/cases/{family}.txt has {found}, and must have {promised}: no case is put off or becomes \
             inapplicable silently"
        )
    })
}

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { all, awaiting, not_applicable } = self;
        write!(f, "{all} cases, {awaiting} of them awaiting, {not_applicable} not applicable")
    }
}

/// The file's text; nothing if it was deleted and the index does not know it yet.
fn text(path: &Path) -> Result<Option<String>> {
    if !path.is_file() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(path);
    text.map(Some).with_context(|| format!("cannot read {}", path.display()))
}
