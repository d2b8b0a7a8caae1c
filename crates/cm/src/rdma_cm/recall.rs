//! Events that were given out and never fetched. The connection to a program prefetches a few events; before a command
//! that drops or moves events, its owner returns those, so that no event counts as reported that no program saw.

use super::channel::Waiting;
use super::client::ChannelId;
use super::command::{Command, IdNumber};
use super::event::{CmEvent, EventKind};
use super::service::Service;

impl Service {
    /// Returns the channel whose events a command drops or moves. Before handling the command, return its unfetched
    /// events with [`Service::put_back`].
    pub fn recalls(&self, command: &Command) -> Option<ChannelId> {
        let id: IdNumber = match command {
            Command::DestroyId { id } | Command::MigrateId { id, .. } => *id,
            Command::LeaveMulticast { group } => self.groups.id_of(*group)?,
            _ => return None,
        };
        self.ids.look(id).map(|id| id.channel)
    }

    /// Takes back the latest events that [`Service::poll_event`] gave out for a channel and that were not fetched, in
    /// the same order.
    pub fn put_back(&mut self, channel: ChannelId, events: Vec<CmEvent>) {
        for event in events.into_iter().rev() {
            let owner = event.listener.unwrap_or(event.id);
            // Events of an id that is gone are dropped.
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
