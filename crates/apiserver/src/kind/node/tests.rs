use super::super::pod::fixture::{run_creates, run_updates};
use super::*;

#[test]
fn creates_are_answered_as_the_real_server_answers_them() {
    run_creates(&Node, include_str!("../fixtures/node.json"), |node, _| {
        taint_not_ready(node);
        Ok(())
    });
}

#[test]
fn updates_are_answered_as_the_real_server_answers_them() {
    run_updates(&Node, include_str!("../fixtures/node_update.json"), |_, _| Ok(()));
}

#[test]
fn cordoned_nodes_can_be_selected() {
    let node = json!({"spec": {"unschedulable": true}});
    let node = node.as_object().cloned().unwrap_or_default();
    assert_eq!(Node.selectable_field(&node, "spec.unschedulable"), "true");
    assert_eq!(Node.selectable_field(&Object::new(), "spec.unschedulable"), "false");
}
