//! A trial finds nothing wrong with the example, and finds what is wrong with others.

use std::time::Duration;

use serde_json::json;
use sojourn_drivers::actuator::Account;
use sojourn_drivers::exec::Program;
use sojourn_drivers::exec::trial::{Finding, Outcome, Settings, run};

use crate::fixture::{Folder, limits};

fn settings() -> Settings {
    Settings {
        config: Some(json!({"folder": "trial", "bootSeconds": 0.2})),
        infra_id: Some("c-1".to_owned()),
        account: Account::default(),
        uid: "trial-7".to_owned(),
        patience: Duration::from_secs(30),
        limits: limits(),
    }
}

async fn try_it(folder: &Folder, name: &str, settings: &Settings) -> Vec<Finding> {
    for number in 0..2 {
        let record = json!({"infraID": "c-1", "state": "Running"});
        folder.put(&format!("c/c-1-{number}"), &record);
    }
    let program = Program::at(&folder.program(name)).expect("it may be run");
    let mut told = 0;
    let findings = run(program, settings, |_| told += 1).await;
    assert_eq!(told, findings.len());
    findings
}

fn failures(findings: &[Finding]) -> Vec<(&'static str, &str)> {
    let failed = |finding: &'_ Finding| match &finding.outcome {
        Outcome::Failed(_) => true,
        Outcome::Passed | Outcome::LeftOut(_) => false,
    };
    let failed = findings.iter().filter(|finding| failed(finding));
    failed
        .map(|finding| match &finding.outcome {
            Outcome::Failed(why) => (finding.check, why.as_str()),
            Outcome::Passed | Outcome::LeftOut(_) => (finding.check, ""),
        })
        .collect()
}

#[tokio::test]
async fn the_example_passes() {
    let Some(folder) = Folder::with_example() else { return };
    let findings = try_it(&folder, "folder", &settings()).await;
    assert!(findings.iter().all(|one| one.outcome == Outcome::Passed), "{findings:#?}");
    assert!(findings.len() > 12, "{findings:#?}");
    // What was there before is there still, and nothing else.
    assert_eq!(folder.machines().len(), 2);
}

#[tokio::test]
async fn nothing_is_made_or_touched_unless_that_is_allowed() {
    let Some(folder) = Folder::with_example() else { return };
    let careful = Settings { config: None, infra_id: None, ..settings() };
    let findings = try_it(&folder, "folder", &careful).await;
    assert!(failures(&findings).is_empty(), "{findings:#?}");
    let left_out = |finding: &&Finding| matches!(finding.outcome, Outcome::LeftOut(_));
    assert_eq!(findings.iter().filter(left_out).count(), 2, "{findings:#?}");
    assert_eq!(folder.machines().len(), 2);
}

#[tokio::test]
async fn what_a_program_does_wrong_is_found() {
    for (change, check, words) in [
        (
            "n = iter(range(99))\nmade = example.create\n\
             def create(request):\n    request = dict(request, uid=f\"{request['uid']}-{next(n)}\")\n    \
             return made(request)\n\
             example.create = create",
            "the same uid is the same machine",
            "its answers were",
        ),
        ("example.SCHEMA = {'format': 'x'}", "it says what it can do", "schema.format"),
        ("example.PROTOCOL = 2", "it says what it can do", "version 2"),
        (
            "example.Provider.tell = lambda self: None",
            "it tells that it runs",
            "no event said that",
        ),
        (
            "answered = example.Provider.answer\n\
             def answer(self, request):\n    found = answered(self, request)\n    \
             if request['op'] == 'list' and request.get('infraID'):\n        \
             request.pop('infraID')\n        return answered(self, request)\n    return found\n\
             example.Provider.answer = answer",
            "a cluster has its own machines",
            "and its infraID is none",
        ),
    ] {
        let Some(folder) = Folder::with_changed_example("wrong", change) else { return };
        folder.put("else/where", &json!({"state": "Running"}));
        let quick = Settings {
            patience: Duration::from_secs(2),
            limits: sojourn_drivers::exec::Limits {
                hello: Duration::from_secs(2),
                answer: Duration::from_secs(2),
                ..limits()
            },
            ..settings()
        };
        let findings = try_it(&folder, "wrong", &quick).await;
        let failures = failures(&findings);
        let found = failures.iter().find(|(failed, _)| *failed == check);
        assert!(found.is_some_and(|(_, why)| why.contains(words)), "{check}: {findings:#?}");
    }
}
