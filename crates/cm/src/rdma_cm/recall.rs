//! Events that were given out and never fetched. The connection to a program carries a few events ahead of its fetching
//! them; before a command that forgets or moves events, its owner calls those back, so that nothing counts as reported
//! that no program saw.

use super::channel::Waiting;
use super::client::ChannelId;
use super::command::{Command, IdNumber};
use super::event::{CmEvent, EventKind};
use super::service::Service;

impl Service {
    /// The channel whose events a command forgets or moves: give back by [`Service::put_back`] what was not fetched from
    /// it before the command is handled.
    pub fn recalls(&self, command: &Command) -> Option<ChannelId> {
        let id: IdNumber = match command {
            Command::DestroyId { id } | Command::MigrateId { id, .. } => *id,
            Command::LeaveMulticast { group } => self.groups.id_of(*group)?,
            _ => return None,
        };
        self.ids.look(id).map(|id| id.channel)
    }

    /// Events that [`Service::poll_event`] gave out for a channel last, in the same order, and that were not fetched.
    pub fn put_back(&mut self, channel: ChannelId, events: Vec<CmEvent>) {
        for event in events.into_iter().rev() {
            let owner = event.listener.unwrap_or(event.id);
            // Of an id that is gone nothing is told.
            let Some(id) = self.ids.change(owner) else { continue };
            id.events_waiting += 1;
            id.events_reported = id.events_reported.wrapping_sub(1);
            if event.kind == EventKind::ConnectRequest {
                id.backlog = id.backlog.saturating_sub(1);
            }
            if let Some(group) = event.group {
                self.groups.uncount_reported(group);
            }
            self.channels.put_back(channel, Waiting { owner, event });
        }
    }
}
