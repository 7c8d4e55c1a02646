use super::super::pod::fixture::{run_creates, run_updates};
use super::*;

#[test]
fn creates_are_answered_as_the_real_server_answers_them() {
    run_creates(&Job, include_str!("../fixtures/job.json"), |_, _| Ok(()));
}

#[test]
fn updates_are_answered_as_the_real_server_answers_them() {
    run_updates(&Job, include_str!("../fixtures/job_update.json"), |_, _| Ok(()));
}

#[test]
fn a_job_with_labels_keeps_just_those() {
    let job = json!({
        "metadata": {"name": "j", "labels": {"app": "x"}},
        "spec": {"template": {"metadata": {"labels": {"app": "x"}}}},
    });
    let mut job = job.as_object().cloned().unwrap_or_default();
    generate_selector(&mut job, "u");
    assert_eq!(job["metadata"]["labels"], json!({"app": "x"}));
    assert_eq!(job["spec"]["selector"], json!({"matchLabels": {CONTROLLER_UID: "u"}}));
    assert_eq!(
        job["spec"]["template"]["metadata"]["labels"],
        json!({
            "app": "x", "job-name": "j", "controller-uid": "u", JOB_NAME: "j", CONTROLLER_UID: "u",
        })
    );
}

#[test]
fn successes_can_be_selected_by() {
    let job = json!({"status": {"succeeded": 2}});
    let job = job.as_object().cloned().unwrap_or_default();
    assert_eq!(Job.selectable_field(&job, "status.successful"), "2");
    assert_eq!(Job.selectable_field(&Object::new(), "status.successful"), "0");
}
