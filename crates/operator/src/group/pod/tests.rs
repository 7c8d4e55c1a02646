use super::*;

fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "none"}]},
    })
}

#[test]
fn a_template_that_makes_no_pod_is_refused_with_words() {
    assert_eq!(problems(&template()), [""; 0]);
    for (change, words) in [
        (json!({"spec": null}), "spec is needed"),
        (json!({"spec": {"containers": []}}), "spec.containers needs an item"),
        (json!({"spec": {"containers": "web"}}), "is no Pod template"),
        (json!({"metadata": {"name": "web"}}), "metadata.name must be left out"),
        (json!({"metadata": {"finalizers": ["a/b"]}}), "metadata.finalizers must be left out"),
    ] {
        let mut bad = template();
        for (name, value) in change.as_object().expect("an object") {
            bad[name] = value.clone();
        }
        let found = problems(&bad).join("; ");
        assert!(found.contains(words), "{found}");
    }
}

#[test]
fn a_pod_carries_whose_machine_it_is() {
    let request = CreateRequest {
        key: Key::new("team", "web-1"),
        uid: "u-1".to_owned(),
        group: Some("web".to_owned()),
        config: template(),
    };
    let pod = pod_of(&request).expect("a Pod");
    assert_eq!(owner_of(&pod).as_deref(), Some("u-1"));
    assert_eq!(pod.name_any(), "web-1");
    let label = |name: &str| pod.labels().get(name).map(String::as_str);
    assert_eq!(
        (label("app"), label(GROUP), label(MACHINE)),
        (Some("web"), Some("web"), Some("web-1"))
    );
    let mut forged = pod.clone();
    forged.metadata.owner_references = None;
    assert_eq!(PodView::of(&forged).owner, None, "labels make nobody a machine");
}

#[test]
fn the_phase_of_a_pod_is_the_power_of_its_machine() {
    let view = |status: Value, leaving: bool| {
        let pod = json!({
            "metadata": {"name": "web-1",
                         "deletionTimestamp": leaving.then_some("2026-11-16T04:00:00Z")},
            "status": status,
        });
        let view = PodView::of(&serde_json::from_value(pod).expect("a Pod"));
        (view.power, view.ready)
    };
    let ready = json!([{"type": "Ready", "status": "True"}]);
    assert_eq!(view(json!({}), false), (Power::Pending, false));
    let running = json!({"phase": "Running", "conditions": ready});
    assert_eq!(view(running.clone(), false), (Power::Running, true));
    assert_eq!(view(running, true), (Power::Deleting, true));
    assert_eq!(view(json!({"phase": "Failed"}), false), (Power::Stopped, false));
    assert_eq!(view(json!({"phase": "Succeeded"}), false), (Power::Stopped, false));
}
