//! A game server that uses Agones' client for Rust, and nothing else: a line over UDP is one call of it.

use std::collections::BTreeMap;
use std::error::Error;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agones::errors::Error as SdkError;
use agones::{GameServer, Sdk};
use serde_json::{Value, json};
use tokio::net::UdpSocket;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{JoinHandle, JoinSet};

const DEFAULT_PORT: u16 = 7777;
const PING_INTERVAL: Duration = Duration::from_secs(1);
const MAX_LINE_BYTES: usize = 1500;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // A node without networks of Pods gives them another port.
    let port = match std::env::var("SOJOURN_PORT_GAME") {
        Ok(port) => port.parse()?,
        Err(_) => DEFAULT_PORT,
    };
    let mut terminated = signal(SignalKind::terminate())?;
    let mut sdk = Sdk::new(None, None).await?;
    let watched = watch(&mut sdk).await?;
    let pings = ping(&sdk);
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).await?;
    sdk.ready().await?;
    let mut game = Game { sdk, watched, pings };
    let mut line = [0; MAX_LINE_BYTES];
    loop {
        let (length, from) = tokio::select! {
            received = socket.recv_from(&mut line) => received?,
            _ = terminated.recv() => return Ok(()),
        };
        let line = String::from_utf8_lossy(&line[..length]);
        let words: Vec<&str> = line.trim().split(' ').collect();
        let answer = match game.call(&words).await {
            Ok(said) => format!("OK {said}\n"),
            Err(error) => match error.downcast_ref::<SdkError>() {
                Some(SdkError::Rpc(status)) => {
                    format!("ERROR {} {}\n", i32::from(status.code()), status.message())
                }
                _ => format!("ERROR {error}\n"),
            },
        };
        socket.send_to(answer.as_bytes(), from).await?;
    }
}

/// The states that a watch shows, in their order.
type Watched = Arc<Mutex<Vec<String>>>;

async fn watch(sdk: &mut Sdk) -> Result<Watched, SdkError> {
    let watched = Watched::default();
    let seen = watched.clone();
    let mut servers = sdk.watch_gameserver().await?;
    tokio::spawn(async move {
        loop {
            let state = match servers.message().await {
                Ok(Some(server)) => server.status.map(|status| status.state).unwrap_or_default(),
                Ok(None) => return,
                Err(status) => format!("ERROR {}", i32::from(status.code())),
            };
            let ended = state.starts_with("ERROR");
            let mut seen = seen.lock().expect("nobody panics with it");
            if seen.last() != Some(&state) {
                seen.push(state);
            }
            if ended {
                return;
            }
        }
    });
    Ok(watched)
}

/// Says that it is alive, until that is ended.
fn ping(sdk: &Sdk) -> JoinHandle<()> {
    let pings = sdk.health_check();
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(PING_INTERVAL);
        loop {
            ticks.tick().await;
            if pings.send(()).await.is_err() {
                eprintln!("nobody hears that it is alive");
                return;
            }
        }
    })
}

struct Game {
    sdk: Sdk,
    watched: Watched,
    pings: JoinHandle<()>,
}

impl Game {
    async fn call(&mut self, words: &[&str]) -> Result<Value, Box<dyn Error>> {
        if let Some(said) = self.call_alpha(words).await? {
            return Ok(said);
        }
        if let Some(said) = self.call_beta(words).await? {
            return Ok(said);
        }
        let sdk = &mut self.sdk;
        match *words {
            ["ready"] => sdk.ready().await?,
            ["allocate"] => sdk.allocate().await?,
            ["reserve", seconds] => sdk.reserve(Duration::from_secs(seconds.parse()?)).await?,
            ["shutdown"] => sdk.shutdown().await?,
            ["setLabel", key, value] => sdk.set_label(key, value).await?,
            ["setAnnotation", key, value] => sdk.set_annotation(key, value).await?,
            ["gameServer"] => return described(sdk.get_gameserver().await?),
            ["watched"] => {
                return Ok(json!(*self.watched.lock().expect("nobody panics with it")));
            }
            ["together", many] => return self.together(many.parse()?).await,
            ["silence"] => self.pings.abort(),
            _ => return Err(format!("there is no call {}", words.join(" ")).into()),
        }
        Ok(Value::Null)
    }

    /// Nothing if it is none of them.
    async fn call_alpha(&self, words: &[&str]) -> Result<Option<Value>, Box<dyn Error>> {
        let mut alpha = self.sdk.alpha().clone();
        Ok(Some(match *words {
            ["playerConnect", id] => json!(alpha.player_connect(id).await?),
            ["playerDisconnect", id] => json!(alpha.player_disconnect(id).await?),
            ["setPlayerCapacity", most] => json!(alpha.set_player_capacity(most.parse()?).await?),
            ["getPlayerCapacity"] => json!(alpha.get_player_capacity().await?),
            ["getPlayerCount"] => json!(alpha.get_player_count().await?),
            ["isPlayerConnected", id] => json!(alpha.is_player_connected(id).await?),
            ["getConnectedPlayers"] => json!(alpha.get_connected_players().await?),
            _ => return Ok(None),
        }))
    }

    /// Nothing if it is none of them.
    async fn call_beta(&self, words: &[&str]) -> Result<Option<Value>, Box<dyn Error>> {
        let mut beta = self.sdk.beta().clone();
        Ok(Some(match *words {
            ["getCounterCount", name] => json!(beta.get_counter_count(name).await?),
            ["incrementCounter", name, by] => {
                json!(beta.increment_counter(name, by.parse()?).await?)
            }
            ["decrementCounter", name, by] => {
                json!(beta.decrement_counter(name, by.parse()?).await?)
            }
            ["setCounterCount", name, count] => {
                json!(beta.set_counter_count(name, count.parse()?).await?)
            }
            ["getCounterCapacity", name] => json!(beta.get_counter_capacity(name).await?),
            ["setCounterCapacity", name, most] => {
                json!(beta.set_counter_capacity(name, most.parse()?).await?)
            }
            ["getListCapacity", name] => json!(beta.get_list_capacity(name).await?),
            ["setListCapacity", name, most] => {
                json!(beta.set_list_capacity(name, most.parse()?).await?)
            }
            ["getListValues", name] => json!(beta.get_list_values(name).await?),
            ["getListLength", name] => json!(beta.get_list_length(name).await?),
            ["listContains", name, value] => json!(beta.list_contains(name, value).await?),
            ["appendListValue", name, value] => json!(beta.append_list_value(name, value).await?),
            ["deleteListValue", name, value] => json!(beta.delete_list_value(name, value).await?),
            _ => return Ok(None),
        }))
    }

    /// So many of each at the same time, none waiting for another.
    async fn together(&self, many: u32) -> Result<Value, Box<dyn Error>> {
        let mut calls = JoinSet::new();
        for number in 0..many {
            let [mut first, mut second, third] = [(); 3].map(|()| self.sdk.clone());
            calls.spawn(async move {
                first.set_label(format!("label-{number}"), number.to_string()).await
            });
            calls.spawn(async move {
                second.set_annotation(format!("annotation-{number}"), number.to_string()).await
            });
            calls.spawn(async move { third.beta().clone().increment_counter("rooms", 1).await });
        }
        while let Some(called) = calls.join_next().await {
            called??;
        }
        Ok(Value::Null)
    }
}

/// As the tests compare it with the object.
fn described(server: GameServer) -> Result<Value, Box<dyn Error>> {
    let meta = server.object_meta.ok_or("no metadata")?;
    let health = server.spec.and_then(|spec| spec.health).ok_or("no health")?;
    let status = server.status.ok_or("no status")?;
    let counters: BTreeMap<_, _> = status
        .counters
        .into_iter()
        .map(|(name, one)| (name, json!({"count": one.count, "capacity": one.capacity})))
        .collect();
    let lists: BTreeMap<_, _> = status
        .lists
        .into_iter()
        .map(|(name, one)| (name, json!({"capacity": one.capacity, "values": one.values})))
        .collect();
    let ports: Vec<_> = status.ports.into_iter().map(|one| json!([one.name, one.port])).collect();
    Ok(json!({
        "name": meta.name,
        "namespace": meta.namespace,
        "uid": meta.uid,
        "created": meta.creation_timestamp,
        "deleted": meta.deletion_timestamp,
        "labels": meta.labels,
        "annotations": meta.annotations,
        "health": [
            health.disabled,
            health.period_seconds,
            health.failure_threshold,
            health.initial_delay_seconds,
        ],
        "state": status.state,
        "address": status.address,
        "ports": ports,
        "players": status.players.map(|players| players.ids),
        "counters": counters,
        "lists": lists,
    }))
}
