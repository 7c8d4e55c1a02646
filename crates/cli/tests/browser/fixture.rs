//! `sojourn up` with a browser in front of it, and the webhook that gets its notices.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::client;
use crate::driver::{Browser, Driver};
use crate::folder::Folder;
use crate::objects::Objects;
use crate::page;
use crate::process::{Running, command};
use crate::server::Server;
use crate::survivors::{self, Reaper};
use crate::tool::free_port;

const SYSTEM: &str = "sojourn-system";
/// Ports that no other suite gives to its Pods.
const PORTS: &str = "25000-25999";
/// Where what Pods use stands on this machine: they have another 127.0.0.1, and may reach this.
pub(crate) const OUTSIDE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Several browsers at once are too much for a small machine.
static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

pub(crate) struct Fixture {
    pub(crate) objects: Objects,
    pub(crate) notices: Server,
    web: SocketAddr,
    driver: Arc<Driver>,
    up: Option<Running>,
    _reaper: Reaper,
    folder: Folder,
    _exclusive: tokio::sync::MutexGuard<'static, ()>,
}

impl Fixture {
    /// Nothing where there is no browser.
    pub(crate) async fn start() -> Option<Self> {
        let exclusive = ONE_AT_A_TIME.lock().await;
        let driver = Driver::start().await?;
        let folder = Folder::new();
        let reaper = Reaper::of(folder.path());
        let web = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let mut up = command(&["up", "--web", &web.to_string(), "--listen", "127.0.0.1:0"]);
        up.args(["--pods-may-reach", &OUTSIDE.to_string()]);
        up.args(["--pod-ports", PORTS, "--data"]).arg(folder.join("data"));
        let up = Running::start(up);
        up.ready();
        let objects = Objects(client::connect(&up.kubeconfig()).await);
        let notices = Server::start(String::new()).await;
        configure(&objects, &notices).await;
        Some(Self {
            objects,
            notices,
            web,
            driver,
            up: Some(up),
            _reaper: reaper,
            folder,
            _exclusive: exclusive,
        })
    }

    /// An address of ours.
    pub(crate) fn at(&self, path: &str) -> String {
        format!("http://{}{path}", self.web)
    }

    pub(crate) const fn port(&self) -> u16 {
        self.web.port()
    }

    /// Where the administrator's kubeconfig is.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.up.as_ref().expect("it runs").kubeconfig()
    }

    /// A folder for what a test needs.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The link that was printed at the start. It works once.
    pub(crate) fn link(&self) -> String {
        self.up.as_ref().expect("it runs").field("sign in")
    }

    /// A browser of somebody who is not known here.
    pub(crate) async fn browser(&self) -> Browser {
        self.driver.browser().await
    }

    /// A browser of somebody who has signed in.
    pub(crate) async fn signed_in(&self) -> Browser {
        let browser = self.browser().await;
        browser.open(&self.link()).await;
        browser.click("form button").await;
        let front = page::ours(&browser).await;
        assert!(front.text.contains("You are signed in as"), "{front:?}");
        browser
    }

    pub(crate) fn stop(mut self) {
        survivors::interrupt(self.up.take().expect("it runs"));
        survivors::assert_none(self.folder.path());
    }
}

/// Owners are told over the webhook, and have ten minutes from warning to warning.
async fn configure(objects: &Objects, notices: &Server) {
    let url = format!("http://127.0.0.1:{}/", notices.port);
    let options: Value = json!({
        "webhookURL": {"name": "browser-tests", "key": "url"},
        "inactiveTerminationNotificationInterval": "10m",
        "margin": "1s",
        "activityInterval": "1s",
    });
    objects.make_namespace(SYSTEM).await;
    let secret = json!({"name": "browser-tests", "namespace": SYSTEM});
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": secret, "stringData": {"url": url},
    });
    objects.apply(&secret).await;
    let options = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "sojourn", "namespace": SYSTEM},
        "data": {
            "lab.yaml": options.to_string(),
            "access.yaml": "clusters: {local: {authorizedTTL: 0s}}\n",
        },
    });
    objects.apply(&options).await;
}
