use super::super::pod::fixture::{run_creates, run_updates};
use super::*;

#[test]
fn creates_are_answered_as_the_real_server_answers_them() {
    let cases = include_str!("../fixtures/persistent_volume_claim.json");
    run_creates(&PersistentVolumeClaim, cases, |claim, _| {
        protect(claim);
        Ok(())
    });
}

/// Upstream runs this plugin after validation; of the recorded cases only one gets that far.
#[test]
fn updates_are_answered_as_the_real_server_answers_them() {
    let cases = include_str!("../fixtures/persistent_volume_claim_update.json");
    run_updates(&PersistentVolumeClaim, cases, |new, old| {
        match admit_resize(new, old, |_| false) {
            Err(ResizeRefusal::NotExpandable) => Err(ResizeRefusal::NotExpandable.to_string()),
            _ => Ok(()),
        }
    });
}

#[test]
fn growing() {
    let claim = |size: &str, phase: &str| {
        let claim = json!({
            "spec": {"storageClassName": "c", "resources": {"requests": {"storage": size}}},
            "status": {"phase": phase},
        });
        claim.as_object().cloned().unwrap_or_default()
    };
    let (small, large) = (claim("1Gi", "Bound"), claim("2Gi", "Bound"));
    assert_eq!(admit_resize(&large, &small, |class| class == "c"), Ok(()));
    assert_eq!(admit_resize(&small, &large, |_| false), Ok(()));
    assert_eq!(admit_resize(&large, &small, |_| false), Err(ResizeRefusal::NotExpandable));
    let pending = claim("1Gi", "Pending");
    assert_eq!(admit_resize(&large, &pending, |_| true), Err(ResizeRefusal::NotBound));
}
