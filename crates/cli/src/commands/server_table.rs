//! The server's own tables, laid out as kubectl lays them out.

use serde_json::Value;

use super::resource::Resource;
use super::table;

/// The least width of a column, and what stands between two.
const MIN_WIDTH: usize = 6;
const PADDING: usize = 3;

/// Which columns are shown, and how names are written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    /// The columns that are otherwise left out, too.
    pub(super) wide: bool,
    /// Whether the namespace comes first.
    pub(super) namespaces: bool,
    /// Whether names have their kind before them.
    pub(super) kinds: bool,
}

/// A table that grows page by page.
#[derive(Debug)]
pub(super) struct ServerTable {
    layout: Layout,
    kind: String,
    head: Vec<String>,
    /// Which of the server's columns are shown.
    shown: Vec<usize>,
    rows: Vec<Vec<String>>,
    widths: Vec<usize>,
}

impl ServerTable {
    pub(super) fn new(resource: &Resource, layout: Layout) -> Self {
        Self {
            layout,
            kind: resource.qualified(),
            head: Vec::new(),
            shown: Vec::new(),
            rows: Vec::new(),
            widths: Vec::new(),
        }
    }

    /// Takes the rows of an answer in: of a Table, or of objects where the server has no table for them.
    pub(super) fn add(&mut self, page: &Value) {
        if page["kind"] != "Table" {
            return self.add_objects(page);
        }
        let columns = page["columnDefinitions"].as_array().map(Vec::as_slice).unwrap_or_default();
        // The Tables of a watch have them only once.
        if !columns.is_empty() {
            let is_shown = |index: &usize| {
                self.layout.wide || columns[*index]["priority"].as_i64().unwrap_or_default() == 0
            };
            self.shown = (0..columns.len()).filter(is_shown).collect();
            let names = self.shown.iter().map(|index| &columns[*index]["name"]);
            let names: Vec<_> = names.map(|name| cell(name).to_uppercase()).collect();
            self.set_head(names);
        }
        for row in page["rows"].as_array().into_iter().flatten() {
            let cells = self.shown.iter().map(|index| cell(&row["cells"][*index])).collect();
            self.add_row(&row["object"], cells);
        }
    }

    fn add_objects(&mut self, page: &Value) {
        self.set_head(vec!["NAME".to_owned(), "CREATED".to_owned()]);
        let items = match page["items"].as_array() {
            Some(items) => items.as_slice(),
            None => std::slice::from_ref(page),
        };
        for object in items {
            let metadata = &object["metadata"];
            self.add_row(
                object,
                vec![cell(&metadata["name"]), cell(&metadata["creationTimestamp"])],
            );
        }
    }

    fn set_head(&mut self, names: Vec<String>) {
        let namespace = self.layout.namespaces.then(|| "NAMESPACE".to_owned());
        self.head = namespace.into_iter().chain(names).collect();
    }

    fn add_row(&mut self, object: &Value, mut cells: Vec<String>) {
        if let (true, Some(first)) = (self.layout.kinds, cells.first_mut()) {
            *first = format!("{}/{first}", self.kind);
        }
        if self.layout.namespaces {
            cells.insert(0, cell(&object["metadata"]["namespace"]));
        }
        self.rows.push(cells);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// What was added, with its head.
    pub(super) fn text(&mut self) -> String {
        let head = self.head.clone();
        self.rows.insert(0, head);
        self.more()
    }

    /// What was added since, in columns that are at least as wide as they were.
    pub(super) fn more(&mut self) -> String {
        let rows = std::mem::take(&mut self.rows);
        self.widths.resize(self.widths.len().max(self.head.len()), MIN_WIDTH);
        for row in &rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count() + PADDING);
            }
        }
        let mut text = String::new();
        for row in rows {
            let last = row.len().saturating_sub(1);
            for (index, (cell, width)) in row.iter().zip(&self.widths).enumerate() {
                if index == last {
                    text.push_str(cell);
                } else {
                    text.push_str(&format!("{cell:<width$}"));
                }
            }
            text.push('\n');
        }
        text
    }

    /// Writes all of it.
    pub(super) fn print(&mut self) {
        table::write(&self.text());
    }
}

/// A cell in one line, and nothing that a terminal would act on.
fn cell(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let (line, cut) = match text.find(['\n', '\r', '\u{c}']) {
        Some(end) => (&text[..end], "..."),
        None => (text.as_str(), ""),
    };
    let shown: String = line.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    shown + cut
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::resource::tests::resources;
    use super::*;

    fn page() -> Value {
        let row = |name: &str, cells: Value| json!({"cells": cells, "object": {"metadata": {"name": name, "namespace": "lab"}}});
        json!({
            "kind": "Table",
            "columnDefinitions": [
                {"name": "Name", "priority": 0}, {"name": "Up", "priority": 0},
                {"name": "Node", "priority": 1}, {"name": "Note"},
            ],
            "rows": [
                row("a", json!(["a", 1, "here", "all\nis well"])),
                row("bbb", json!(["bbb", true, "there", null])),
            ],
        })
    }

    fn shown(layout: Layout, pages: &[Value]) -> String {
        let resources = resources();
        let mut table = ServerTable::new(resources.called("ct").expect("a kind"), layout);
        pages.iter().for_each(|page| table.add(page));
        table.text()
    }

    const PLAIN: Layout = Layout { wide: false, namespaces: false, kinds: false };

    /// The text that kubectl's own table writer makes of the same cells.
    #[test]
    fn it_looks_like_kubectl_s() {
        assert_eq!(
            shown(PLAIN, &[page()]),
            "NAME   UP     NOTE\na      1      all...\nbbb    true   \n"
        );
        assert_eq!(
            shown(Layout { wide: true, ..PLAIN }, &[page()]),
            "NAME   UP     NODE    NOTE\na      1      here    all...\nbbb    true   there   \n"
        );
        assert_eq!(
            shown(Layout { namespaces: true, ..PLAIN }, &[page()]).lines().next(),
            Some("NAMESPACE   NAME   UP     NOTE")
        );
        let kinds = shown(Layout { kinds: true, ..PLAIN }, &[page()]);
        assert!(kinds.contains("\ncrontab.example.com/a     1"), "{kinds}");
    }

    #[test]
    fn what_comes_later_stands_under_the_same_head() {
        let resources = resources();
        let mut table = ServerTable::new(resources.called("ct").expect("a kind"), PLAIN);
        table.add(&page());
        table.text();
        let mut later = page();
        later["columnDefinitions"] = json!([]);
        table.add(&later);
        assert_eq!(table.more(), "a      1      all...\nbbb    true   \n");
        assert_eq!(table.more(), "");
    }

    #[test]
    fn a_terminal_is_not_told_what_to_do() {
        assert_eq!(cell(&json!("a\u{1b}[31mb\tc\u{9b}d")), "a?[31mb?c?d");
    }

    #[test]
    fn objects_without_a_table_have_their_names() {
        let objects = json!({"kind": "CronTabList", "items": [
            {"metadata": {"name": "a", "creationTimestamp": "2030-01-01T00:00:00Z"}},
        ]});
        assert_eq!(shown(PLAIN, &[objects]), "NAME   CREATED\na      2030-01-01T00:00:00Z\n");
    }
}
