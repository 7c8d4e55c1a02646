//! Ports of a Pod that are in each other's way.

use std::collections::HashMap;

/// How two ports with the same number and protocol clash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clash {
    Duplicate,
    Overlapping,
    Ambiguous,
}

impl Clash {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Duplicate => "duplicate",
            Self::Overlapping => "overlapping",
            Self::Ambiguous => "dangerously ambiguous",
        }
    }
}

/// The ports seen so far of one number and protocol, by what another one may clash with. Lists hold
/// places in `paths`, in ascending order.
#[derive(Debug, Default)]
pub(super) struct TakenPorts<'a> {
    paths: Vec<String>,
    without_host_port: Vec<usize>,
    by_address: HashMap<(i64, &'a str), Vec<usize>>,
    /// Those of a host port that name an address.
    addressed: HashMap<i64, Vec<usize>>,
}

impl<'a> TakenPorts<'a> {
    /// What a further port clashes with, in the order in which the others were added. Every port that
    /// is looked at here gives a clash.
    pub(super) fn clashes(&self, host: i64, ip: &'a str) -> Vec<(Clash, &str)> {
        let same = self.by_address.get(&(host, ip)).map_or(&[][..], Vec::as_slice);
        let mut found: Vec<(usize, Clash)> = Vec::new();
        let mut take = |places: &[usize], clash: Clash| {
            found.extend(places.iter().map(|place| (*place, clash)));
        };
        if host == 0 {
            // It overlaps with all the others.
            let mut places = 0..self.paths.len();
            for duplicate in same {
                found.extend(
                    places.by_ref().take_while(|place| place != duplicate).map(overlapping),
                );
                found.push((*duplicate, Clash::Duplicate));
            }
            found.extend(places.map(overlapping));
        } else {
            take(same, Clash::Duplicate);
            take(&self.without_host_port, Clash::Overlapping);
            if ip.is_empty() {
                take(self.addressed.get(&host).map_or(&[], Vec::as_slice), Clash::Ambiguous);
            } else {
                let everywhere = self.by_address.get(&(host, ""));
                take(everywhere.map_or(&[], Vec::as_slice), Clash::Ambiguous);
            }
            found.sort_unstable_by_key(|(place, _)| *place);
        }
        found.into_iter().map(|(place, clash)| (clash, self.paths[place].as_str())).collect()
    }

    pub(super) fn add(&mut self, path: String, host: i64, ip: &'a str) {
        let place = self.paths.len();
        self.paths.push(path);
        self.by_address.entry((host, ip)).or_default().push(place);
        if host == 0 {
            self.without_host_port.push(place);
        } else if !ip.is_empty() {
            self.addressed.entry(host).or_default().push(place);
        }
    }
}

const fn overlapping(place: usize) -> (usize, Clash) {
    (place, Clash::Overlapping)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule, pair by pair.
    fn clash(one: (i64, &str), other: (i64, &str)) -> Option<Clash> {
        if one == other {
            Some(Clash::Duplicate)
        } else if one.0 == 0 || other.0 == 0 {
            Some(Clash::Overlapping)
        } else {
            let ambiguous = one.0 == other.0 && one.1.is_empty() != other.1.is_empty();
            ambiguous.then_some(Clash::Ambiguous)
        }
    }

    proptest::proptest! {
        #[test]
        fn the_index_finds_what_comparing_all_pairs_finds(
            ports in proptest::collection::vec((0..3_i64, 0..3_usize), 0..20),
        ) {
            let ports: Vec<(i64, &str)> =
                ports.into_iter().map(|(host, ip)| (host, ["", "a", "b"][ip])).collect();
            let mut taken = TakenPorts::default();
            for (i, port) in ports.iter().enumerate() {
                let expected: Vec<(Clash, String)> = ports[..i]
                    .iter()
                    .enumerate()
                    .filter_map(|(place, other)| Some((clash(*port, *other)?, place.to_string())))
                    .collect();
                let found: Vec<(Clash, String)> = taken
                    .clashes(port.0, port.1)
                    .into_iter()
                    .map(|(clash, path)| (clash, path.to_owned()))
                    .collect();
                assert_eq!(found, expected, "{port:?} after {:?}", &ports[..i]);
                taken.add(i.to_string(), port.0, port.1);
            }
        }
    }
}
