//! Pods are asked to go, for as long as there is time.

use serde_json::json;
use sojourn_api::group::status::DrainOutcome::{Done, Progress};

use crate::cluster::Budget;
use crate::fixture::Fixture;

// case: group K24
#[tokio::test(start_paused = true)]
async fn a_node_is_cordoned_emptied_and_answered_for() {
    let fixture = Fixture::new().await;
    fixture.machine("shop", "web-1", Some("cloud://1")).await;
    fixture.node("ip-10-0-0-1", json!({"providerID": "cloud://1"})).await;
    fixture.node("other", json!({"providerID": "cloud://2"})).await;
    for (pod, node) in [("a", "ip-10-0-0-1"), ("b", "ip-10-0-0-1"), ("c", "other")] {
        fixture.pod(pod, node, json!({})).await;
    }
    let agent = fixture.agent().await;
    fixture.pass(60).await;
    assert_eq!(fixture.marks("ip-10-0-0-1").await, (false, false, 0), "nobody asked for anything");
    let rest = agent.reconciles.total();
    fixture.drain("shop", "web-1", "d1", 360).await;
    let (second, words) = fixture.until("shop", "web-1", Done).await;
    assert!((65..70).contains(&second), "{second}");
    assert_eq!(words, "All Pods are gone, and no volume is attached.");
    assert_eq!(fixture.marks("ip-10-0-0-1").await, (true, true, 4));
    assert_eq!(fixture.marks("other").await, (false, false, 0));
    assert!(fixture.get_pod("a").await.is_none() && fixture.get_pod("c").await.is_some());
    assert_eq!(fixture.events("Drained").await.len(), 1);
    let reply = fixture.reply("shop", "web-1").await.expect("an answer");
    assert_eq!(reply.id, "d1");
    fixture.pass(3600).await;
    let looks = agent.reconciles.total() - rest;
    assert!(looks < 30, "{looks} looks for one drain");
    agent.kill().await;
}

// case: group 70, K14
#[tokio::test(start_paused = true)]
async fn h8_a_budget_that_refuses_is_asked_again_until_it_allows() {
    let fixture = Fixture::new().await;
    fixture.machine("shop", "web-1", None).await;
    fixture.node("web-1", json!({})).await;
    fixture.pod("a", "web-1", json!({})).await;
    fixture.cluster.refuse("a", Some(Budget::Spent));
    let agent = fixture.agent().await;
    fixture.drain("shop", "web-1", "d1", 300).await;
    let (_, words) = fixture.until("shop", "web-1", Progress).await;
    assert!(
        words.starts_with("The Node is being cordoned") || words.contains("default/a"),
        "{words}"
    );
    fixture.pass(120).await;
    let reply = fixture.reply("shop", "web-1").await.expect("an answer");
    let budget = "The disruption budget web needs 1 healthy pods and has 1 currently";
    assert_eq!(reply.message, format!("Waits for 1 Pod: default/a ({budget})."));
    let refused = fixture.cluster.asked("a");
    assert!(refused.len() >= 12, "{} times in two minutes", refused.len());
    assert!(refused.iter().all(|asked| asked.code == 429), "{refused:?}");
    assert!(
        fixture.get_pod("a").await.is_some_and(|pod| pod.metadata.deletion_timestamp.is_none())
    );
    let told = fixture.events("EvictionRefused").await;
    assert_eq!(told.len(), 1, "said once: {told:?}");
    assert!(told[0].0 == "a" && told[0].1.contains(budget), "{told:?}");
    fixture.cluster.refuse("a", None);
    let (second, _) = fixture.until("shop", "web-1", Done).await;
    assert!((120..135).contains(&second), "{second}");
    assert_eq!(fixture.cluster.asked("a").last().map(|asked| asked.code), Some(201));
    agent.kill().await;
}

// case: group K14
#[tokio::test(start_paused = true)]
async fn a_pod_under_two_budgets_is_told_of_and_goes_at_its_last_call() {
    let fixture = Fixture::new().await;
    fixture.machine("shop", "web-1", None).await;
    fixture.node("web-1", json!({})).await;
    fixture.pod("a", "web-1", json!({})).await;
    fixture.cluster.refuse("a", Some(Budget::Two));
    let agent = fixture.agent().await;
    fixture.drain("shop", "web-1", "d1", 120).await;
    let (second, _) = fixture.until("shop", "web-1", Done).await;
    assert!((90..95).contains(&second), "{second}");
    let asked = fixture.cluster.asked("a");
    assert!(asked.len() > 8 && asked.iter().all(|asked| asked.code == 500), "{asked:?}");
    let told = fixture.events("EvictionRefused").await;
    assert!(told[0].1.contains("more than one PodDisruptionBudget"), "{told:?}");
    agent.kill().await;
}

// case: group K15
#[tokio::test(start_paused = true)]
async fn another_pod_with_the_same_name_is_not_evicted() {
    let fixture = Fixture::new().await;
    fixture.machine("shop", "web-1", None).await;
    fixture.node("web-1", json!({})).await;
    fixture.pod("a", "web-1", json!({})).await;
    fixture.cluster.replace_before_eviction("a");
    let agent = fixture.agent().await;
    fixture.drain("shop", "web-1", "d1", 300).await;
    fixture.until("shop", "web-1", Done).await;
    let asked: Vec<u16> = fixture.cluster.asked("a").iter().map(|asked| asked.code).collect();
    assert_eq!(asked, [409], "it carried the uid of the first");
    let another = fixture.get_pod("a").await.expect("the second is there");
    assert!(another.metadata.deletion_timestamp.is_none());
    agent.kill().await;
}

// case: group 71
#[tokio::test(start_paused = true)]
async fn a_drain_that_is_held_up_holds_up_no_other() {
    let fixture = Fixture::new().await;
    for n in 0..8 {
        let name = format!("web-{n}");
        fixture.machine("shop", &name, None).await;
        fixture.node(&name, json!({})).await;
        fixture.pod(&format!("pod-{n}"), &name, json!({})).await;
        fixture.drain("shop", &name, &format!("d{n}"), 600).await;
    }
    for n in 0..4 {
        fixture.cluster.refuse(&format!("pod-{n}"), Some(Budget::Spent));
    }
    // It comes late, and sees them all.
    fixture.pass(30).await;
    let agent = fixture.agent().await;
    for n in 4..8 {
        let (second, _) = fixture.until("shop", &format!("web-{n}"), Done).await;
        assert!(second < 45, "web-{n} at {second}");
    }
    for n in 0..4 {
        let (second, _) = fixture.until("shop", &format!("web-{n}"), Done).await;
        assert!((570..580).contains(&second), "web-{n} at {second}");
    }
    agent.kill().await;
}

#[tokio::test(start_paused = true)]
async fn progress_is_told_now_and_then_and_only_if_it_is_news() {
    let fixture = Fixture::new().await;
    fixture.machine("shop", "web-1", None).await;
    fixture.node("web-1", json!({})).await;
    for n in 0..5 {
        fixture.pod(&format!("pod-{n}"), "web-1", json!({})).await;
        fixture.cluster.refuse(&format!("pod-{n}"), Some(Budget::Spent));
    }
    let agent = fixture.agent().await;
    fixture.drain("shop", "web-1", "d1", 600).await;
    let mut told = Vec::new();
    for second in 0..300 {
        if second % 3 == 0 && second < 15 {
            fixture.cluster.refuse(&format!("pod-{}", second / 3), None);
        }
        fixture.pass(1).await;
        let reply = fixture.reply("shop", "web-1").await;
        if told.last().map(|(_, reply)| reply) != Some(&reply) {
            told.push((second, reply));
        }
    }
    let times: Vec<i32> = told.iter().map(|(second, _)| *second).collect();
    let progress = told.iter().filter_map(|(second, reply)| {
        reply.as_ref().filter(|reply| reply.outcome == Progress).map(|_| *second)
    });
    let progress: Vec<i32> = progress.collect();
    assert!(progress.windows(2).all(|pair| pair[1] - pair[0] >= 9), "{times:?}");
    assert_eq!(told.last().and_then(|(_, reply)| reply.clone()).map(|it| it.outcome), Some(Done));
    agent.kill().await;
}
