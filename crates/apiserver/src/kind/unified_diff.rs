//! The unified diff that messages about immutable specs end with.
//!
//! It finds the same matching blocks as the Ratcliff-Obershelp matcher of Python's `difflib`, which
//! upstream uses in a Go port, including its heuristic of not looking for very common lines.

use std::collections::HashMap;

/// Unchanged lines around a change.
const CONTEXT_LINES: usize = 3;
/// Texts longer than this are not compared: the work grows with the square of their length.
const MAX_LINES: usize = 4000;

/// The difference of two texts, `""` if there is none or they are too long to say.
pub(crate) fn diff(old: &str, new: &str) -> String {
    let old: Vec<&str> = old.split('\n').collect();
    let new: Vec<&str> = new.split('\n').collect();
    if old.len() > MAX_LINES || new.len() > MAX_LINES {
        return String::new();
    }
    let mut out = String::new();
    for group in grouped(&changes(&old, &new)) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            continue;
        };
        out.push_str(&format!(
            "@@ -{} +{} @@\n",
            range(first.old.0, last.old.1),
            range(first.new.0, last.new.1)
        ));
        for block in &group {
            if block.same {
                push_lines(&mut out, ' ', &old[block.old.0..block.old.1]);
            } else {
                push_lines(&mut out, '-', &old[block.old.0..block.old.1]);
                push_lines(&mut out, '+', &new[block.new.0..block.new.1]);
            }
        }
    }
    out
}

fn push_lines(out: &mut String, mark: char, lines: &[&str]) {
    for line in lines {
        out.push(mark);
        out.push_str(line);
        out.push('\n');
    }
}

fn range(start: usize, end: usize) -> String {
    match end - start {
        0 => format!("{start},0"),
        1 => (start + 1).to_string(),
        length => format!("{},{length}", start + 1),
    }
}

/// A stretch of both texts that is the same, or that replaces one by the other.
#[derive(Clone, Copy)]
struct Block {
    same: bool,
    old: (usize, usize),
    new: (usize, usize),
}

fn changes(old: &[&str], new: &[&str]) -> Vec<Block> {
    let (mut i, mut j) = (0, 0);
    let mut blocks = Vec::new();
    for (a, b, length) in Matcher::new(old, new).blocks() {
        if i < a || j < b {
            blocks.push(Block { same: false, old: (i, a), new: (j, b) });
        }
        if length > 0 {
            blocks.push(Block { same: true, old: (a, a + length), new: (b, b + length) });
        }
        (i, j) = (a + length, b + length);
    }
    blocks
}

/// The changes with a little around them, apart where much is unchanged in between.
fn grouped(blocks: &[Block]) -> Vec<Vec<Block>> {
    let mut groups = Vec::new();
    let mut group: Vec<Block> = Vec::new();
    if blocks.iter().all(|block| block.same) {
        return groups;
    }
    let last = blocks.len() - 1;
    for (i, block) in blocks.iter().enumerate() {
        let mut block = *block;
        if block.same {
            let length = block.old.1 - block.old.0;
            let keep_end = |block: &mut Block| {
                block.old.0 = block.old.1.saturating_sub(CONTEXT_LINES).max(block.old.0);
                block.new.0 = block.new.1.saturating_sub(CONTEXT_LINES).max(block.new.0);
            };
            let keep_start = |block: &mut Block| {
                block.old.1 = block.old.1.min(block.old.0 + CONTEXT_LINES);
                block.new.1 = block.new.1.min(block.new.0 + CONTEXT_LINES);
            };
            if i == 0 {
                keep_end(&mut block);
            } else if i == last {
                keep_start(&mut block);
            } else if length > 2 * CONTEXT_LINES {
                let mut end = block;
                keep_start(&mut end);
                group.push(end);
                groups.push(std::mem::take(&mut group));
                keep_end(&mut block);
            }
        }
        group.push(block);
    }
    groups.push(group);
    groups
}

struct Matcher<'a> {
    old: &'a [&'a str],
    new: &'a [&'a str],
    /// Where each line of the new text stands, common lines left out.
    places: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Matcher<'a> {
    fn new(old: &'a [&'a str], new: &'a [&'a str]) -> Self {
        let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
        for (j, line) in new.iter().enumerate() {
            places.entry(line).or_default().push(j);
        }
        // In a long text, lines that make up more than a hundredth of it say little.
        if new.len() >= 200 {
            let most = new.len() / 100 + 1;
            places.retain(|_, at| at.len() <= most);
        }
        Self { old, new, places }
    }

    /// Matching blocks `(old, new, length)` in order, ending with an empty one.
    fn blocks(&self) -> Vec<(usize, usize, usize)> {
        let mut found = Vec::new();
        let mut open = vec![(0, self.old.len(), 0, self.new.len())];
        while let Some((old_start, old_end, new_start, new_end)) = open.pop() {
            let (i, j, length) = self.longest(old_start, old_end, new_start, new_end);
            if length == 0 {
                continue;
            }
            found.push((i, j, length));
            if old_start < i && new_start < j {
                open.push((old_start, i, new_start, j));
            }
            if i + length < old_end && j + length < new_end {
                open.push((i + length, old_end, j + length, new_end));
            }
        }
        found.sort_unstable();
        let mut merged: Vec<(usize, usize, usize)> = Vec::new();
        for (i, j, length) in found {
            match merged.last_mut() {
                Some(last) if last.0 + last.2 == i && last.1 + last.2 == j => last.2 += length,
                _ => merged.push((i, j, length)),
            }
        }
        merged.push((self.old.len(), self.new.len(), 0));
        merged
    }

    /// The longest match in a window; of equals, the earliest in the old text, then in the new.
    fn longest(
        &self,
        old_start: usize,
        old_end: usize,
        new_start: usize,
        new_end: usize,
    ) -> (usize, usize, usize) {
        let mut best = (old_start, new_start, 0);
        let mut lengths: HashMap<usize, usize> = HashMap::new();
        for i in old_start..old_end {
            let mut next = HashMap::new();
            for &j in self.places.get(self.old[i]).map_or(&[][..], Vec::as_slice) {
                if j < new_start {
                    continue;
                }
                if j >= new_end {
                    break;
                }
                let before = if j == 0 { 0 } else { lengths.get(&(j - 1)).copied().unwrap_or(0) };
                let length = before + 1;
                next.insert(j, length);
                if length > best.2 {
                    best = (i + 1 - length, j + 1 - length, length);
                }
            }
            lengths = next;
        }
        // Common lines around the match belong to it.
        while best.0 > old_start
            && best.1 > new_start
            && self.old[best.0 - 1] == self.new[best.1 - 1]
        {
            best = (best.0 - 1, best.1 - 1, best.2 + 1);
        }
        while best.0 + best.2 < old_end
            && best.1 + best.2 < new_end
            && self.old[best.0 + best.2] == self.new[best.1 + best.2]
        {
            best.2 += 1;
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_with_three_lines_around_it() {
        let old = "a\nb\nc\nd\ne\nf\ng";
        assert_eq!(diff(old, old), "");
        assert_eq!(diff(old, "a\nb\nc\nd\ne\nF\ng"), "@@ -3,5 +3,5 @@\n c\n d\n e\n-f\n+F\n g\n");
        assert_eq!(diff("a", "b"), "@@ -1 +1 @@\n-a\n+b\n");
    }

    #[test]
    fn distant_changes_are_separate_hunks() {
        let old: Vec<String> = (0..30).map(|i| i.to_string()).collect();
        let mut new = old.clone();
        new[2] = "x".to_owned();
        new[25] = "y".to_owned();
        let text = diff(&old.join("\n"), &new.join("\n"));
        assert_eq!(text.matches("@@ -").count(), 2);
    }
}
