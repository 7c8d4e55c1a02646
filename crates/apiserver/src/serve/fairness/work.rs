//! How much work a request is, estimated from what it is about: how many seats it takes, and
//! whether it is done beside the threads that everybody's requests share.

use std::time::Duration;

use crate::request::Verb;
use crate::respond::Form;
use crate::verb::{Call, list};

/// Work above this is run with `block_in_place`.
pub(crate) const MAX_INLINE_WORK: Duration = Duration::from_millis(1);

/// What writing takes for each byte of the body and of the object that is there: decoding, field
/// ownership, validation and writing it out again.
const WRITE_NANOS_PER_BYTE: u64 = 100;
/// What serving stored text takes for each byte, and for each object.
const COPY_NANOS_PER_BYTE: u64 = 1;
const COPY_NANOS_PER_OBJECT: u64 = 200;
/// The same where each object must be parsed: tables, metadata alone, another version.
const PARSE_NANOS_PER_BYTE: u64 = 20;
/// What compressing an answer takes.
const GZIP_NANOS_PER_BYTE: u64 = 10;
/// What deleting takes for each object of a collection.
const DELETE_NANOS_PER_OBJECT: u64 = 20_000;
/// Objects of a list that are looked at to estimate it.
const MAX_SAMPLED_OBJECTS: usize = 1_000;
/// The least share of all seats that work beside the async workers takes, as a part of the maximum width:
/// it bounds how many threads do such work at once.
const HEAVY_SHARE: usize = 8;

/// An estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Work(Duration);

impl Work {
    fn nanos(nanos: u64) -> Self {
        Self(Duration::from_nanos(nanos))
    }

    /// Writing `bytes` of objects in this form.
    pub(crate) fn writing(form: Form, bytes: usize, objects: usize) -> Self {
        let (bytes, objects) = (count(bytes), count(objects));
        Self::nanos(match form {
            Form::Json => bytes * COPY_NANOS_PER_BYTE + objects * COPY_NANOS_PER_OBJECT,
            Form::Table { .. } | Form::Partial { .. } => bytes * PARSE_NANOS_PER_BYTE,
        })
    }

    /// A piece of an answer that is written while it is sent. However small, many of them at once
    /// would keep the async workers from everybody else.
    pub(crate) fn as_chunk(self) -> Self {
        Self(self.0.max(MAX_INLINE_WORK + Duration::from_nanos(1)))
    }

    /// Compressing an answer of this size.
    pub(crate) fn compressing(bytes: usize) -> Self {
        Self::nanos(count(bytes) * GZIP_NANOS_PER_BYTE)
    }

    /// What a request for a resource takes, its body having come.
    pub(crate) fn of(call: &Call, verb: Verb, body: usize, gzip: bool) -> Self {
        let stored = || {
            let named = !call.path.name.is_empty();
            let found = named.then(|| call.endpoint.resource.table.get(&call.key())).flatten();
            found.map_or(0, |stored| stored.len())
        };
        match verb {
            // Stored text is served as it is, which is what nearly every request asks for.
            Verb::Get if !is_transformed(call) => Self::default(),
            Verb::Get => match Form::negotiate(&call.headers, &call.query) {
                Ok(form) => Self::writing(form, stored(), 1),
                Err(_) => Self::default(),
            },
            Verb::Watch => Self::initial_events(call),
            Verb::Create | Verb::Delete => Self::nanos(count(body) * WRITE_NANOS_PER_BYTE),
            Verb::Update | Verb::Patch => {
                Self::nanos((count(body) + count(stored())) * WRITE_NANOS_PER_BYTE)
            }
            Verb::List => Self::list(call, gzip),
            Verb::DeleteCollection => {
                let (objects, _) = sample(call);
                Self::nanos(count(objects) * DELETE_NANOS_PER_OBJECT)
            }
        }
    }

    /// A watch that begins with every object goes through them all; writing them comes later.
    fn initial_events(call: &Call) -> Self {
        let wanted = call.query.flag("sendInitialEvents").unwrap_or(false)
            || matches!(call.query.text("resourceVersion"), "" | "0");
        let objects = if wanted { call.endpoint.resource.table.len() } else { 0 };
        Self::nanos(count(objects) * COPY_NANOS_PER_OBJECT)
    }

    /// Whether estimating a list is work by itself.
    pub(crate) fn may_be_large(call: &Call) -> bool {
        call.endpoint.resource.table.len() >= MAX_SAMPLED_OBJECTS
    }

    fn list(call: &Call, gzip: bool) -> Self {
        let (objects, bytes) = sample(call);
        // What cannot be answered is refused later, which is no work.
        let form = Form::negotiate(&call.headers, &call.query).unwrap_or(Form::Json);
        let writing = Self::writing(form, bytes, objects);
        if gzip { Self(writing.0 + Self::compressing(bytes).0) } else { writing }
    }

    /// Whether it is to be done beside the async workers.
    pub(crate) fn is_heavy(self) -> bool {
        self.0 > MAX_INLINE_WORK
    }

    /// The seats that it takes, of `max_width` at most: one for each millisecond.
    pub(crate) fn width(self, max_width: usize) -> usize {
        if !self.is_heavy() {
            return 1;
        }
        let millis = usize::try_from(self.0.as_millis()).unwrap_or(usize::MAX);
        millis.saturating_add(max_width / HEAVY_SHARE).clamp(1, max_width)
    }
}

/// Whether an answer in another form than the object's own is asked for.
fn is_transformed(call: &Call) -> bool {
    let accept = call.headers.get(http::header::ACCEPT).map(http::HeaderValue::as_bytes);
    accept.is_some_and(|accept| memchr::memmem::find(accept, b"as=").is_some())
}

/// About how many objects a list is about, and how long they are together. A namespace with more
/// objects than are looked at may have all there are, as upstream assumes too.
fn sample(call: &Call) -> (usize, usize) {
    let limit =
        call.query.int("limit").ok().flatten().and_then(|limit| usize::try_from(limit).ok());
    let limit = limit.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let (objects, _) = call.endpoint.resource.table.snapshot();
    let (sampled, bytes) = list::range(&objects, call.namespace(), None)
        .take(limit.min(MAX_SAMPLED_OBJECTS))
        .fold((0, 0), |(objects, bytes), object| (objects + 1, bytes + object.len()));
    if sampled < MAX_SAMPLED_OBJECTS {
        return (sampled, bytes);
    }
    let all = objects.len().min(limit);
    (all, (bytes / sampled).saturating_mul(all))
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn width_grows_with_the_estimated_work() {
        let small = Work::writing(Form::Json, 100 << 10, 100);
        assert_eq!((small.is_heavy(), small.width(75)), (false, 1));
        let large = Work::writing(Form::Json, 8 << 20, 8_000);
        assert_eq!((large.is_heavy(), large.width(75)), (true, 9 + 9));
        let packed = Work(large.0 + Work::compressing(8 << 20).0);
        assert!(packed.width(75) > large.width(75), "{packed:?}");
        assert_eq!(packed.width(10), 10);
        assert_eq!(packed.width(1), 1);
    }
}
