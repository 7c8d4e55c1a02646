//! What there is of many machines, by their names.

use std::cmp::Ordering;
use std::ops::Index;
use std::sync::Arc;

/// A map in the order of names, made for going through all of it: a large group is gone through many
/// times, and what it is gone through with should lie side by side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByName<V>(Vec<(Arc<str>, V)>);

impl<V> Default for ByName<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<V> ByName<V> {
    fn position(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(there, _)| (**there).cmp(name))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, name: &str) -> Option<&V> {
        self.position(name).ok().map(|index| &self.0[index].1)
    }

    pub fn get_mut(&mut self, name: &str) -> Option<&mut V> {
        self.position(name).ok().map(|index| &mut self.0[index].1)
    }

    /// Answers what there was of that name.
    pub fn insert(&mut self, name: Arc<str>, value: V) -> Option<V> {
        match self.position(&name) {
            Ok(index) => Some(std::mem::replace(&mut self.0[index].1, value)),
            Err(index) => {
                self.0.insert(index, (name, value));
                None
            }
        }
    }

    /// What there is of a name; the default from now on, if that is nothing.
    pub fn or_default(&mut self, name: &Arc<str>) -> &mut V
    where
        V: Default,
    {
        let index = self.position(name).unwrap_or_else(|index| {
            self.0.insert(index, (name.clone(), V::default()));
            index
        });
        &mut self.0[index].1
    }

    pub fn remove(&mut self, name: &str) -> Option<V> {
        self.position(name).ok().map(|index| self.0.remove(index).1)
    }

    pub fn retain(&mut self, mut kept: impl FnMut(&Arc<str>, &V) -> bool) {
        self.0.retain(|(name, value)| kept(name, value));
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &V)> {
        self.0.iter().map(|(name, value)| (name, value))
    }

    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Arc<str>> {
        self.0.iter().map(|(name, _)| name)
    }

    pub fn values(&self) -> impl ExactSizeIterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }

    pub fn values_mut(&mut self) -> impl ExactSizeIterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    /// A way through it that only goes forward.
    pub fn walk(&self) -> Walk<'_, V> {
        Walk(&self.0)
    }

    /// Of names that come in order, each once.
    pub fn in_order(entries: impl IntoIterator<Item = (Arc<str>, V)>) -> Self {
        let entries: Vec<_> = entries.into_iter().collect();
        debug_assert!(entries.is_sorted_by(|(a, _), (b, _)| a < b), "names are not in order");
        Self(entries)
    }

    /// Whether it is of exactly these names, which come in order then.
    pub fn is_of<'n>(&self, names: impl ExactSizeIterator<Item = &'n Arc<str>>) -> bool {
        names.len() == self.len() && names.zip(&self.0).all(|(name, (there, _))| same(name, there))
    }

    /// Makes it one of exactly these names, which come in order: what there is of others goes, and
    /// whoever is missing has the default.
    pub fn align<'n>(&mut self, names: impl ExactSizeIterator<Item = &'n Arc<str>>)
    where
        V: Default,
    {
        let mut there = std::mem::take(&mut self.0).into_iter().peekable();
        self.0.reserve_exact(names.len());
        for name in names {
            while there.next_if(|(other, _)| order(other, name).is_lt()).is_some() {}
            let found = there.next_if(|(other, _)| same(other, name));
            self.0.push(found.unwrap_or_else(|| (name.clone(), V::default())));
        }
    }
}

/// Of names that come in any order; of one that comes twice, the last one counts.
impl<V> FromIterator<(Arc<str>, V)> for ByName<V> {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, V)>>(entries: I) -> Self {
        let mut entries: Vec<_> = entries.into_iter().collect();
        if !entries.is_sorted_by(|(a, _), (b, _)| a < b) {
            entries.reverse();
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            entries.dedup_by(|(a, _), (b, _)| a == b);
        }
        Self(entries)
    }
}

impl<V> IntoIterator for ByName<V> {
    type Item = (Arc<str>, V);
    type IntoIter = std::vec::IntoIter<(Arc<str>, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<V> Index<&str> for ByName<V> {
    type Output = V;

    fn index(&self, name: &str) -> &V {
        self.get(name).unwrap_or_else(|| panic!("there is nothing of {name}"))
    }
}

/// See [`ByName::walk`].
#[derive(Debug)]
pub struct Walk<'a, V>(&'a [(Arc<str>, V)]);

impl<'a, V> Walk<'a, V> {
    /// What there is of a name that comes after those that were asked for before.
    pub fn find(&mut self, name: &Arc<str>) -> Option<&'a V> {
        loop {
            let ((there, value), rest) = self.0.split_first()?;
            match order(there, name) {
                Ordering::Less => self.0 = rest,
                Ordering::Equal => {
                    self.0 = rest;
                    return Some(value);
                }
                Ordering::Greater => return None,
            }
        }
    }
}

/// Names are mostly the very same text, which need not be read to be compared.
fn same(a: &Arc<str>, b: &Arc<str>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

fn order(a: &Arc<str>, b: &Arc<str>) -> Ordering {
    if Arc::ptr_eq(a, b) { Ordering::Equal } else { a.cmp(b) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn names(names: &[&str]) -> Vec<Arc<str>> {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    fn of(entries: &[(&str, u32)]) -> ByName<u32> {
        entries.iter().map(|(name, value)| (Arc::from(*name), *value)).collect()
    }

    #[test]
    fn the_last_of_a_name_counts() {
        assert_eq!(of(&[("b", 1), ("a", 2), ("b", 3)]), of(&[("a", 2), ("b", 3)]));
        assert_eq!(of(&[("a", 1), ("a", 2)]), of(&[("a", 2)]));
    }

    #[test]
    fn names_are_found_on_one_way_through() {
        let map = of(&[("b", 2), ("d", 4), ("e", 5)]);
        let mut way = map.walk();
        let asked = names(&["a", "b", "c", "e", "f"]);
        let found: Vec<_> = asked.iter().map(|name| way.find(name).copied()).collect();
        assert_eq!(found, [None, Some(2), None, Some(5), None]);
        assert_eq!(way.find(&Arc::from("b")), None, "it does not go back");
    }

    #[test]
    fn it_is_brought_in_line_with_names() {
        let mut map = of(&[("b", 2), ("d", 4), ("e", 5)]);
        let other = names(&["a", "d", "e", "f"]);
        assert!(!map.is_of(other.iter()) && !map.is_of(other[..3].iter()));
        map.align(other.iter());
        assert!(map.is_of(other.iter()) && map.is_of(names(&["a", "d", "e", "f"]).iter()));
        assert_eq!(map, of(&[("a", 0), ("d", 4), ("e", 5), ("f", 0)]));
        map.align(names(&[]).iter());
        assert!(map.is_empty());
    }

    proptest! {
        #[test]
        fn it_is_a_map(steps in prop::collection::vec(("[a-d]{1,2}", 0u32..9, 0u8..4), 0..40)) {
            let (mut map, mut model) = (ByName::default(), BTreeMap::new());
            for (name, value, step) in steps {
                let shared: Arc<str> = name.as_str().into();
                match step {
                    0 => prop_assert_eq!(map.remove(&name), model.remove(&name)),
                    1 => {
                        *map.or_default(&shared) += value;
                        *model.entry(name).or_default() += value;
                    }
                    2 => {
                        map.retain(|_, there| *there != value);
                        model.retain(|_, there| *there != value);
                    }
                    _ => {
                        prop_assert_eq!(map.insert(shared, value), model.insert(name, value));
                    }
                }
            }
            let entries = map.iter().map(|(name, value)| (name.to_string(), *value));
            prop_assert_eq!(entries.collect::<Vec<_>>(), model.into_iter().collect::<Vec<_>>());
        }
    }
}
