//! `sojourn plan`, `why`, `rotate`, `freeze` and `drain`, as people use them.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::good;
use crate::fixture::{Engine, Fixture};
use crate::fleet::Fleet;
use crate::process::Ended;
use crate::wait::{eventually, never};

struct Person<'a> {
    stage: &'a Fixture,
    fleet: &'a Fleet,
}

impl Person<'_> {
    fn asks(&self, words: &[&str]) -> Ended {
        self.stage.sojourn(&self.fleet.namespace, words)
    }

    fn plan(&self) -> Vec<Value> {
        let printed = good(self.asks(&["plan", "group/web", "--output", "json"]));
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{printed}: {error}"))
    }
}

fn planned(plan: &[Value]) -> BTreeSet<String> {
    let object = |row: &Value| row["object"].as_str().expect("an object").to_owned();
    plan.iter().map(object).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_commands_say_and_do_what_they_should() {
    let Some(stage) = Fixture::start(Engine::Embedded, &json!({})).await else { return };
    let Some(fleet) = Fleet::on(&stage, "web").await else { return };
    let person = Person { stage: &stage, fleet: &fleet };
    let expiry = json!({"eligibleAge": "20d", "forcedAge": "30d"});
    fleet.apply(&json!({"size": 2, "drainTimeout": "2s", "expiry": expiry})).await;
    let first = fleet.until_whole(2).await;
    let of_first: BTreeSet<String> = first.iter().map(|name| format!("machine/{name}")).collect();
    let plan = person.plan();
    assert!(planned(&plan[..2]) == of_first, "both, one after the other: {plan:#?}");
    assert!(plan[..2].iter().all(|row| row["action"] == "Replace"), "{plan:#?}");

    // Frozen, it only takes note of what is asked.
    let said = person.asks(&["freeze", "group/web", "--until", "1h"]).stderr;
    assert!(said.contains("group/web begins no rotation before 20"), "{said}");
    let said = person.asks(&["rotate", "group/web"]).stderr;
    assert!(said.contains("The machines that group/web has now (2) are to be replaced."), "{said}");
    assert!(said.contains("it is frozen until 20"), "{said}");
    eventually("it is frozen", async || {
        let status = fleet.status().await?;
        let mut frozen = status.conditions.iter().filter(|one| one.type_ == "Frozen");
        frozen.any(|one| one.status == "True").then_some(())
    })
    .await;
    never(Duration::from_secs(2), "a rotation begins", async || {
        fleet.status().await.is_none_or(|status| !status.rotations.is_empty())
    })
    .await;
    let why = good(person.asks(&["why", "group/web"]));
    assert!(why.contains("frozen until 20"), "{why}");

    // Not frozen, it does it.
    let said = person.asks(&["freeze", "group/web", "--lift"]).stderr;
    assert!(said.contains("group/web is not frozen."), "{said}");
    let drain = fleet.until_drains(&BTreeSet::new()).await;
    assert_eq!(drain.reason, "Manual");
    for machine in &first {
        fleet.until_gone(machine).await;
    }
    let second = fleet.until_whole(2).await;
    assert!(second.is_disjoint(&first), "{second:?}, {first:?}");

    // One by itself: followed until it is drained.
    let machine = second.first().expect("two machines");
    let named = format!("machine/{machine}");
    let why = good(person.asks(&["why", &named]));
    assert!(why.starts_with(&format!("{named} is Ready")), "{why}");
    let followed = person.asks(&["drain", &named]);
    assert_eq!(followed.code, Some(0), "{}", followed.stderr);
    let steps = [format!("{named} is being drained until 20"), format!("{named} is drained.")];
    for step in &steps {
        assert!(followed.stderr.contains(step.as_str()), "{step} in {}", followed.stderr);
    }
    fleet.until_gone(machine).await;
    let third = fleet.until_whole(2).await;
    assert_eq!(third.intersection(&second).count(), 1, "{third:?}, {second:?}");
    stage.stop();
}
