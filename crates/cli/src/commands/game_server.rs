//! `sojourn game-server`: the game that the examples and the end-to-end tests play. It has no rules, but players, and
//! it can be told to behave as badly as any game server does.

mod request;
mod sdk;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use tokio::net::UdpSocket;
use tokio::time::{Instant, MissedTickBehavior};

use self::request::{MAX_PLAYERS, Request, parse};
use self::sdk::{Attempts, Report, Sdk};
use super::signals::Signals;
use crate::args;
use crate::exit::{Exit, Failure};
use crate::printer::Printer;

const DEFAULT_PORT: u16 = 7777;
/// Variables that may say which port it is: a node's, the Pod's, and one for whoever starts it by hand.
const PORT_VARIABLES: [&str; 3] = ["SOJOURN_PORT_GAME", "GAME_PORT_GAME", "SOJOURN_PORT"];
/// Agones expects one every five seconds.
const PING_INTERVAL: Duration = Duration::from_secs(2);
/// A longer line is cut off, and says nothing then.
const MAX_DATAGRAM_BYTES: usize = 1200;

/// How a game ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// By itself, or because somebody asked for it in order.
    Orderly,
    Crash,
    /// It is there, and does nothing.
    Hang,
}

pub(super) fn run(args: &args::GameServer, printer: Printer) -> Result<(), Failure> {
    // One thread is enough for it, and many of it run beside each other.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")
        .map_err(|error| Failure::unavailable(error, ""))?;
    runtime.block_on(serve(args, printer))
}

async fn serve(args: &args::GameServer, printer: Printer) -> Result<(), Failure> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let usage = |error: anyhow::Error| Failure::new(Exit::Usage, error, "");
    let mut signals = Signals::listen()?;
    let port = port(args.port, variable).map_err(usage)?;
    let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    let socket = UdpSocket::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}"))
        .map_err(|error| Failure::unavailable(error, "Choose another: --port PORT."))?;
    let sdk = Sdk::find(variable).map_err(usage)?;
    let listening = socket.local_addr().unwrap_or(address);
    printer.good(format_args!("The game is on, at UDP {listening}."));
    let game = Game::new(sdk, args.classic);
    let mut playing = std::pin::pin!(game.run(&socket, Duration::from_secs(args.slow_start)));
    let ending = tokio::select! {
        ending = &mut playing => ending,
        () = signals.requested() => tokio::select! {
            ending = &mut playing => ending,
            () = tokio::time::sleep(Duration::from_secs(args.linger)) => Ok(Ending::Orderly),
        },
    };
    match ending {
        Ok(Ending::Orderly) => Ok(()),
        Ok(Ending::Crash) => Err(Failure::new(Exit::Negative, anyhow!("the game crashed"), "")),
        // Whoever wants it to end has to kill it: signals go on being heard, and nobody looks.
        Ok(Ending::Hang) => std::future::pending().await,
        Err(error) => Err(Failure::unavailable(error, "Is its SDK endpoint there?")),
    }
}

/// Which port was asked for.
fn port(
    asked: Option<u16>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<u16, anyhow::Error> {
    if let Some(port) = asked {
        return Ok(port);
    }
    let named = PORT_VARIABLES.into_iter().find_map(|name| Some((name, variable(name)?)));
    match named {
        Some((name, port)) => port.parse().with_context(|| format!("{name}={port} is not a port")),
        None => Ok(DEFAULT_PORT),
    }
}

struct Game {
    sdk: Sdk,
    /// It speaks the classic routes alone.
    classic: bool,
    pings: Cell<bool>,
}

impl Game {
    const fn new(sdk: Sdk, classic: bool) -> Self {
        Self { sdk, classic, pings: Cell::new(true) }
    }

    /// Plays until it ends.
    async fn run(&self, socket: &UdpSocket, slow_start: Duration) -> anyhow::Result<Ending> {
        tokio::select! {
            ending = self.play(socket) => ending.context("cannot read datagrams"),
            never = self.ping() => match never {},
            started = self.start(slow_start) => match started {
                Err(error) => Err(error.context("cannot say that it is ready")),
                Ok(never) => match never {},
            },
        }
    }

    /// Says that it can be played on, once; then this has nothing more to do.
    async fn start(&self, slow_start: Duration) -> anyhow::Result<Infallible> {
        tokio::time::sleep(slow_start).await;
        self.sdk.tell(self.ready(), Attempts::MANY).await?;
        tracing::info!("ready");
        std::future::pending().await
    }

    const fn ready(&self) -> Report<'static> {
        if self.classic { Report::Health("Healthy") } else { Report::Ready }
    }

    async fn ping(&self) -> Infallible {
        let mut ticks = tokio::time::interval_at(Instant::now(), PING_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.ping_once().await;
        }
    }

    async fn ping_once(&self) {
        if self.classic || !self.pings.get() {
            return;
        }
        // One that is lost is followed by another.
        if let Err(error) = self.sdk.tell(Report::Ping, Attempts::ONCE).await {
            tracing::debug!(error = format!("{error:#}"), "a ping is lost");
        }
    }

    /// Answers datagrams, one after the other.
    async fn play(&self, socket: &UdpSocket) -> std::io::Result<Ending> {
        let mut players = BTreeSet::new();
        let mut buffer = [0; MAX_DATAGRAM_BYTES];
        loop {
            let (length, from) = socket.recv_from(&mut buffer).await?;
            let line = String::from_utf8_lossy(&buffer[..length]);
            let (answer, ending) = match parse(&line) {
                Ok(request) => self.answer(request, &mut players).await,
                Err(why) => (format!("ERROR {why}"), None),
            };
            // Whoever asked may be gone: their answer is lost, as any datagram may be.
            if let Err(error) = socket.send_to(format!("{answer}\n").as_bytes(), from).await {
                tracing::debug!(%error, "an answer is lost");
            }
            if let Some(ending) = ending {
                return Ok(ending);
            }
        }
    }

    async fn answer(
        &self,
        request: Request<'_>,
        players: &mut BTreeSet<String>,
    ) -> (String, Option<Ending>) {
        let report = match request {
            Request::Echo(text) => return (text.to_owned(), None),
            Request::Who => return (self.describe(players), None),
            Request::Endpoint => {
                let endpoint = self.sdk.endpoint().map_or("none", reqwest::Url::as_str);
                return (format!("OK {endpoint}"), None);
            }
            Request::Exit => return ("OK goodbye".to_owned(), Some(Ending::Orderly)),
            Request::Crash => return ("OK it crashes".to_owned(), Some(Ending::Crash)),
            Request::Hang => return ("OK it hangs".to_owned(), Some(Ending::Hang)),
            Request::Health { good } => {
                self.pings.set(good);
                if !self.classic {
                    return (format!("OK pings {}", if good { "go on" } else { "stop" }), None);
                }
                Report::Health(if good { "Healthy" } else { "Failed" })
            }
            Request::Join(name) => {
                if count(players) < MAX_PLAYERS {
                    players.insert(name.to_owned());
                }
                Report::Players(count(players))
            }
            Request::Leave(name) => {
                players.remove(name);
                Report::Players(count(players))
            }
            Request::Players(many) => {
                *players = (1..=many).map(|number| format!("player-{number}")).collect();
                Report::Players(many)
            }
            Request::Ready => self.ready(),
            Request::Allocate => Report::Allocate,
            Request::Reserve { seconds } => Report::Reserve { seconds },
            Request::Shutdown => Report::Shutdown,
            Request::Mark => Report::MarkedForDeletion,
            Request::Label { key, value } => Report::Label { key, value },
            Request::Annotation { key, value } => Report::Annotation { key, value },
            Request::State(state) => Report::State(state),
        };
        let answer = match self.sdk.tell(report, Attempts::FEW).await {
            Ok(()) => self.describe(players),
            Err(error) => format!("ERROR {error:#}"),
        };
        (answer, None)
    }

    /// Which server it is, and how many play there.
    fn describe(&self, players: &BTreeSet<String>) -> String {
        format!("OK {} {} players", self.sdk.server_name().unwrap_or("game"), players.len())
    }
}

fn count(players: &BTreeSet<String>) -> u32 {
    u32::try_from(players.len()).unwrap_or(u32::MAX)
}
