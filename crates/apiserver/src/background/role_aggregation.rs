//! ClusterRoles that gather the rules of others by label are kept up to date.

use std::sync::Arc;

use serde_json::Value;

use crate::engine::Shared;
use crate::internal::{self, Edit, FieldManager};
use crate::status::ApiError;

use super::Backoff;

const FIELD_MANAGER: FieldManager =
    FieldManager { manager: "clusterrole-aggregation-controller", subresource: "" };

pub(super) async fn run(engine: Arc<Shared>) {
    let registry = engine.registry();
    let Some(roles) = registry.resource(sojourn_rbac::API_GROUP, "clusterroles") else { return };
    let mut changes = roles.table.subscribe();
    let mut backoff = Backoff::new();
    loop {
        changes.mark_unchanged();
        match reconcile(&engine, &roles).await {
            Ok(()) => backoff.reset(),
            Err(error) => {
                tracing::warn!(message = error.message, "cannot aggregate cluster roles");
                backoff.wait().await;
                continue;
            }
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

async fn reconcile(
    engine: &Arc<Shared>,
    roles: &Arc<crate::registry::Resource>,
) -> Result<(), ApiError> {
    let stale: Vec<(String, Value)> = {
        let access = engine.access.current();
        let mut names: Vec<String> = access.policy.aggregating_roles().map(str::to_owned).collect();
        // By name: the order of writes may not depend on chance.
        names.sort_unstable();
        names
            .into_iter()
            .filter_map(|name| {
                let rules = access.policy.stale_aggregation(&name).ok().flatten()?;
                Some((name, serde_json::to_value(rules).ok()?))
            })
            .collect()
    };
    for (name, rules) in stale {
        internal::edit(engine, roles, &name, FIELD_MANAGER, |role| {
            role.insert("rules".to_owned(), rules.clone());
            Edit::Put
        })
        .await?;
    }
    Ok(())
}
