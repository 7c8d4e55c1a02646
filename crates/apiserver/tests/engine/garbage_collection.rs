//! Garbage collection where the order of events decides: every order must end the same.

use serde_json::{Value, json};
use sojourn_apiserver::Engine;

use crate::fixture::{admin, delete, get, open_on_virtual_time, patch, post, settle};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn owned_by(name: &str, uid: &Value, blocks: bool) -> Value {
    json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid,
        "blockOwnerDeletion": blocks,
    }])
}

async fn create(engine: &Engine, name: &str, owners: &Value) -> Value {
    let body = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": owners},
    });
    let created = post(&admin(engine), MAPS, &body).await.ok();
    created.body["metadata"]["uid"].clone()
}

async fn set_owners(engine: &Engine, name: &str, owners: &Value) {
    let body = json!({"metadata": {"ownerReferences": owners}});
    patch(&admin(engine), &format!("{MAPS}/{name}"), &body).await.ok();
}

async fn exists(engine: &Engine, name: &str) -> bool {
    get(&admin(engine), &format!("{MAPS}/{name}")).await.status.is_success()
}

async fn delete_in_foreground(engine: &Engine, name: &str) {
    let path = format!("{MAPS}/{name}?propagationPolicy=Foreground");
    delete(&admin(engine), &path).await.ok();
}

/// Two that own each other, deleted from either end, with the collector between the steps or after
/// all of them.
#[tokio::test(start_paused = true)]
async fn a_cycle_of_owners_is_removed_in_every_order() {
    for first in ["one", "two"] {
        for settled in [false, true] {
            let engine = open_on_virtual_time(1).await;
            let one = create(&engine, "one", &Value::Null).await;
            let two = create(&engine, "two", &owned_by("one", &one, true)).await;
            set_owners(&engine, "one", &owned_by("two", &two, true)).await;
            if settled {
                settle().await;
            }
            delete_in_foreground(&engine, first).await;
            settle().await;
            for name in ["one", "two"] {
                assert!(!exists(&engine, name).await, "{name} is left; {first}, {settled}");
            }
        }
    }
}

/// An owner waits for what blocks it, and goes as soon as it is let go in any of three ways.
#[tokio::test(start_paused = true)]
async fn an_owner_is_removed_when_its_last_dependent_stops_blocking() {
    for way in ["unblocks", "names another", "goes"] {
        let engine = open_on_virtual_time(1).await;
        let owner = create(&engine, "owner", &Value::Null).await;
        let other = create(&engine, "other", &Value::Null).await;
        create(&engine, "held", &owned_by("owner", &owner, true)).await;
        // A finalizer keeps the dependent, and with it the owner.
        let held = format!("{MAPS}/held");
        let finalizers = json!({"metadata": {"finalizers": ["example.com/hold"]}});
        patch(&admin(&engine), &held, &finalizers).await.ok();
        delete_in_foreground(&engine, "owner").await;
        settle().await;
        assert!(exists(&engine, "owner").await, "nothing held the owner");
        match way {
            "unblocks" => set_owners(&engine, "held", &owned_by("owner", &owner, false)).await,
            "names another" => {
                set_owners(&engine, "held", &owned_by("other", &other, true)).await;
            }
            _ => {
                let none = json!({"metadata": {"finalizers": null}});
                patch(&admin(&engine), &held, &none).await.ok();
            }
        }
        settle().await;
        assert!(!exists(&engine, "owner").await, "the owner is left when its dependent {way}");
    }
}
