//! The engine: opening, what every request shares, and closing.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use tokio::sync::watch;

use crate::admission::Hooks;
use crate::allocate::PendingAllocations;
use crate::auth::certificate::{CertificateAndKey, CertificateAuthority, CertificateError};
use crate::auth::extension::{ExtensionAuthorizer, ExtensionSlot};
use crate::auth::identity::Identity;
use crate::auth::impersonate::Impersonation;
use crate::auth::service_account::TokenIssuer;
use crate::auth::token::TokenTable;
use crate::clock::{Clock, Entropy, SystemClock, SystemEntropy};
use crate::metrics::Metrics;
use crate::registry::Registry;
use crate::serve::body_reader::BodyReader;
use crate::serve::fairness::{self, Fairness};
use crate::serve::quota::Quota;
use crate::status::ApiError;
use crate::store::{OpenError, Store, WriterMode};
use crate::view::{AccessView, RegistryView};

/// How long a read waits for a version that has not been reached yet.
const VERSION_WAIT_TIMEOUT: Duration = Duration::from_secs(3);

/// Large lists that are being sent, of all users and of one.
const MAX_LARGE_LISTS: usize = 1_024;
const MAX_LARGE_LISTS_PER_USER: usize = 64;

/// Bounds on what clients may ask for at once.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Seats: requests that are being answered. A large one takes several, a watch one only while
    /// its first events are written.
    pub in_flight: usize,
    pub watches: usize,
    /// Watches of one user who is neither a superuser nor one of the system's own.
    pub watches_per_user: usize,
    pub body_bytes: usize,
    /// Objects in one page of a list whose client names a limit: above what any client names that
    /// means to go through pages.
    pub page_objects: usize,
    /// Connections to the listener.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            in_flight: 600,
            watches: 10_000,
            watches_per_user: 1_000,
            body_bytes: 3 << 20,
            page_objects: 10_000,
            connections: 10_000,
        }
    }
}

/// How an engine is opened.
#[derive(Debug)]
pub struct Config {
    data: Option<PathBuf>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    inline_writes: bool,
    pub(crate) names: Vec<String>,
    pub(crate) hooks: Hooks,
    pub(crate) limits: Limits,
    pub(crate) reserved_users: Vec<String>,
}

impl Config {
    /// Keeps everything in `data`, a directory that is made if it is missing.
    pub fn at(data: impl Into<PathBuf>) -> Self {
        Self { data: Some(data.into()), ..Self::in_memory() }
    }

    /// Keeps nothing: for tests and for trying things out.
    pub fn in_memory() -> Self {
        Self {
            data: None,
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy::default()),
            inline_writes: false,
            names: Vec::new(),
            hooks: Hooks::default(),
            limits: Limits::default(),
            reserved_users: Vec::new(),
        }
    }

    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    #[must_use]
    pub fn entropy(mut self, entropy: impl Entropy + 'static) -> Self {
        self.entropy = Arc::new(entropy);
        self
    }

    /// Runs the writer inside the caller. On tokio's paused clock this is a must: a runtime that
    /// waits for a thread believes itself idle and lets time jump.
    #[must_use]
    pub const fn inline_writes(mut self) -> Self {
        self.inline_writes = true;
        self
    }

    /// Further names and addresses for the serving certificate.
    #[must_use]
    pub fn names(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.names.extend(names);
        self
    }

    #[must_use]
    pub fn hooks(mut self, hooks: Hooks) -> Self {
        self.hooks = hooks;
        self
    }

    /// Users whose requests have seats of their own, as those of nodes do: the controllers that
    /// everything else waits for.
    #[must_use]
    pub fn reserved_users(mut self, users: impl IntoIterator<Item = String>) -> Self {
        self.reserved_users.extend(users);
        self
    }

    #[must_use]
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}

/// An embedded Kubernetes API.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
}

/// What every request shares.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) limits: Limits,
    pub(crate) hooks: Hooks,
    pub(crate) names: Vec<String>,
    pub(crate) registry: RegistryView,
    pub(crate) access: AccessView,
    pub(crate) extension: ExtensionSlot,
    pub(crate) impersonation: Impersonation,
    pub(crate) authority: CertificateAuthority,
    pub(crate) pending_allocations: Mutex<PendingAllocations>,
    pub(crate) tokens: RwLock<TokenTable>,
    pub(crate) accounts: TokenIssuer,
    pub(crate) metrics: Metrics,
    pub(crate) shutdown: watch::Sender<bool>,
    pub(crate) fairness: Arc<Fairness>,
    pub(crate) body_reader: Arc<BodyReader>,
    pub(crate) watches: Arc<Quota>,
    pub(crate) large_lists: Arc<Quota>,
    pub(crate) data: Option<PathBuf>,
}

impl Engine {
    /// Opens the store, makes what every cluster has, and starts the background work.
    pub async fn open(config: Config) -> Result<Self, OpenError> {
        // Found out before anything is made: nothing may stand in for random numbers.
        config.entropy.fill(&mut [0; 16])?;
        let mode = if config.inline_writes { WriterMode::Inline } else { WriterMode::Thread };
        let store = match &config.data {
            Some(data) => Store::open(data, mode)?,
            None => Store::in_memory(mode)
                .map_err(|source| OpenError::Directory { path: PathBuf::new(), source })?,
        };
        let builtin =
            Registry::builtin(&store).map_err(|e| unusable(config.data.as_deref(), &e))?;
        let accounts = crate::bootstrap::token_issuer(&store, config.data.as_deref())?;
        let authority =
            crate::bootstrap::authority(&store, config.data.as_deref(), config.clock.now())?;
        let (metrics, limits) = (Metrics::default(), config.limits);
        let flow_control = metrics.flow_control.clone();
        let shared = Arc::new(Shared {
            registry: RegistryView::new(builtin, &store),
            impersonation: Impersonation::default(),
            extension: ExtensionSlot::default(),
            authority,
            pending_allocations: Mutex::default(),
            access: AccessView::new(&store).map_err(|e| unusable(config.data.as_deref(), &e))?,
            store,
            clock: config.clock,
            entropy: config.entropy,
            fairness: Arc::new(Fairness::new(
                limits.in_flight,
                config.reserved_users,
                flow_control,
            )),
            body_reader: Arc::default(),
            watches: Arc::new(Quota::new(limits.watches, limits.watches_per_user)),
            large_lists: Arc::new(Quota::new(MAX_LARGE_LISTS, MAX_LARGE_LISTS_PER_USER)),
            limits,
            hooks: config.hooks,
            names: config.names,
            tokens: RwLock::default(),
            accounts,
            metrics,
            shutdown: watch::Sender::new(false),
            data: config.data,
        });
        shared.registry.reindex_all();
        let engine = Self { shared };
        crate::bootstrap::run(&engine.shared)
            .await
            .map_err(|e| unusable(engine.shared.data.as_deref(), &e.message))?;
        crate::background::start(&engine.shared);
        Ok(engine)
    }

    /// Ends watches and background work, which would not end by themselves; other requests go on.
    pub fn end_watches(&self) {
        self.shared.shutdown.send_replace(true);
    }

    /// Ends watches and background work, and closes the store once every write is on disk.
    pub async fn close(&self) {
        self.end_watches();
        let shared = self.shared.clone();
        if matches!(
            tokio::runtime::Handle::current().runtime_flavor(),
            tokio::runtime::RuntimeFlavor::MultiThread
        ) {
            // Joining the writer thread may take as long as a commit.
            let closed = tokio::task::spawn_blocking(move || shared.store.close()).await;
            if closed.is_err() {
                tracing::error!("closing the store panicked");
            }
        } else {
            shared.store.close();
        }
    }

    /// The newest version in the store.
    pub fn version(&self) -> u64 {
        self.shared.store.version()
    }

    /// What somebody else who wants this data directory is told.
    pub fn set_lock_holder(&self, text: &str) {
        self.shared.store.set_lock_holder(text);
    }

    /// The certificate with which a node serves its logs, for its name and address: the only one
    /// that a request for its logs will be sent to.
    pub fn node_certificate(
        &self,
        name: &str,
        address: IpAddr,
    ) -> Result<CertificateAndKey, CertificateError> {
        let names = [name.to_owned(), address.to_string()];
        self.shared.authority.issue_server(&names, self.shared.clock.now())
    }

    /// A certificate with which a server beside this one shows who it is.
    pub fn server_certificate(
        &self,
        names: &[String],
    ) -> Result<CertificateAndKey, CertificateError> {
        self.shared.authority.issue_server(names, self.shared.clock.now())
    }

    /// The authority that signs every certificate here, in PEM.
    pub fn authority_pem(&self) -> &str {
        self.shared.authority.certificate_pem()
    }

    /// Asks this authorizer, too, about requests that superusers, nodes and RBAC do not allow. Another
    /// one takes its place.
    pub fn set_extension_authorizer(&self, extension: Arc<dyn ExtensionAuthorizer>) {
        self.shared.extension.set(extension);
    }

    /// Lets whoever shows `token` act as `identity`. Only the token's hash is kept.
    pub fn add_token(&self, token: &str, identity: Identity) {
        let holder = crate::auth::token::TokenEntry { identity, expires: None };
        let mut tokens = self.shared.tokens.write().unwrap_or_else(PoisonError::into_inner);
        tokens.insert(crate::auth::token::TokenHash::of(token), holder);
    }
}

impl Shared {
    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry.current(self)
    }

    pub(crate) fn tokens(&self) -> RwLockReadGuard<'_, TokenTable> {
        self.tokens.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the store has reached `version`, for a short while.
    pub(crate) async fn wait_for_version(&self, version: u64) -> Result<(), ApiError> {
        if self.store.version() >= version {
            return Ok(());
        }
        fairness::without_seat(self.version_reached(version)).await
    }

    async fn version_reached(&self, version: u64) -> Result<(), ApiError> {
        let deadline = tokio::time::Instant::now() + VERSION_WAIT_TIMEOUT;
        while self.store.version() < version {
            if tokio::time::Instant::now() >= deadline {
                return Err(ApiError::version_too_large(version, self.store.version()));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

fn unusable(data: Option<&Path>, why: &dyn std::fmt::Display) -> OpenError {
    OpenError::Damaged { path: data.map(Path::to_owned).unwrap_or_default(), why: why.to_string() }
}
