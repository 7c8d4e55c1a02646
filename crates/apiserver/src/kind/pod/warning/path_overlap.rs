//! Files of one volume that hide each other.

use crate::go;
use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{BTreeMap, HashMap};
use std::hash::Hasher;
use std::ops::Bound;

/// The paths seen so far in one volume, each once for each source that brings it.
#[derive(Debug, Default)]
pub(super) struct SeenPaths<'a> {
    files: Vec<File<'a>>,
    places: HashMap<(&'a str, String), usize>,
    /// Places by path: what is below a path follows it.
    by_path: BTreeMap<&'a str, Vec<usize>>,
    /// Paths by a hash that grows with the path, so that all that a path may be below of are looked up
    /// in one pass over it.
    by_hash: HashMap<u64, Vec<&'a str>>,
}

#[derive(Debug)]
struct File<'a> {
    path: &'a str,
    from: String,
    /// How many files it has been compared with.
    compared: usize,
    repeated: bool,
}

impl File<'_> {
    fn shown(&self) -> String {
        match self.from.as_str() {
            "" => go::quote(self.path),
            from => format!("{} ({from})", go::quote(self.path)),
        }
    }
}

impl<'a> SeenPaths<'a> {
    /// Adds a path and tells which earlier ones it overlaps with, leaving out what was told before of
    /// the same path from the same source.
    pub(super) fn overlaps(&mut self, path: &'a str, from: &str) -> Vec<String> {
        let path = path.trim_end_matches('/');
        if path.is_empty() {
            return Vec::new();
        }
        let mut related = self.related(path);
        let count = self.files.len();
        let place = match self.places.entry((path, from.to_owned())) {
            Entry::Occupied(known) => {
                let place = *known.get();
                let File { compared, repeated, .. } = &mut self.files[place];
                related.retain(|other| *other >= *compared || (*other == place && !*repeated));
                (*compared, *repeated) = (count, true);
                place
            }
            Entry::Vacant(new) => {
                new.insert(count);
                let compared = count + 1;
                self.files.push(File { path, from: from.to_owned(), compared, repeated: false });
                self.index(path, count);
                count
            }
        };
        let this = &self.files[place];
        let told = |other: usize| format!("{} with {}", this.shown(), self.files[other].shown());
        related.into_iter().map(told).collect()
    }

    fn index(&mut self, path: &'a str, place: usize) {
        let places = self.by_path.entry(path).or_default();
        if places.is_empty()
            && let Some((_, hash)) = prefix_hashes(path).last()
        {
            self.by_hash.entry(hash).or_default().push(path);
        }
        places.push(place);
    }

    /// The places of all paths that are, are above or are below this one, in order.
    fn related(&self, path: &str) -> Vec<usize> {
        let mut found = Vec::new();
        let mut take = |path: &str| found.extend(self.by_path.get(path).into_iter().flatten());
        for (length, hash) in prefix_hashes(path) {
            let prefix = &path[..length];
            if self.by_hash.get(&hash).is_some_and(|paths| paths.contains(&prefix)) {
                take(prefix);
            }
        }
        // `0` follows the slash.
        let (first, end) = (format!("{path}/"), format!("{path}0"));
        let bounds = (Bound::Included(first.as_str()), Bound::Excluded(end.as_str()));
        let below = self.by_path.range::<str, _>(bounds);
        found.extend(below.flat_map(|(_, places)| places));
        found.sort_unstable();
        found
    }
}

/// The length and the hash of every beginning of a path that is a path, the whole one last.
fn prefix_hashes(path: &str) -> impl Iterator<Item = (usize, u64)> {
    let mut hasher = DefaultHasher::new();
    let mut hashed = 0;
    let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
    ends.map(move |end| {
        hasher.write(&path.as_bytes()[hashed..end]);
        hashed = end;
        (end, hasher.finish())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlapping(one: &str, other: &str) -> bool {
        let below = |inner: &str, outer: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        !one.is_empty() && !other.is_empty() && (below(one, other) || below(other, one))
    }

    proptest::proptest! {
        #[test]
        fn the_index_finds_what_comparing_all_pairs_finds(
            files in proptest::collection::vec(("[ab](/[ab]|-|0){0,4}/?", 0..2_usize), 0..16),
        ) {
            let mut seen = SeenPaths::default();
            let mut told = std::collections::HashSet::new();
            let shown: Vec<(&str, String)> = files
                .iter()
                .map(|(path, from)| (path.trim_end_matches('/'), ["", "S"][*from].to_owned()))
                .collect();
            let show = |(path, from): &(&str, String)| match from.as_str() {
                "" => go::quote(path),
                from => format!("{} ({from})", go::quote(path)),
            };
            for (i, this) in shown.iter().enumerate() {
                let others = shown[..i].iter().filter(|other| overlapping(this.0, other.0));
                let all = others.map(|other| format!("{} with {}", show(this), show(other)));
                let expected: Vec<String> = all.filter(|text| told.insert(text.clone())).collect();
                let found = seen.overlaps(&files[i].0, &this.1);
                assert_eq!(found, expected, "{this:?} after {:?}", &shown[..i]);
            }
        }
    }

    #[test]
    fn files_side_by_side_take_time_in_proportion_to_their_number() {
        let paths = |count: usize| (0..count).map(|i| format!("a/{i}")).collect::<Vec<String>>();
        crate::growth::assert_in_proportion(2_000, paths, |paths| {
            let mut seen = SeenPaths::default();
            let told: usize = paths.iter().map(|path| seen.overlaps(path, "").len()).sum();
            assert_eq!(told, 0);
        });
    }
}
