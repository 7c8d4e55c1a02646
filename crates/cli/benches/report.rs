//! The figures, as they come in and as a table.

use std::fmt::Write as _;

use crate::number::number;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    PerSecond,
    Nanoseconds,
    Microseconds,
    Milliseconds,
    Seconds,
    Percent,
    Bytes,
    Kilobytes,
    Megabytes,
    /// A plain count.
    Number,
}

impl Unit {
    /// What is written after a figure, and after the name of a line.
    const fn text(self) -> &'static str {
        match self {
            Self::PerSecond => "/s",
            Self::Nanoseconds => "ns",
            Self::Microseconds => "µs",
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
            Self::Percent => "%",
            Self::Bytes => "B",
            Self::Kilobytes => "KiB",
            Self::Megabytes => "MB",
            Self::Number => "",
        }
    }
}

/// What we want a figure to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Goal {
    AtMost(f64),
    Below(f64),
    AtLeast(f64),
}

#[derive(Debug)]
struct Row {
    section: &'static str,
    name: String,
    figure: Option<f64>,
    unit: Unit,
    goal: Option<Goal>,
}

/// Every figure of a run.
#[derive(Debug, Default)]
pub(crate) struct Report(Vec<Row>);

impl Report {
    /// Notes a figure; one that this machine does not tell has a line as well.
    pub(crate) fn note(
        &mut self,
        section: &'static str,
        name: impl Into<String>,
        unit: Unit,
        figure: impl Into<Option<f64>>,
    ) {
        let (name, figure) = (name.into(), figure.into());
        self.0.push(Row { section, name, figure, unit, goal: None });
    }

    /// What the figure that was noted last should be.
    pub(crate) fn goal(&mut self, goal: Goal) {
        if let Some(row) = self.0.last_mut() {
            row.goal = Some(goal);
        }
    }

    /// The figures in Markdown, a table for each section.
    pub(crate) fn tables(&self) -> String {
        let mut text = String::new();
        let mut sections: Vec<&str> = Vec::new();
        for row in &self.0 {
            if !sections.contains(&row.section) {
                sections.push(row.section);
            }
        }
        for section in sections {
            let heading = [section, "figure", "goal"].map(str::to_owned);
            let rows = self.0.iter().filter(|row| row.section == section).map(Row::line);
            write_table(&std::iter::once(heading).chain(rows).collect::<Vec<_>>(), &mut text);
        }
        text
    }
}

impl Row {
    fn line(&self) -> [String; 3] {
        let unit = self.unit.text();
        let name =
            if unit.is_empty() { self.name.clone() } else { format!("{}, {unit}", self.name) };
        let figure = self.figure.map_or_else(|| "–".to_owned(), |figure| self.shown(figure));
        let goal = self.goal.map(|goal| {
            let (sign, limit, met) = match goal {
                Goal::AtMost(limit) => ("≤", limit, self.figure.map(|figure| figure <= limit)),
                Goal::Below(limit) => ("<", limit, self.figure.map(|figure| figure < limit)),
                Goal::AtLeast(limit) => ("≥", limit, self.figure.map(|figure| figure >= limit)),
            };
            let met = match met {
                Some(true) => ": met",
                Some(false) => ": **not met**",
                None => "",
            };
            format!("{sign} {} {unit}", self.shown(limit)).trim_end().to_owned() + met
        });
        [name, figure, goal.unwrap_or_default()]
    }

    /// A count that is whole has no decimals.
    fn shown(&self, figure: f64) -> String {
        let text = number(figure);
        match text.strip_suffix(".00").or_else(|| text.strip_suffix(".0")) {
            Some(whole) if self.unit == Unit::Number => whole.to_owned(),
            _ => text,
        }
    }
}

/// Writes a table whose source can be read, too.
fn write_table(lines: &[[String; 3]], text: &mut String) {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let [first, second, third] = std::array::from_fn(|column| width(column).unwrap_or_default());
    for (index, [name, figure, goal]) in lines.iter().enumerate() {
        // Writing to memory cannot fail.
        let _ = writeln!(text, "| {name:first$} | {figure:>second$} | {goal:third$} |");
        if index == 0 {
            let [a, b, c] = [first + 2, second + 1, third + 2].map(|width| "-".repeat(width));
            let _ = writeln!(text, "|{a}|{b}:|{c}|");
        }
    }
    text.push('\n');
}
