//! A replica that has served for a while begins to lead.

use std::sync::Arc;

use sojourn_operator::family::Setup;
use sojourn_operator::frame::{Limits, Tasks, WatchSettings};
use sojourn_operator::gateway::Backend;
use sojourn_operator::group::Providers;
use sojourn_operator::lab::{ServedLab, Settings};
use sojourn_operator::metrics::Metrics;
use sojourn_sim::dice::Dice;
use sojourn_sim::fault::{Faults, Line, Rates};

use crate::fixture::{MINUTE, kept, key, world_with_one};

#[tokio::test(start_paused = true)]
async fn who_takes_over_has_read_what_was_written_while_its_watches_were_silent() {
    let simulation = world_with_one(&kept(), "").await;
    simulation.operator.want(false);
    let faults = Faults::new(Rates::default(), Dice::new(1), true, simulation.trace.clone());
    let line = Line::new(faults.clone());
    let client = line.client(simulation.client.clone());
    let setup = Setup {
        clock: simulation.clock.clone(),
        watching: WatchSettings::default(),
        limits: Limits::default(),
        metrics: Metrics::default(),
        driver_factory: Arc::new(simulation.drivers.clone()),
        providers: Providers::default(),
        settings: Settings {
            gateway: true,
            reports: false,
            public_url: None,
            submit_program: "/sojourn".to_owned(),
            submit_user: None,
        },
    };
    let mut tasks = Tasks::default();
    let served = ServedLab::start(client.clone(), setup, &mut tasks).await.expect("it serves");
    let found = || served.web().backends.find(&key("one"), "web");
    assert!(matches!(found(), Backend::Ready { .. }), "{:?}", found());
    faults.deafen();
    simulation.stop(&key("one")).await;
    simulation.pass(MINUTE).await;
    assert!(matches!(found(), Backend::Ready { .. }), "its watches are silent: {:?}", found());
    served.lead(client, &mut tasks).await.expect("it leads");
    assert!(matches!(found(), Backend::Stopped { .. }), "{:?}", found());
    tasks.stop().await;
}
