//! Event channels: queues of events until the connection to the program takes them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::client::{ChannelId, ClientId};
use super::command::{GroupNumber, IdNumber};
use super::event::CmEvent;

/// Queued event and its owner.
#[derive(Debug)]
pub struct Waiting {
    /// The id whose event it is: for CONNECT_REQUEST, the listener.
    pub owner: IdNumber,
    /// The event.
    pub event: CmEvent,
}

/// Event channel.
#[derive(Debug)]
pub struct Channel {
    /// Process that owns the channel.
    pub client: ClientId,
    /// Ids that report their events here.
    pub ids: BTreeSet<IdNumber>,
    waiting: VecDeque<Waiting>,
    ready: bool,
}

/// All channels, and which of them have events to deliver.
#[derive(Debug, Default)]
pub struct Channels {
    map: BTreeMap<ChannelId, Channel>,
    last: u32,
    /// Channels that are ready and have events, in round-robin order.
    turns: VecDeque<ChannelId>,
    /// The same channels as a set.
    in_turns: BTreeSet<ChannelId>,
}

impl Channels {
    /// Returns an unused channel number.
    pub fn unused(&mut self) -> ChannelId {
        loop {
            self.last = self.last.wrapping_add(1);
            let id = ChannelId(self.last);
            if self.last != 0 && !self.map.contains_key(&id) {
                return id;
            }
        }
    }

    /// Opens a channel of a process; false if the number is taken.
    #[must_use]
    pub fn open(&mut self, client: ClientId, id: ChannelId) -> bool {
        let free = !self.map.contains_key(&id);
        if free {
            let channel = Channel { client, ids: BTreeSet::new(), waiting: VecDeque::new(), ready: true };
            self.map.insert(id, channel);
        }
        free
    }

    /// Removes a channel and its queued events.
    pub fn close(&mut self, id: ChannelId) -> Option<Channel> {
        self.map.remove(&id)
    }

    /// Returns a channel.
    pub fn look(&self, id: ChannelId) -> Option<&Channel> {
        self.map.get(&id)
    }

    /// Returns a channel, mutably.
    pub fn change(&mut self, id: ChannelId) -> Option<&mut Channel> {
        self.map.get_mut(&id)
    }

    /// Returns the number of events queued on a channel.
    pub fn waiting(&self, id: ChannelId) -> usize {
        self.map.get(&id).map_or(0, |channel| channel.waiting.len())
    }

    /// Returns the number of queued events that match.
    pub fn count(&self, id: ChannelId, matches: impl Fn(&Waiting) -> bool) -> usize {
        self.map.get(&id).map_or(0, |channel| channel.waiting.iter().filter(|waiting| matches(waiting)).count())
    }

    /// Sets whether a channel's events may be taken.
    pub fn set_ready(&mut self, id: ChannelId, ready: bool) {
        if let Some(channel) = self.map.get_mut(&id) {
            channel.ready = ready;
        }
        self.schedule(id);
    }

    /// Appends an event.
    pub fn push(&mut self, id: ChannelId, waiting: Waiting) {
        if let Some(channel) = self.map.get_mut(&id) {
            channel.waiting.push_back(waiting);
        }
        self.schedule(id);
    }

    /// Takes the next event, round robin over the channels.
    pub fn pop(&mut self) -> Option<(ChannelId, Waiting)> {
        while let Some(id) = self.turns.pop_front() {
            self.in_turns.remove(&id);
            let Some(channel) = self.map.get_mut(&id).filter(|channel| channel.ready) else { continue };
            if let Some(waiting) = channel.waiting.pop_front() {
                self.schedule(id);
                return Some((id, waiting));
            }
        }
        None
    }

    /// Removes the matching events from a channel and returns them in order.
    pub fn withdraw(&mut self, id: ChannelId, mut matches: impl FnMut(&Waiting) -> bool) -> Vec<Waiting> {
        let Some(channel) = self.map.get_mut(&id) else { return Vec::new() };
        let (taken, kept) = std::mem::take(&mut channel.waiting).into_iter().partition(|waiting| matches(waiting));
        channel.waiting = kept;
        Vec::from_iter::<VecDeque<Waiting>>(taken)
    }

    /// Puts an event that was taken too early back to the front.
    pub fn put_back(&mut self, id: ChannelId, waiting: Waiting) {
        if let Some(channel) = self.map.get_mut(&id) {
            channel.waiting.push_front(waiting);
        }
        self.schedule(id);
    }

    /// Returns all channels of a process.
    pub fn of_client(&self, client: ClientId) -> Vec<ChannelId> {
        self.map.iter().filter(|(_, channel)| channel.client == client).map(|(id, _)| *id).collect()
    }

    fn schedule(&mut self, id: ChannelId) {
        let Some(channel) = self.map.get(&id) else { return };
        if channel.ready && !channel.waiting.is_empty() && self.in_turns.insert(id) {
            self.turns.push_back(id);
        }
    }
}

/// Returns whether an event belongs to a membership.
pub fn is_of_group(waiting: &Waiting, group: GroupNumber) -> bool {
    waiting.event.group == Some(group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdma_cm::{Ece, EventKind, EventParam};

    fn event(owner: IdNumber) -> Waiting {
        let event = CmEvent {
            kind: EventKind::Established,
            id: owner,
            listener: None,
            group: None,
            cookie: 1,
            status: 0,
            param: EventParam::None,
            ece: Ece::default(),
        };
        Waiting { owner, event }
    }

    #[test]
    fn channels_take_turns_and_a_full_one_keeps_its_events() {
        let mut channels = Channels::default();
        let (a, b) = (channels.unused(), channels.unused());
        assert!(channels.open(ClientId(1), a) && channels.open(ClientId(2), b) && !channels.open(ClientId(2), a));
        for owner in [1, 2] {
            channels.push(a, event(owner));
            channels.push(b, event(owner + 10));
        }
        let mut popped = || channels.pop().map(|(channel, waiting)| (channel, waiting.owner));
        assert_eq!(popped(), Some((a, 1)));
        assert_eq!(popped(), Some((b, 11)));
        channels.set_ready(a, false);
        let mut popped = || channels.pop().map(|(channel, waiting)| (channel, waiting.owner));
        assert_eq!(popped(), Some((b, 12)));
        assert_eq!(popped(), None);
        channels.set_ready(a, true);
        assert_eq!(channels.pop().map(|(_, waiting)| waiting.owner), Some(2));
    }

    #[test]
    fn withdrawn_events_keep_their_order_and_so_do_the_others() {
        let mut channels = Channels::default();
        let a = channels.unused();
        assert!(channels.open(ClientId(1), a));
        for owner in [1, 2, 1, 3] {
            channels.push(a, event(owner));
        }
        let taken = channels.withdraw(a, |waiting| waiting.owner == 1);
        assert_eq!(taken.len(), 2);
        assert_eq!(channels.waiting(a), 2);
        assert_eq!(channels.pop().map(|(_, waiting)| waiting.owner), Some(2));
    }
}
