//! API priority and fairness in small: a request takes a seat before it is served.
//!
//! | priority level | who |
//! |---|---|
//! | exempt | superusers, and health checks: they never wait |
//! | reserved | nodes, Kubernetes' own controllers, leases of the system, and whom the program around the engine names |
//! | workload | everybody else, fair by the user that a request acts as |
//!
//! A seat is held for work and not for waiting: it is taken after the body has come, it is given
//! back while a request waits for a version that has not been reached ([`without_seat`]), and an answer
//! that is written while it is sent takes one for every piece.

mod scheduler;
pub(crate) mod work;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sojourn_rbac::User;
use tokio::sync::oneshot;

use crate::auth::identity::{Identity, NODES_GROUP};
use crate::metrics::{FlowControl, Rejection};
use crate::request::ResourcePath;
use crate::status::ApiError;

use scheduler::{Arrival, Level, Queueing, Scheduler};
use work::Work;

/// How long a request waits for a seat before it is refused.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);
/// `Retry-After` of a refused request.
const RETRY_AFTER_SECS: u32 = 1;

/// Kubernetes' own controllers.
const SYSTEM_USERS: [&str; 2] = ["system:kube-scheduler", "system:kube-controller-manager"];
const SYSTEM_GROUPS: [&str; 2] = [NODES_GROUP, "system:serviceaccounts:kube-system"];
/// Where leases are the system's own: leader election and node heartbeats.
const SYSTEM_NAMESPACES: [&str; 2] = ["kube-system", "kube-node-lease"];

/// How much a request is preferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PriorityLevel {
    Exempt,
    Seated(Level),
}

impl PriorityLevel {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Exempt => "exempt",
            Self::Seated(Level::Reserved) => "reserved",
            Self::Seated(Level::Workload) => "workload",
        }
    }

    pub(crate) const fn is_exempt(self) -> bool {
        matches!(self, Self::Exempt)
    }

    pub(crate) const fn is_workload(self) -> bool {
        matches!(self, Self::Seated(Level::Workload))
    }
}

/// The user and priority level of a request.
#[derive(Debug, Clone)]
pub(crate) struct Flow {
    pub(crate) level: PriorityLevel,
    pub(crate) user: Arc<str>,
}

impl Flow {
    /// The same user's, for what nobody waits for.
    pub(crate) fn exempt(self) -> Self {
        Self { level: PriorityLevel::Exempt, ..self }
    }
}

/// Seats, and who waits for them.
#[derive(Debug)]
pub(crate) struct Fairness {
    reserved_users: Vec<String>,
    max_width: usize,
    exempt: AtomicUsize,
    seats: Mutex<Seats>,
    metrics: FlowControl,
}

#[derive(Debug)]
struct Seats {
    scheduler: Scheduler,
    /// Wakes the requests that wait; one that is dropped means that its request was evicted.
    waiting: HashMap<u64, oneshot::Sender<()>>,
}

impl Seats {
    fn wake(&mut self, ids: Vec<u64>) {
        for id in ids {
            if let Some(waiting) = self.waiting.remove(&id) {
                // Whoever has gone meanwhile leaves by dropping their seat.
                let _ = waiting.send(());
            }
        }
    }
}

impl Fairness {
    pub(crate) fn new(seats: usize, reserved_users: Vec<String>, metrics: FlowControl) -> Self {
        let scheduler = Scheduler::new(seats);
        Self {
            reserved_users,
            max_width: scheduler.max_width(),
            exempt: AtomicUsize::new(0),
            seats: Mutex::new(Seats { scheduler, waiting: HashMap::new() }),
            metrics,
        }
    }

    /// The flow of whatever `user` asks for.
    pub(crate) fn flow(&self, user: &User) -> Flow {
        let level = if user.is_superuser() {
            PriorityLevel::Exempt
        } else if self.is_reserved(user) {
            PriorityLevel::Seated(Level::Reserved)
        } else {
            PriorityLevel::Seated(Level::Workload)
        };
        Flow { level, user: user.name.as_str().into() }
    }

    /// The flow of a request for a resource.
    pub(crate) fn flow_on(&self, user: &User, path: &ResourcePath) -> Flow {
        let flow = self.flow(user);
        let lease = path.resource == "leases" && path.group == "coordination.k8s.io";
        let system = SYSTEM_NAMESPACES.contains(&path.namespace.as_str());
        if flow.level.is_workload() && lease && system && !path.name.is_empty() {
            return Flow { level: PriorityLevel::Seated(Level::Reserved), ..flow };
        }
        flow
    }

    fn is_reserved(&self, user: &User) -> bool {
        SYSTEM_USERS.contains(&user.name.as_str())
            || self.reserved_users.contains(&user.name)
            || SYSTEM_GROUPS.iter().any(|group| user.is_in(group))
    }

    /// The most seats that one request takes.
    pub(crate) const fn max_width(&self) -> usize {
        self.max_width
    }

    /// Takes seats for a request: at once, after a short wait in its user's queue, or not at all.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        flow: &Flow,
        width: usize,
    ) -> Result<Seat, ApiError> {
        let PendingSeat { seat, granted } = self.arrive(flow, width, Queueing::Bounded)?;
        let Some(granted) = granted else { return Ok(seat) };
        match tokio::time::timeout(QUEUE_TIMEOUT, granted).await {
            Ok(Ok(())) => Ok(seat),
            // Another user's request was given the place.
            Ok(Err(_)) => Err(self.refuse(flow, Rejection::QueueFull)),
            Err(_) => Err(self.refuse(flow, Rejection::TimeOut)),
        }
    }

    /// Takes seats to go on with something that has begun: after however long it takes.
    pub(crate) async fn admit_unbounded(
        self: &Arc<Self>,
        flow: &Flow,
        width: usize,
    ) -> Option<Seat> {
        // What has begun is never refused, and never gives up its place.
        let PendingSeat { seat, granted } = self.arrive(flow, width, Queueing::Unbounded).ok()?;
        if let Some(granted) = granted {
            granted.await.ok()?;
        }
        Some(seat)
    }

    /// Takes seats for a piece of an answer to `identity`.
    pub(crate) async fn admit_chunk(
        self: &Arc<Self>,
        identity: &Identity,
        work: Work,
    ) -> Option<Seat> {
        self.admit_unbounded(&self.flow(identity.user()), work.width(self.max_width)).await
    }

    fn arrive(
        self: &Arc<Self>,
        flow: &Flow,
        width: usize,
        queueing: Queueing,
    ) -> Result<PendingSeat, ApiError> {
        let PriorityLevel::Seated(level) = flow.level else {
            self.exempt.fetch_add(1, Ordering::Relaxed);
            let seat = Seat { fairness: self.clone(), flow: flow.clone(), width, id: None };
            return Ok(PendingSeat { seat, granted: None });
        };
        let seat = |id| Seat { fairness: self.clone(), flow: flow.clone(), width, id: Some(id) };
        let mut seats = self.lock();
        match seats.scheduler.arrive(level, &flow.user, width, queueing) {
            Arrival::Runs(id) => Ok(PendingSeat { seat: seat(id), granted: None }),
            Arrival::Waits { id, evicted } => {
                if let Some(evicted) = evicted {
                    seats.waiting.remove(&evicted);
                }
                let (grant, granted) = oneshot::channel();
                seats.waiting.insert(id, grant);
                Ok(PendingSeat { seat: seat(id), granted: Some(granted) })
            }
            Arrival::Refused => Err(self.refuse(flow, Rejection::QueueFull)),
        }
    }

    /// The answer to a request that finds no place, which is counted.
    pub(crate) fn refuse(&self, flow: &Flow, why: Rejection) -> ApiError {
        self.metrics.reject(flow.level, why);
        let message = match why {
            Rejection::Watches => "too many watches, please try again later",
            _ => "too many requests, please try again later",
        };
        ApiError::too_many_requests(message, RETRY_AFTER_SECS)
    }

    /// Brings the gauges up to date.
    pub(crate) fn observe(&self) {
        let exempt = self.exempt.load(Ordering::Relaxed);
        self.metrics.executing(PriorityLevel::Exempt, exempt, exempt);
        for level in Level::ALL {
            let occupancy = self.lock().scheduler.occupancy(level);
            let level = PriorityLevel::Seated(level);
            self.metrics.executing(level, occupancy.executing, occupancy.seats);
            self.metrics.waiting(level, occupancy.queued, occupancy.nominal);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A seat, and the signal that it was granted, unless it is already.
struct PendingSeat {
    seat: Seat,
    granted: Option<oneshot::Receiver<()>>,
}

/// Seats that a request holds, or waits for. Dropped, they are given back.
#[derive(Debug)]
pub(crate) struct Seat {
    fairness: Arc<Fairness>,
    flow: Flow,
    width: usize,
    /// None is needed by whoever is exempt.
    id: Option<u64>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let Some(id) = self.id else {
            self.fairness.exempt.fetch_sub(1, Ordering::Relaxed);
            return;
        };
        let mut seats = self.fairness.lock();
        seats.waiting.remove(&id);
        let woken = seats.scheduler.leave(id);
        seats.wake(woken);
    }
}

tokio::task_local! {
    /// The seat of the request that is being answered by this task.
    static SEAT: RefCell<Option<Seat>>;
}

/// Whether this task answers a request already. What that asks for meanwhile (an admission hook's
/// own requests) is a part of it: it must not wait for a seat that the first one holds.
pub(crate) fn is_nested() -> bool {
    SEAT.try_with(|_| ()).is_ok()
}

/// Answers a request, holding its seat.
pub(crate) async fn with_seat<T>(seat: Seat, work: impl Future<Output = T>) -> T {
    SEAT.scope(RefCell::new(Some(seat)), work).await
}

/// Waits for something that is nobody's work: the seat is given back meanwhile.
pub(crate) async fn without_seat<T>(wait: impl Future<Output = T>) -> T {
    let held = SEAT.try_with(|seat| seat.borrow_mut().take()).ok().flatten();
    let Some(held) = held else { return wait.await };
    let (fairness, flow, width) = (held.fairness.clone(), held.flow.clone(), held.width);
    drop(held);
    let done = wait.await;
    let seat = fairness.admit_unbounded(&flow, width).await;
    // It was there above.
    let _ = SEAT.try_with(|place| *place.borrow_mut() = seat);
    done
}
