//! Making and adding to maps.

use std::rc::Rc;

use super::super::eval::{Evaluated, Fault, Meter};
use super::super::value::{Key, OwnedMap, Val};

pub(in super::super) fn from_pairs<'a>(pairs: Vec<(Val<'a>, Val<'a>)>) -> Evaluated<'a> {
    let mut map = OwnedMap::new();
    for (key, value) in pairs {
        let place = Key::of(&key).ok_or_else(|| unsupported(&key))?;
        map.insert(place, (key, value));
    }
    Ok(Val::Map(Rc::new(map)))
}

fn unsupported(key: &Val<'_>) -> Fault {
    Fault::new(format!("unsupported key type: {}", key.type_name()))
}

/// Adds a key and a value, or all entries of another map; a key must not be there already.
pub(in super::super) fn insert<'a>(map: &mut OwnedMap<'a>, args: &[Val<'a>]) -> Result<(), Fault> {
    let entries = match args {
        [key, value] => vec![(key.clone(), value.clone())],
        [more] => {
            let more = more.as_map().ok_or_else(Fault::no_such_overload)?;
            let mut entries = Vec::with_capacity(more.len());
            for key in more.keys() {
                let value = more.find(&key)?.ok_or_else(Fault::no_such_overload)?;
                entries.push((key, value));
            }
            entries
        }
        _ => return Err(Fault::no_such_overload()),
    };
    for (key, value) in entries {
        let place = Key::of(&key).ok_or_else(|| unsupported(&key))?;
        if map.contains_key(&place) {
            return Err(Fault::new(format!("insert failed: key {} already exists", key.shown())));
        }
        map.insert(place, (key, value));
    }
    Ok(())
}

pub(super) fn insert_into<'a>(args: &[Val<'a>], meter: &mut Meter) -> Evaluated<'a> {
    let [Val::Map(map), rest @ ..] = args else { return Err(Fault::no_such_overload()) };
    meter.work(map.len())?;
    let mut map = (**map).clone();
    insert(&mut map, rest)?;
    Ok(Val::Map(Rc::new(map)))
}
