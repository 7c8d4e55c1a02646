//! Execute: what was decided, as writes to the API. Nothing is decided here.

use kube::Api;
use sojourn_api::access::{AccessConfig, BreakglassSession};
use sojourn_core::access::deciding::Effect;
use sojourn_core::access::session::{NoticeKind, SessionState};
use sojourn_core::notice::Notice;

use super::notice::{self, NoticeContext};
use super::reconcile::Access;
use super::snapshot::SessionSnapshot;
use crate::family::WebService;
use crate::frame::RequestError;
use crate::frame::write::{self, ObjectVersion};
use crate::outbox::Attempt;

impl Access {
    pub(super) fn api(&self, snapshot: &SessionSnapshot) -> Api<BreakglassSession> {
        Api::namespaced(self.client.clone(), &snapshot.key.namespace)
    }

    pub(super) async fn execute_effects(
        &self,
        snapshot: &SessionSnapshot,
        next: &SessionState,
        effects: &[Effect],
    ) -> Result<(), RequestError> {
        for effect in effects {
            match effect {
                Effect::Notify(recorded) => self.notify(snapshot, next, recorded),
                Effect::Delete => {
                    // Nobody can tell of it once it is gone.
                    self.tell_stored(snapshot);
                    self.delete(snapshot).await?;
                }
            }
        }
        Ok(())
    }

    fn notify(
        &self,
        snapshot: &SessionSnapshot,
        next: &SessionState,
        recorded: &Notice<NoticeKind>,
    ) {
        let context = NoticeContext {
            key: &snapshot.key,
            session: &snapshot.object,
            config: &snapshot.config,
            approvers: snapshot.approvers(),
            state: next,
            usage: &snapshot.usage,
            links: &self.links,
            public_url: self.public_url(&snapshot.config),
            now: self.clock.now(),
        };
        let notice = notice::notice(recorded, &context);
        if self.outbox.attempt(&snapshot.key, notice) == Attempt::Busy {
            tracing::warn!(session = %snapshot.key, "too many notices wait; it is tried again later");
        }
    }

    /// Where people reach us, if anybody is served.
    fn public_url(&self, config: &AccessConfig) -> Option<String> {
        let WebService { gateway: served, public_url, .. } = &self.web;
        config.public_url.clone().or_else(|| public_url.clone()).filter(|_| *served)
    }

    /// Deletes the very object that was looked at, if nobody has touched it since.
    async fn delete(&self, snapshot: &SessionSnapshot) -> Result<(), RequestError> {
        let target = ObjectVersion::of(&snapshot.object);
        match write::delete(&self.api(snapshot), target, "delete it").await {
            Ok(Some(marked)) => self.caches.record_write(&snapshot.key, marked),
            Ok(None) | Err(RequestError::Gone { .. }) => {
                self.caches.evict(&snapshot.key);
                self.reports.forget(&snapshot.key, snapshot.uid());
            }
            Err(other) => return Err(other),
        }
        Ok(())
    }
}
