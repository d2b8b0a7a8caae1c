//! What nodes are called: asked after the sweep that found them.

use weft_wire::mad::subn::NodeDescription;

use super::{Phase, Wanted, What};
use crate::manager::{Event, Manager};
use crate::subnet::NodeIx;

impl Manager {
    /// Ask who was found what it is called; `false` if everybody was, or if that was put off until the next sweep is over.
    pub(crate) fn begin_names(&mut self) -> bool {
        if std::mem::take(&mut self.sweep.names_put_off) {
            return false;
        }
        let nameless = std::mem::take(&mut self.sweep.nameless);
        if nameless.is_empty() {
            return false;
        }
        self.sweep.phase = Phase::Names;
        self.sweep.unanswered = self.wire.counts.timeouts;
        for node in nameless {
            self.ask_node(What::NodeDescription, node);
        }
        true
    }

    /// Everybody who was asked answered, or does not.
    pub(crate) fn end_names(&mut self) {
        self.sweep.phase = Phase::Idle;
        self.bind_policy();
    }

    /// A sweep that is wanted does not wait for who keeps the manager waiting: who has not said his name is asked again when
    /// it is over.
    pub(crate) fn put_names_off(&mut self) {
        let wanted = self.sweep.wanted != Wanted::default() && !self.sweep.halted;
        if self.is_asking_names() && !self.is_naming() && wanted {
            let asked = self.wire.withdraw(What::NodeDescription);
            self.sweep.nameless.extend(asked);
            self.sweep.names_put_off = true;
            self.end_names();
        }
    }

    /// Whether it is names alone that are waited for. Who does not say his, but all the rest, has no other sweep for it.
    pub(crate) fn is_asking_names(&self) -> bool {
        self.sweep.phase == Phase::Names
    }

    /// Whether names are about to come: who asks the administrator for some is to be told them, and waits as long as nobody
    /// keeps the manager waiting.
    pub(crate) fn is_naming(&self) -> bool {
        self.is_asking_names() && self.wire.counts.timeouts == self.sweep.unanswered
    }

    pub(crate) fn on_description(&mut self, node: NodeIx, description: NodeDescription) {
        let Some(held) = self.subnet.node_mut(node) else { return };
        let new = held.description == NodeDescription::default();
        let guid = held.info.node_guid;
        held.description = description;
        if new && let Some(held) = self.subnet.node(node) {
            let name = self.subnet.name(held).into_owned();
            self.tell(Event::Appeared { guid, name });
        }
    }
}
