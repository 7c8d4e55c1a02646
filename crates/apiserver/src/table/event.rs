//! How an Event is printed, in either of its two forms.

use jiff::Timestamp;

use super::age::{self, Age};
use super::builtin::name;
use super::cells::Cells;
use crate::json::{Access, Object};

/// The members that the two forms call differently.
struct Form {
    object: &'static str,
    message: &'static str,
    source: &'static str,
    controller: &'static str,
    first: &'static str,
    last: &'static str,
    count: &'static str,
}

/// An Event of `v1`.
pub(super) fn core_cells(obj: &Object, now: Timestamp, cells: &mut Cells<'_>) {
    let form = Form {
        object: "involvedObject",
        message: "message",
        source: "source",
        controller: "reportingComponent",
        first: "firstTimestamp",
        last: "lastTimestamp",
        count: "count",
    };
    form.fill(obj, now, cells);
}

/// An Event of `events.k8s.io/v1`.
pub(super) fn cells(obj: &Object, now: Timestamp, cells: &mut Cells<'_>) {
    let form = Form {
        object: "regarding",
        message: "note",
        source: "deprecatedSource",
        controller: "reportingController",
        first: "deprecatedFirstTimestamp",
        last: "deprecatedLastTimestamp",
        count: "deprecatedCount",
    };
    form.fill(obj, now, cells);
}

impl Form {
    fn fill(&self, obj: &Object, now: Timestamp, cells: &mut Cells<'_>) {
        let time = |member| age::parse(obj.text(member));
        let first = time(self.first).or_else(|| time("eventTime"));
        let mut last = time(self.last).or(first);
        let mut count = obj.int(self.count).filter(|count| *count != 0).unwrap_or(1);
        let series = obj.at("series");
        if series.is_object() {
            last = age::parse(series.text("lastObservedTime"));
            count = series.int("count").unwrap_or(0);
        }
        let object = obj.at(self.object);
        cells.text(Age::of(last, now));
        cells.text(obj.text("type"));
        cells.text(obj.text("reason"));
        let kind = object.text("kind").to_lowercase();
        match object.text("name") {
            "" => cells.text(kind),
            name => cells.text(format_args!("{kind}/{name}")),
        }
        cells.text(object.text("fieldPath"));
        let source = obj.at(self.source);
        let first_of = |a, b| if str::is_empty(a) { b } else { a };
        let component = first_of(source.text("component"), obj.text(self.controller));
        match first_of(source.text("host"), obj.text("reportingInstance")) {
            "" => cells.text(component),
            instance => cells.text(format_args!("{component}, {instance}")),
        }
        cells.text(obj.text(self.message).trim());
        cells.text(Age::of(first, now));
        cells.literal(count);
        cells.text(name(obj));
    }
}
