//! The figures, as they come in and as a table.

use std::fmt::Write as _;

use crate::number::{median, number};

/// Whose figure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    InProcess,
    Sojourn,
    Kubernetes,
}

const COLUMNS: [Column; 3] = [Column::InProcess, Column::Sojourn, Column::Kubernetes];

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    PerSecond,
    Milliseconds,
    Microseconds,
    Megabytes,
    Bytes,
}

impl Unit {
    const fn text(self) -> &'static str {
        match self {
            Self::PerSecond => "/s",
            Self::Milliseconds => "ms",
            Self::Microseconds => "µs",
            Self::Megabytes => "MB",
            Self::Bytes => "B",
        }
    }
}

/// What we want a figure to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Goal {
    /// `sojourn up` needs no more than this.
    AtMost(f64),
    /// In so many times the real server's figure: over TLS, and in process.
    Times { tls: f64, in_process: f64 },
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    pub(crate) section: &'static str,
    pub(crate) name: String,
    pub(crate) unit: Unit,
    pub(crate) goal: Option<Goal>,
    /// Whether it makes sense to say how many times better it is than the real server's.
    pub(crate) is_compared: bool,
}

impl Figure {
    pub(crate) fn new(section: &'static str, name: impl Into<String>, unit: Unit) -> Self {
        Self { section, name: name.into(), unit, goal: None, is_compared: true }
    }

    pub(crate) fn goal(self, goal: Goal) -> Self {
        Self { goal: Some(goal), ..self }
    }

    /// Not to be compared with the real server's.
    pub(crate) fn alone(self) -> Self {
        Self { is_compared: false, ..self }
    }
}

#[derive(Debug)]
struct Row {
    figure: Figure,
    samples: [Vec<f64>; COLUMNS.len()],
}

/// Every figure of a run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

impl Report {
    pub(crate) fn note(&mut self, figure: &Figure, column: Column, value: f64) {
        self.note_if_known(figure, column, Some(value));
    }

    /// The same for a figure that not every system can tell; its line is there anyway.
    pub(crate) fn note_if_known(&mut self, figure: &Figure, column: Column, value: Option<f64>) {
        let known = self.rows.iter().position(|row| row.figure == *figure);
        let index = known.unwrap_or_else(|| {
            self.rows.push(Row { figure: figure.clone(), samples: Default::default() });
            self.rows.len() - 1
        });
        self.rows[index].samples[column as usize].extend(value);
    }

    /// The figures in Markdown, a table for each section.
    pub(crate) fn tables(&self) -> String {
        let mut text = String::new();
        let mut sections: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !sections.contains(&row.figure.section) {
                sections.push(row.figure.section);
            }
        }
        for section in sections {
            let rows = self.rows.iter().filter(|row| row.figure.section == section);
            let lines: Vec<[String; 6]> =
                std::iter::once(heading(section)).chain(rows.map(Row::line)).collect();
            align(&lines, &mut text);
        }
        text
    }
}

fn heading(section: &str) -> [String; 6] {
    [section, "in process", "`sojourn up`", "kube-apiserver + etcd", "times better", "goal"]
        .map(str::to_owned)
}

/// Writes a table whose source can be read, too.
fn align(lines: &[[String; 6]], text: &mut String) {
    let width = |column: usize| {
        lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default()
    };
    let widths: [usize; 6] = std::array::from_fn(width);
    for (number, line) in lines.iter().enumerate() {
        let mut cells = String::new();
        let mut rule = String::new();
        for (column, (cell, width)) in line.iter().zip(widths).enumerate() {
            let to_the_right = (1..5).contains(&column);
            if to_the_right {
                let _ = write!(cells, "| {cell:>width$} ");
                let _ = write!(rule, "|{:-<1$}:", "", width + 1);
            } else {
                let _ = write!(cells, "| {cell:width$} ");
                let _ = write!(rule, "|{:-<1$}", "", width + 2);
            }
        }
        let _ = writeln!(text, "{cells}|");
        if number == 0 {
            let _ = writeln!(text, "{rule}|");
        }
    }
    text.push('\n');
}

impl Row {
    fn median(&self, column: Column) -> Option<f64> {
        median(&self.samples[column as usize])
    }

    /// How many times better than the real server's a figure is.
    fn times_better(&self, column: Column) -> Option<f64> {
        if !self.figure.is_compared {
            return None;
        }
        let (ours, theirs) = (self.median(column)?, self.median(Column::Kubernetes)?);
        Some(match self.figure.unit {
            Unit::PerSecond => ours / theirs,
            _ => theirs / ours,
        })
    }

    fn line(&self) -> [String; 6] {
        let Figure { name, unit, goal, .. } = &self.figure;
        let [in_process, sojourn, kubernetes] = COLUMNS.map(|column| {
            let samples = &self.samples[column as usize];
            summary(samples).unwrap_or_else(|| "–".to_owned())
        });
        let times = |column| self.times_better(column).map(|times| format!("{times:.1}"));
        let better = match (times(Column::InProcess), times(Column::Sojourn)) {
            (Some(in_process), Some(tls)) => format!("{tls}; in process {in_process}"),
            (None, Some(one)) | (Some(one), None) => one,
            (None, None) => "–".to_owned(),
        };
        let goal = goal.map_or_else(String::new, |goal| self.goal_text(goal));
        let name = format!("{name}, {}", unit.text());
        [name, in_process, sojourn, kubernetes, better, goal]
    }

    fn goal_text(&self, goal: Goal) -> String {
        match goal {
            Goal::AtMost(limit) => {
                let met = self.median(Column::Sojourn).map(|figure| figure <= limit);
                format!("≤ {} {}{}", number(limit), self.figure.unit.text(), met_or_not(met))
            }
            Goal::Times { tls, in_process } => {
                let reaches = |column, goal| self.times_better(column).map(|times| times >= goal);
                let met =
                    match (reaches(Column::Sojourn, tls), reaches(Column::InProcess, in_process)) {
                        (Some(tls), Some(in_process)) => Some(tls && in_process),
                        _ => None,
                    };
                format!("{tls} times; in process {in_process}{}", met_or_not(met))
            }
        }
    }
}

const fn met_or_not(met: Option<bool>) -> &'static str {
    match met {
        Some(true) => ": met",
        Some(false) => ": **not met**",
        None => "",
    }
}

/// The middle of some samples and their range; nothing without any.
fn summary(samples: &[f64]) -> Option<String> {
    let middle = number(median(samples)?);
    if samples.len() == 1 {
        return Some(middle);
    }
    let least = samples.iter().copied().fold(f64::INFINITY, f64::min);
    let most = samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some(format!("{middle} [{}–{}]", number(least), number(most)))
}
