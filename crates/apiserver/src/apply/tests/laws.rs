//! What holds for any objects whatever.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::super::*;
use super::shapes::Kind;

const NOW: &str = "2024-05-06T07:08:09Z";
const LATER: &str = "2024-05-06T07:08:10Z";

fn request<'a>(kind: &'a Kind, manager: &'a str, now: &str) -> Request<'a> {
    Request {
        shapes: &kind.shapes,
        root: kind.root,
        api_version: kind.api_version,
        kind: kind.name,
        served: &kind.served,
        manager,
        subresource: "",
        now: now.parse().unwrap(),
        reset_fields: &["status"],
    }
}

fn any_scalar() -> impl Strategy<Value = Value> {
    prop_oneof![(0..3i64).prop_map(Value::from), "[a-c]".prop_map(Value::from)]
}

fn any_json() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec!["a", "b", "port", "name", "spec", "metadata", "labels"]);
    prop_oneof![any_scalar(), Just(Value::Null)].prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map(names.clone(), inner, 0..4).prop_map(object),
        ]
    })
}

fn object(members: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>().into()
}

fn any_map() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(prop::sample::select(vec!["a", "b", "c"]), any_scalar(), 0..3)
        .prop_map(object)
}

/// A valid configuration of a widget.
fn any_widget() -> impl Strategy<Value = Value> {
    let ports =
        prop::collection::btree_map((1..4i64, "TCP|UDP"), any_map(), 0..4).prop_map(|ports| {
            ports
                .into_iter()
                .map(|((port, protocol), extra)| {
                    let mut item = json!({"port": port, "protocol": protocol});
                    if let Some(name) = extra.get("a") {
                        item["name"] = name.clone();
                    }
                    item
                })
                .collect::<Value>()
        });
    let tags = prop::collection::btree_set("[a-e]", 0..4).prop_shuffle_set();
    let fields = (
        prop::option::of(any_scalar()),
        prop::option::of(ports),
        prop::option::of(tags),
        prop::option::of(any_map()),
        prop::option::of(any_map()),
        prop::option::of(any_json()),
    );
    fields.prop_map(|(replicas, ports, tags, config, labels, free)| {
        let spec = [
            ("replicas", replicas),
            ("ports", ports),
            ("tags", tags),
            ("config", config),
            ("labels", labels),
            ("free", free),
        ];
        let spec = object(spec.into_iter().filter_map(|(name, value)| Some((name, value?))));
        json!({
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "metadata": {"name": "w", "uid": "u"},
            "spec": spec,
        })
    })
}

/// Sets in any order, since the order of a list is part of the configuration.
trait ShuffleSet {
    fn prop_shuffle_set(self) -> BoxedStrategy<Value>;
}

impl<S: Strategy<Value = std::collections::BTreeSet<String>> + 'static> ShuffleSet for S {
    fn prop_shuffle_set(self) -> BoxedStrategy<Value> {
        self.prop_map(|set| set.into_iter().collect::<Vec<_>>())
            .prop_shuffle()
            .prop_map(|items| json!(items))
            .boxed()
    }
}

proptest! {
    #[test]
    fn applying_again_changes_nothing(live in any_widget(), config in any_widget()) {
        let kind = Kind::named("Widget");
        let mut live = live;
        update(&request(&kind, "creator", NOW), None, &mut live).unwrap();
        let once = apply(&request(&kind, "one", NOW), Some(&live), &config, true).unwrap();
        let twice = apply(&request(&kind, "one", LATER), Some(&once), &config, false).unwrap();
        prop_assert_eq!(&twice, &once);
        prop_assert!(is_noop(once.as_object().unwrap(), twice.as_object().unwrap()));
    }

    #[test]
    fn what_was_applied_is_there(live in any_widget(), config in any_widget()) {
        // An empty struct is owned but leaves no trace beside empty lists.
        prop_assume!(config.at("spec") != &json!({}));
        let kind = Kind::named("Widget");
        let mut live = live;
        update(&request(&kind, "creator", NOW), None, &mut live).unwrap();
        let object = apply(&request(&kind, "one", NOW), Some(&live), &config, true).unwrap();
        let mut fields = owned::fields_of(&kind.shapes, kind.root, &config);
        owned::strip_unowned(&mut fields);
        let mut all = owned::fields_of(&kind.shapes, kind.root, &object);
        owned::include_structs(&kind.shapes, kind.root, &mut all);
        prop_assert_eq!(&fields.intersection(&all), &fields);
        // And nobody else claims what was taken.
        let entries = Entries::from_storage(object.at("metadata").at("managedFields").clone()).unwrap();
        let own = entries.iter().find(|entry| entry.manager() == "one");
        prop_assert_eq!(own.map(|own| own.fields.clone()).unwrap_or_default(), fields);
    }

    #[test]
    fn withdrawing_leaves_only_what_others_own(live in any_widget(), config in any_widget()) {
        let kind = Kind::named("Widget");
        let mut live = live;
        update(&request(&kind, "creator", NOW), None, &mut live).unwrap();
        let applied = apply(&request(&kind, "one", NOW), Some(&live), &config, true).unwrap();
        let nothing = json!({"apiVersion": "example.com/v1", "kind": "Widget"});
        let withdrawn = apply(&request(&kind, "one", NOW), Some(&applied), &nothing, false).unwrap();
        let entries = Entries::from_storage(withdrawn.at("metadata").at("managedFields").clone()).unwrap();
        prop_assert!(entries.iter().all(|entry| entry.manager() != "one"));
    }

    #[test]
    fn merging_again_changes_nothing(live in any_widget(), config in any_widget()) {
        let kind = Kind::named("Widget");
        let mut once = live;
        merge::merge(&kind.shapes, kind.root, &mut once, &config).unwrap();
        let mut twice = once.clone();
        merge::merge(&kind.shapes, kind.root, &mut twice, &config).unwrap();
        prop_assert_eq!(twice, once);
    }

    #[test]
    fn garbage_never_panics(live in any_json(), config in any_json(), fields in any_json()) {
        let kind = Kind::named("Widget");
        let request = request(&kind, "one", NOW);
        let _ = apply(&request, Some(&live), &config, true);
        let mut spec = json!({
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "metadata": {"uid": "u", "managedFields": [{
                "manager": "m", "operation": "Apply", "apiVersion": "example.com/v1",
                "fieldsType": "FieldsV1", "fieldsV1": fields,
            }]},
            "spec": {"ports": live, "tags": config, "nested": fields, "free": live},
        });
        let old = spec.clone();
        let _ = update(&request, Some(&live), &mut spec);
        let _ = update(&request, Some(&old), &mut spec);
        spec["metadata"] = json!({});
        let _ = apply(&request, Some(&old), &spec, false);
    }
}
