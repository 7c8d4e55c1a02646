//! What is checked when something has changed, and at the end.

use std::time::Duration;

use super::*;

/// Time as the machines have it.
fn long(span: SignedDuration) -> Duration {
    Duration::try_from(span).unwrap_or_default()
}

impl ClusterChecker {
    /// What a cluster says of itself, when that has changed.
    pub(super) fn check_conditions(
        &mut self,
        name: &str,
        cluster: &ClusterDeployment,
        asleep: bool,
        awake: bool,
    ) {
        if is_true(cluster, condition::HIBERNATING) && is_true(cluster, condition::READY) {
            self.violated(Invariant::NeverBoth, name, "it is ready and hibernates".to_owned());
        }
        let meddled = self.fleet.moved_by_others(&cluster.spec.infra_id);
        let unseen = meddled.is_some_and(|at| at.elapsed() <= long(UNSEEN_FOR))
            || self.lately(self.forgotten.get(name), UNSEEN_FOR);
        if !(asleep || awake) || unseen {
            return;
        }
        let is = if asleep { "it hibernates" } else { "it is ready" };
        let wrong = self.machines_but(cluster, asleep);
        if !wrong.is_empty() {
            let message = format!("{is}, and of its machines {wrong:?}");
            self.violated(Invariant::SaysWhatIs, name, message);
        }
        let opposite = if asleep { Move::Start } else { Move::Stop };
        let late = self.fleet.late(&cluster.spec.infra_id, opposite);
        if !late.is_empty() {
            let message = format!("{is}, and a {opposite:?} of {late:?} is in flight");
            self.violated(Invariant::SaysWhatIs, name, message);
        }
    }

    /// The machines of a cluster that are not as they should be, if it sleeps or does not.
    fn machines_but(
        &self,
        cluster: &ClusterDeployment,
        asleep: bool,
    ) -> BTreeMap<String, MachineState> {
        let wanted = if asleep { MachineState::Stopped } else { MachineState::Running };
        let mut machines = self.machines(cluster);
        machines.retain(|_, state| *state != wanted);
        machines
    }

    /// The power state of a spec is another.
    pub(super) fn check_power_write(
        &mut self,
        name: &str,
        before: &ClusterDeployment,
        cluster: &ClusterDeployment,
    ) {
        let sleeps = is_to_hibernate(cluster);
        let to = if sleeps { "hibernate" } else { "run" };
        if !is_written_by_operator(cluster) {
            return self.log.note(format!("{name} is to {to}, as somebody says"));
        }
        self.by_itself += 1;
        let trigger = status(before).power_write.and_then(|write| write.trigger);
        self.log.note(format!("{name} is to {to} by itself, for {trigger:?}"));
        let spec = &before.spec;
        let rolls_back = spec.on_timeout == sojourn_api::cluster::deployment::OnTimeout::RollBack;
        let allowed = match trigger {
            Some(Trigger::RollBack) => rolls_back,
            Some(Trigger::Timer) => sleeps && spec.hibernate_after.is_some(),
            Some(Trigger::Schedule) => spec
                .schedule
                .iter()
                .any(|line| if sleeps { line.hibernate.is_some() } else { line.resume.is_some() }),
            _ => false,
        };
        if !allowed {
            let message = format!("it is to {to}, for {trigger:?}");
            self.violated(Invariant::OwnersWill, name, message);
        }
        if !sleeps || trigger == Some(Trigger::RollBack) {
            return;
        }
        let now = self.log.now();
        let kept = status(before).keep.and_then(|keep| keep.until);
        if let Some(until) = kept.map(|until| until.0).filter(|until| *until > now) {
            let message = format!("it is to hibernate, and is kept until {until}");
            self.violated(Invariant::Kept, name, message);
        }
        if !spec.contacts.is_empty() {
            self.check_told(name);
        }
    }

    fn check_told(&mut self, name: &str) {
        let now = self.log.now();
        let Some(told) = self.told(name) else {
            let message = "it is to hibernate, and nobody was told".to_owned();
            return self.violated(Invariant::ToldBefore, name, message);
        };
        let deadline = told.notice.facts.deadline.unwrap_or(Timestamp::MAX);
        if now < deadline {
            let message = format!("it is to hibernate, and they were told {deadline}");
            self.violated(Invariant::ToldBefore, name, message);
        }
        if now.duration_since(told.at) < ANNOUNCED {
            let message = format!("it is to hibernate, and they were told at {}", told.at);
            self.violated(Invariant::ToldBefore, name, message);
        }
    }

    /// Nothing fails any more, and nothing happened for a while: everything is as it is wanted.
    ///
    /// `machines` is how many machines each cluster ever had.
    pub fn check_end(&mut self, machines: &BTreeMap<&str, usize>) {
        let mut wrong = Vec::new();
        for (name, count) in machines {
            let Some(cluster) = self.clusters.get(*name) else {
                wrong.push(((*name).to_owned(), "there is none".to_owned()));
                continue;
            };
            let asleep = is_to_hibernate(cluster);
            let wanted = if asleep { PowerState::Hibernating } else { PowerState::Running };
            if power_state(cluster) != Some(wanted) {
                let is = power_state(cluster);
                wrong.push(((*name).to_owned(), format!("it is {is:?}, and is to be {wanted:?}")));
            }
            let found = self.machines(cluster);
            // A Pod that is stopped is gone.
            let expected = if asleep && is_of_pods(cluster) { 0 } else { *count };
            let others = self.machines_but(cluster, asleep);
            if found.len() != expected || !others.is_empty() {
                wrong.push((
                    (*name).to_owned(),
                    format!("it is to be {wanted:?}, with {expected} machines: {found:?}"),
                ));
            }
        }
        for (name, message) in wrong {
            self.violated(Invariant::Converges, &name, message);
        }
    }

    /// A timer that has run out has done what it should, so long after.
    pub fn check_timers(&mut self, span: SignedDuration, late: SignedDuration) {
        let now = self.log.now();
        let mut found = Vec::new();
        for (name, cluster) in &self.clusters {
            let status = status(cluster);
            let kept = status.keep.and_then(|keep| keep.until).map(|until| until.0);
            let since = status.running_since.map(|since| since.0).max(kept);
            let timer = cluster.spec.hibernate_after.is_some();
            if let Some(since) = since.filter(|_| timer && is_true(cluster, condition::READY))
                && now.duration_since(since) > span + late
            {
                found.push((name.clone(), format!("it runs since {since}, with a timer")));
            }
        }
        for (name, message) in found {
            self.violated(Invariant::Converges, &name, message);
        }
    }

    /// The version of everything that there is.
    pub fn versions(&self) -> BTreeMap<String, String> {
        let clusters = self.clusters.values().map(|one| ("cluster", &one.metadata));
        let pods = self.pods.values().map(|one| ("pod", &one.metadata));
        let all = clusters.chain(pods);
        all.map(|(kind, meta)| {
            let name = meta.name.clone().unwrap_or_default();
            (format!("{kind} {name}"), meta.resource_version.clone().unwrap_or_default())
        })
        .collect()
    }

    /// Nothing was written meanwhile.
    pub fn check_same_versions(&mut self, before: &BTreeMap<String, String>, while_what: &str) {
        let now = self.versions();
        let changed: Vec<&String> = now
            .iter()
            .filter(|(name, version)| before.get(*name) != Some(version))
            .map(|(name, _)| name)
            .chain(before.keys().filter(|name| !now.contains_key(*name)))
            .collect();
        if !changed.is_empty() {
            let message = format!("{while_what} changed {changed:?}");
            self.violated(Invariant::Rest, "", message);
        }
    }
}
