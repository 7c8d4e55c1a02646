//! The provider and the actuator `exec` keep their contracts with the example.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use sojourn_core::key::Key;
use sojourn_core::known::Known;
use sojourn_drivers::actuator::exec::ExecActuator;
use sojourn_drivers::actuator::{Account, Actuator, Cluster, Platform};
use sojourn_drivers::exec::{Limits, ProgramState, Programs};
use sojourn_drivers::machine::exec::ExecProvider;
use sojourn_drivers::machine::{CreateRequest, Provider, ProviderError};
use sojourn_drivers::{actuator, machine};

use crate::fixture::{Folder, eventually, limits};

struct Machines {
    folder: Folder,
    provider: ExecProvider,
    programs: Programs,
    uids: AtomicU64,
}

fn config(folder: &str) -> Value {
    json!({"name": "folder", "config": {"folder": folder, "bootSeconds": 0.3}})
}

impl Machines {
    async fn new(folder: Folder) -> Self {
        Self::within(folder, limits()).await
    }

    async fn within(folder: Folder, limits: Limits) -> Self {
        let programs = folder.start(limits).await;
        let provider = ExecProvider::new(programs.clone());
        let machines = Self { folder, provider, programs, uids: AtomicU64::new(0) };
        machines.until_listed().await;
        machines
    }

    /// Waits until the first list is complete.
    async fn until_listed(&self) {
        let nobody = self.new_request("nobody");
        let known = async || (!self.provider.status(nobody.machine()).is_unknown()).then_some(());
        eventually("a complete list", known).await;
    }

    fn new_request(&self, name: &str) -> CreateRequest {
        let uid = format!("uid-{}", self.uids.fetch_add(1, Ordering::Relaxed));
        let key = Key::new("team", name);
        CreateRequest { key, uid, group: Some("web".to_owned()), config: self.good() }
    }

    fn good(&self) -> Value {
        let name = self.programs.names().next().expect("there is one");
        json!({"name": name, "config": config("blue")["config"]})
    }
}

impl machine::contract::ContractHarness for Machines {
    fn provider(&self) -> &dyn Provider {
        &self.provider
    }

    fn good(&self) -> Value {
        self.good()
    }

    fn bad(&self) -> Value {
        json!({"name": "folder", "config": {"folder": "blue", "colour": "blue"}})
    }

    fn request<'a>(&'a self, name: &'a str) -> BoxFuture<'a, CreateRequest> {
        std::future::ready(self.new_request(name)).boxed()
    }

    fn lose<'a>(&'a self, request: &'a CreateRequest) -> BoxFuture<'a, ()> {
        let path = self.folder.machine(&format!("blue/{}", request.uid));
        std::fs::remove_file(path).expect("it is there");
        std::future::ready(()).boxed()
    }

    fn count(&self) -> BoxFuture<'_, usize> {
        std::future::ready(self.folder.machines().len()).boxed()
    }
}

#[tokio::test]
async fn the_provider_keeps_the_contract() {
    let Some(folder) = Folder::with_example() else { return };
    machine::contract::suite(&Machines::new(folder).await).await;
}

/// Without events, lists say everything, if later.
#[tokio::test]
async fn a_program_that_cannot_watch_keeps_the_contract() {
    let change = "example.CAN.remove('watch')";
    let Some(folder) = Folder::with_changed_example("folder", change) else { return };
    let limits = Limits { poll: Duration::from_millis(200), ..limits() };
    machine::contract::suite(&Machines::within(folder, limits).await).await;
}

#[tokio::test]
async fn a_config_names_a_program_that_is_there() {
    let Some(folder) = Folder::with_example() else { return };
    let machines = Machines::new(folder).await;
    let other = json!({"name": "other", "config": {}});
    let problems = machines.provider.check(&other);
    assert_eq!(problems, ["name: there is no program other; there is folder"]);
    let path = json!({"name": "../bin/sh"});
    assert_eq!(machines.provider.check(&path).len(), 1);
    let config = json!({"name": "folder", "config": {"folder": ""}});
    let bad = CreateRequest { config, ..machines.new_request("bad") };
    let refused = machines.provider.create(&bad).await;
    assert!(
        matches!(&refused, Err(ProviderError::Refused(why)) if why.starts_with("config.folder: ")),
        "{refused:?}"
    );
}

/// It makes the machine, and ends before it says so.
#[tokio::test]
async fn an_exit_in_the_middle_of_a_creation_makes_no_second_machine() {
    let change = "
made = example.create
def create(request):
    ok = made(request)
    if not os.path.exists('ended'):
        open('ended', 'w').close()
        os._exit(3)
    return ok
example.create = create";
    let Some(folder) = Folder::with_changed_example("crash", change) else { return };
    let machines = Machines::new(folder).await;
    let request = machines.new_request("one");
    let unknown = machines.provider.create(&request).await;
    let Err(ProviderError::Failed(why)) = unknown else { panic!("{unknown:?}") };
    assert!(why.contains("it ended"), "{why}");
    assert!(!machines.provider.status(request.machine()).is_absent());
    // The next run lists it.
    let seen = async || machines.provider.status(request.machine()).is();
    let seen = eventually("the machine is found", seen).await;
    let id = machines.provider.create(&request).await.expect("it is the same request");
    assert_eq!(*seen.machine.id, *id);
    assert_eq!(id, format!("exec://crash/blue/{}", request.uid));
    assert_eq!(machines.folder.machines().len(), 1);
}

#[tokio::test]
async fn of_a_program_that_is_gone_nothing_is_known_and_others_go_on() {
    let Some(folder) = Folder::with_example() else { return };
    let broken = folder.program("broken");
    std::fs::copy(folder.program("folder"), &broken).expect("it is ours");
    let machines = Machines::new(folder).await;
    let there = machines.new_request("there");
    let mut lost = machines.new_request("lost");
    lost.config = json!({"name": "broken", "config": {"folder": "red"}});
    let good = CreateRequest { config: config("blue"), ..there };
    let id = machines.provider.create(&good).await.expect("it is good");
    let lost_id = machines.provider.create(&lost).await.expect("it is good");
    // Nobody runs it again once others may write to it.
    std::fs::set_permissions(&broken, std::fs::Permissions::from_mode(0o777)).expect("it is ours");
    let client = machines.programs.get("broken").expect("there");
    kill(client.process_id().expect("it runs"));
    let unsafe_program = |state: &ProgramState| matches!(state, ProgramState::Down(why) if why.contains("others than its owner"));
    client.state().wait_for(unsafe_program).await.expect("the client goes on");
    let of = |request: &CreateRequest, id: Option<&str>| {
        let machine = request.machine();
        machines.provider.status(machine::MachineRef { id, ..machine })
    };
    assert!(of(&lost, Some(&lost_id)).is_unknown());
    assert!(of(&lost, None).is_unknown());
    assert!(matches!(of(&good, Some(&id)), Known::Is(_)));
    // What has no name and was never asked for may be anybody's.
    assert!(of(&machines.new_request("new"), None).is_unknown());
    let stranger = Some("exec://stranger/1");
    assert!(of(&machines.new_request("strange"), stranger).is_unknown());
    machines.provider.delete(lost.machine()).await.expect_err("nobody can be asked");
    machines.provider.delete(good.machine()).await.expect("it can");
}

fn kill(pid: u32) {
    let group = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process");
    kill_process_group(group, Signal::KILL).expect("it runs");
}

struct Clusters {
    folder: Folder,
    actuator: ExecActuator,
    programs: Programs,
}

impl actuator::contract::ContractHarness for Clusters {
    fn actuator(&self) -> &dyn Actuator {
        &self.actuator
    }

    fn good(&self) -> Value {
        config("any")
    }

    fn bad(&self) -> Value {
        json!({"name": "folder", "config": {}})
    }

    fn cluster<'a>(&'a self, name: &'a str, machines: usize) -> BoxFuture<'a, Cluster> {
        let infra_id = format!("{name}-x7k2p");
        for number in 0..machines {
            let record = json!({"infraID": infra_id, "state": "Running", "nodeName": name});
            self.folder.put(&format!("{name}/{infra_id}-{number}"), &record);
        }
        let platform = Platform { name: "exec".to_owned(), config: self.good() };
        let account = Account::new([("token".to_owned(), "t".to_owned())]);
        let key = Key::new("team", name);
        std::future::ready(Cluster { key, infra_id, platform, account }).boxed()
    }

    fn lose<'a>(&'a self, _: &'a Cluster, machine: &'a str) -> BoxFuture<'a, ()> {
        std::fs::remove_file(self.folder.machine(machine)).expect("it is there");
        std::future::ready(()).boxed()
    }

    fn set_outage(&self, outage: bool) -> BoxFuture<'_, ()> {
        let path = self.folder.path().join("outage");
        let done = if outage { std::fs::write(path, "") } else { std::fs::remove_file(path) };
        done.expect("it is ours");
        std::future::ready(()).boxed()
    }

    fn restart(&self) -> BoxFuture<'_, ()> {
        async {
            let client = self.programs.get("folder").expect("there");
            let mut state = client.state();
            let before = client.process_id().expect("it runs");
            kill(before);
            let down = state.wait_for(|state| *state != ProgramState::Up).await;
            drop(down.expect("the client goes on"));
            let up = state.wait_for(|state| *state == ProgramState::Up).await;
            drop(up.expect("the client goes on"));
            assert_ne!(client.process_id(), Some(before));
        }
        .boxed()
    }
}

#[tokio::test]
async fn the_actuator_keeps_the_contract() {
    let Some(folder) = Folder::with_example() else { return };
    let programs = folder.start(limits()).await;
    let actuator = ExecActuator::new(programs.clone());
    actuator::contract::suite(&Clusters { folder, actuator, programs }).await;
}

/// Whatever a program lists, only what says that it is of the cluster is the cluster's.
#[tokio::test]
async fn machines_of_another_cluster_are_never_of_this_one() {
    let change = "
listed = example.list_machines
def list_machines(request):
    request.pop('infraID', None)
    return listed(request)
example.list_machines = list_machines";
    let Some(folder) = Folder::with_changed_example("folder", change) else { return };
    let programs = folder.start(limits()).await;
    let actuator = ExecActuator::new(programs.clone());
    let clusters = Clusters { folder, actuator, programs };
    let own = actuator::contract::ContractHarness::cluster(&clusters, "own", 2).await;
    actuator::contract::ContractHarness::cluster(&clusters, "other", 3).await;
    clusters.folder.put("nobody/n", &json!({"state": "Running"}));
    assert_eq!(clusters.actuator.list(&own).await.expect("a list").len(), 2);
}
