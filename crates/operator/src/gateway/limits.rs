//! How many connections one instance, and all of them together, may have open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::target::LentObject;

/// What passes through at a time, and how long it may be silent.
#[derive(Debug, Clone)]
pub struct GatewayLimits {
    /// Requests and open connections of all instances together.
    pub overall: usize,
    /// The same of one instance.
    pub per_instance: usize,
    /// For connecting to an instance.
    pub connect: Duration,
    /// A request or its answer that does not move for so long is given up.
    pub idle: Duration,
    /// The same for WebSockets and other upgraded connections, on which silence is usual.
    pub idle_upgraded: Duration,
    /// How often the API is asked whether whoever holds an upgraded connection still may.
    pub recheck: Duration,
    /// How long a waiting page's question may stay open.
    pub poll: Duration,
}

impl Default for GatewayLimits {
    fn default() -> Self {
        Self {
            overall: 2048,
            per_instance: 256,
            connect: Duration::from_secs(5),
            idle: Duration::from_secs(10 * 60),
            idle_upgraded: Duration::from_secs(60 * 60),
            recheck: Duration::from_secs(60),
            poll: Duration::from_secs(20),
        }
    }
}

/// Counts open requests and connections.
#[derive(Debug)]
pub(crate) struct ConnectionLimits {
    overall: Arc<Semaphore>,
    taken: Arc<Mutex<HashMap<LentObject, usize>>>,
    per_instance: usize,
}

/// One open request or connection; it is free again when the permit is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    object: LentObject,
    taken: Arc<Mutex<HashMap<LentObject, usize>>>,
    _overall: OwnedSemaphorePermit,
}

impl ConnectionLimits {
    pub(crate) fn new(limits: &GatewayLimits) -> Self {
        Self {
            overall: Arc::new(Semaphore::new(limits.overall)),
            taken: Arc::default(),
            per_instance: limits.per_instance,
        }
    }

    /// `None` when too much is open.
    pub(crate) fn acquire(&self, object: &LentObject) -> Option<Permit> {
        let overall = self.overall.clone().try_acquire_owned().ok()?;
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        match taken.get_mut(object) {
            Some(count) if *count >= self.per_instance => return None,
            Some(count) => *count += 1,
            None => {
                taken.insert(object.clone(), 1);
            }
        }
        drop(taken);
        Some(Permit { object: object.clone(), taken: self.taken.clone(), _overall: overall })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.object) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.object);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sojourn_core::key::Key;

    use super::*;

    #[test]
    fn one_instance_cannot_take_every_connection_and_dropped_ones_are_free_again() {
        let limits = GatewayLimits { overall: 3, per_instance: 2, ..GatewayLimits::default() };
        let limits = ConnectionLimits::new(&limits);
        let object =
            |family: &str| LentObject { family: family.to_owned(), key: Key::new("ns", "x") };
        let (one, other) = (object("one"), object("other"));
        let first = limits.acquire(&one).unwrap();
        let _second = limits.acquire(&one).unwrap();
        assert!(limits.acquire(&one).is_none());
        let third = limits.acquire(&other).unwrap();
        assert!(limits.acquire(&other).is_none());
        drop(first);
        let fourth = limits.acquire(&one).unwrap();
        drop((third, fourth));
        assert_eq!(limits.taken.lock().unwrap().len(), 1);
    }
}
