//! Observe: what can be seen of machines, from caches and from memory. Nothing is written, and nobody
//! is asked.

use sojourn_core::group::by_name::ByName;
use sojourn_core::group::observed::{Observed, Seen};
use sojourn_core::known::Known;
use sojourn_drivers::machine::Which;

use super::family::Family;
use super::subject::{Guest, Member, Subject};

impl Family {
    pub(super) fn look(&self, subject: &Subject) -> Observed {
        let mut machines = ByName::in_order(subject.machines.iter().map(|member| {
            let provider = member.view().provider.as_deref();
            (member.key.name.clone(), self.look_at(member, provider))
        }));
        for reserved in &subject.state.reserved {
            let answered = self.refusals.of(&subject.key, &reserved.name);
            if answered.is_some() && machines.get(&reserved.name).is_none() {
                let seen = Seen { answered, provider: Known::Absent, ..Seen::default() };
                machines.insert(reserved.name.as_str().into(), seen);
            }
        }
        Observed { machines }
    }

    pub(super) fn look_at_guest(&self, guest: &Guest) -> Seen {
        self.look_at(&guest.member, guest.provider.as_deref())
    }

    /// What is seen of a machine; nothing, if nobody here knows its provider.
    fn look_at(&self, member: &Member, provider: Option<&str>) -> Seen {
        let Some(provider) = provider.and_then(|name| self.providers.get(name)) else {
            return Seen::default();
        };
        let view = member.view();
        let well = match view.sight_if_well() {
            Some(seen) if view.well.holds() => return seen,
            well => well,
        };
        view.well.begin();
        let which = Which { key: &member.key, uid: &view.uid, id: view.provider_id() };
        let grip = self.hands.feel(provider.as_ref(), which);
        let beat = self.world.beat(&member.key);
        let health = self.world.infirmary.examine(&member.key, &grip.sight, beat);
        let provider = match grip.sight {
            Known::Is(sight) => Known::Is(sight.found),
            Known::Absent => Known::Absent,
            Known::Unknown => Known::Unknown,
        };
        let seen = Seen { provider, health, answered: grip.answer, asked: grip.asked };
        // A heartbeat ends by itself.
        if beat.is_none() && well.as_ref() == Some(&seen) {
            view.well.found();
        } else {
            // Another look, which began before, may have found it well.
            view.well.stir();
        }
        seen
    }
}
