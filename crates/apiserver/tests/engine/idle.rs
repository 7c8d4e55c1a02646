//! An engine without requests writes nothing.

use jiff::Timestamp;
use sojourn_apiserver::{Config, Engine, SeededEntropy, TokioClock};

/// Opens an engine on the paused clock and lets its background work settle.
async fn settled(seed: u64) -> Engine {
    let clock = TokioClock::starting_at(Timestamp::UNIX_EPOCH);
    let config = Config::in_memory().clock(clock).entropy(SeededEntropy::new(seed)).inline_writes();
    let engine = Engine::open(config).await.expect("an engine in memory opens");
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    engine
}

#[tokio::test(start_paused = true)]
async fn an_idle_engine_writes_nothing() {
    let engine = settled(1).await;
    let before = engine.version();
    tokio::time::sleep(std::time::Duration::from_secs(24 * 3_600)).await;
    assert_eq!(engine.version(), before);
    engine.close().await;
}
