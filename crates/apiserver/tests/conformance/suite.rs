//! All scenarios together: run side by side, then compared or recorded.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::compare::{Allowed, Report};
use crate::run::run;
use crate::scenario::{self, Topic};
use crate::target::Target;
use crate::transcript::{self, Records};

const MAX_CONCURRENT_SCENARIOS: usize = 8;

/// The scenarios to run.
#[derive(Debug)]
pub(crate) struct Suite {
    topics: Vec<Topic>,
    whole: bool,
}

/// What a target answered.
#[derive(Debug)]
pub(crate) struct Answers {
    topics: Vec<(String, Vec<Answered>)>,
    whole: bool,
}

#[derive(Debug)]
struct Answered {
    scenario: String,
    records: Records,
    problems: Vec<String>,
}

impl Suite {
    /// Those that `SOJOURN_SCENARIOS` selects.
    pub(crate) fn load() -> Self {
        let mut topics = scenario::load();
        let filter = std::env::var("SOJOURN_SCENARIOS").unwrap_or_default();
        for topic in &mut topics {
            if !topic.name.contains(&filter) {
                topic.scenarios.retain(|scenario| scenario.name.contains(&filter));
            }
        }
        topics.retain(|topic| !topic.scenarios.is_empty());
        Self { topics, whole: filter.is_empty() }
    }

    pub(crate) async fn run(self, target: impl Target + 'static) -> Answers {
        let target = Arc::new(target);
        let permits = Arc::new(Semaphore::new(MAX_CONCURRENT_SCENARIOS));
        let mut topics = Vec::new();
        let mut running = Vec::new();
        for (number, topic) in self.topics.into_iter().enumerate() {
            topics.push((topic.name, Vec::new()));
            running.extend(topic.scenarios.into_iter().map(|scenario| (number, scenario)));
        }
        let mut tasks = JoinSet::new();
        for (place, (topic, scenario)) in running.into_iter().enumerate() {
            let (target, permits) = (Arc::clone(&target), Arc::clone(&permits));
            tasks.spawn(async move {
                let _permit = permits.acquire_owned().await.expect("never closed");
                let mut run = run(&scenario, &*target).await;
                let problems = std::mem::take(&mut run.problems);
                let records = transcript::records(run);
                (place, topic, Answered { scenario: scenario.name, records, problems })
            });
        }
        let mut answered = tasks.join_all().await;
        answered.sort_by_key(|(place, ..)| *place);
        for (_, topic, answers) in answered {
            topics[topic].1.push(answers);
        }
        Answers { topics, whole: self.whole }
    }
}

impl Answers {
    /// On the reference server every wait and capture must have worked.
    pub(crate) fn must_be_as_written(&self) {
        let problems: Vec<String> = self
            .topics
            .iter()
            .flat_map(|(_, answers)| answers)
            .flat_map(|answered| {
                answered.problems.iter().map(|problem| format!("{}: {problem}", answered.scenario))
            })
            .collect();
        assert!(problems.is_empty(), "scenarios are wrong:\n{}", problems.join("\n"));
    }

    /// Says how many answers were equal; panics if any differs that may not.
    pub(crate) fn compare(&self, allowed: Vec<Allowed>) -> String {
        let mut report = Report::new(allowed);
        for (topic, answers) in &self.topics {
            let recorded = transcript::load(topic);
            for Answered { scenario, records, problems } in answers {
                for problem in problems {
                    report.note(scenario, problem);
                }
                report.add(scenario, recorded.get(scenario), records);
            }
        }
        report.finish(self.whole)
    }

    /// Writes the transcripts of the scenarios that were run; the others' stay, except those whose
    /// scenario is gone.
    pub(crate) fn record(&self) -> String {
        for (topic, answers) in &self.topics {
            let mut recorded =
                if self.whole { Default::default() } else { transcript::load(topic) };
            for answered in answers {
                recorded.insert(answered.scenario.clone(), answered.records.clone());
            }
            transcript::save(topic, &recorded);
        }
        let scenarios = self.topics.iter().map(|(_, answers)| answers.len()).sum::<usize>();
        format!("recorded {scenarios} scenarios")
    }
}
