//! Node descriptions, read after the sweep that found the nodes.

use weft_wire::mad::subn::NodeDescription;

use super::{Phase, Wanted, What};
use crate::manager::{Event, Manager};
use crate::subnet::NodeIx;

impl Manager {
    /// Asks discovered nodes for their descriptions; `false` if none is left, or if that is put off until after the
    /// next sweep.
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

    /// Ends the phase when every node has answered or timed out.
    pub(crate) fn end_names(&mut self) {
        self.sweep.phase = Phase::Idle;
        self.bind_policy();
    }

    /// Starts a wanted sweep without waiting for nodes that have not answered NodeDescription; the manager asks them
    /// again after the sweep.
    pub(crate) fn put_names_off(&mut self) {
        let wanted = self.sweep.wanted != Wanted::default() && !self.sweep.halted;
        if self.is_asking_names() && !self.is_naming() && wanted {
            let asked = self.wire.withdraw(What::NodeDescription);
            self.sweep.nameless.extend(asked);
            self.sweep.names_put_off = true;
            self.end_names();
        }
    }

    /// Whether the manager waits only for descriptions. A node that answers all but those triggers no other sweep.
    pub(crate) fn is_asking_names(&self) -> bool {
        self.sweep.phase == Phase::Names
    }

    /// Whether descriptions are about to arrive without delay: SA queries for them then wait, unless a node has timed
    /// out.
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
