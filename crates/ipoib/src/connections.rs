//! Connections of an interface in connected mode (RFC 4755 §3), with one queue pair for each direction, as Linux has them:
//! both ends open the one for their own packets, so requests that cross do not meet.
//!
//! ```text
//!   for sending                            REJ, no answer
//!                                     ┌──────────────────────▶ REFUSED ──30 s──▶ absent
//!           packet             path   │           REP
//!   absent ────────▶ RESOLVING ────▶ REQUESTED ─────────▶ CONNECTED ──DREQ, broken, idle──▶ absent
//!
//!   for receiving       REQ
//!              absent ─────────▶ ACCEPTED ──DREQ, broken, idle, room for another──▶ absent
//! ```
//!
//! A refused peer gets datagrams. The port's end ends all connections.

use std::collections::{BTreeMap, VecDeque};

use weft_verbs::{Duration, Instant};
use weft_wire::ipoib::{ConnectedData, LinkAddress};
use weft_wire::mad::sa::PathRecord;

use crate::frame::Frame;
use crate::held::Held;
use crate::limits::{
    INCOMING_IDLE, INCOMING_MAX, INCOMING_PER_PEER_MAX, OUTGOING_IDLE, OUTGOING_MAX, REFUSED_FOR, SWEEP_EVERY,
};
use crate::output::{Connection, Output};
use crate::paths::Gid;

/// A peer's interface: GID of its port, queue pair for datagrams.
type Peer = (Gid, u32);

#[derive(Clone, Debug)]
enum State {
    Resolving(Held),
    Requested(Held, (u16, u8)),
    /// With the longest frame that the peer takes, and the LID and service level that lead to it.
    Connected(u32, (u16, u8)),
    Refused {
        until: Instant,
    },
}

#[derive(Clone, Debug)]
struct Outgoing {
    number: u32,
    to: LinkAddress,
    state: State,
    used: Instant,
}

#[derive(Clone, Debug)]
struct Incoming {
    gid: Gid,
    qpn: u32,
    used: Instant,
    /// Whether it has carried a message.
    carried: bool,
}

/// Action for a packet to a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// It goes over this connection, if the frame is not longer than this.
    Connected { connection: u32, frame_max: u32 },
    /// It waits, and the path to the peer is needed.
    Unresolved,
    /// It waits for the connection.
    Pending,
    /// It goes as a datagram.
    Refused,
}

/// The connections of an interface.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections {
    outgoing: BTreeMap<Peer, Outgoing>,
    incoming: BTreeMap<u32, Incoming>,
    last_number: u32,
    /// Time to look for idle connections, while there are any.
    sweep_at: Option<Instant>,
}

impl Connections {
    /// Looks up the connection for a packet.
    pub fn find(&mut self, now: Instant, to: &LinkAddress, out: &mut Vec<Output>) -> Found {
        let peer = (to.gid, to.qpn);
        if self.outgoing.get(&peer).is_some_and(|entry| matches!(entry.state, State::Refused { until } if until <= now))
        {
            self.outgoing.remove(&peer);
        }
        self.make_room(&peer, out);
        self.sweep_at.get_or_insert(now + SWEEP_EVERY);
        let number = &mut self.last_number;
        let entry = self.outgoing.entry(peer).or_insert_with(|| {
            *number = number.wrapping_add(1);
            Outgoing { number: *number, to: *to, state: State::Resolving(Held::default()), used: now }
        });
        entry.used = now;
        match entry.state {
            State::Connected(frame_max, _) => Found::Connected { connection: entry.number, frame_max },
            State::Resolving(_) => Found::Unresolved,
            State::Requested(..) => Found::Pending,
            State::Refused { .. } => Found::Refused,
        }
    }

    /// Makes room for one more connection for sending: the one that was used least recently ends.
    fn make_room(&mut self, peer: &Peer, out: &mut Vec<Output>) {
        if self.outgoing.len() >= OUTGOING_MAX
            && !self.outgoing.contains_key(peer)
            && let Some(oldest) = self.outgoing.iter().min_by_key(|(_, entry)| entry.used).map(|(peer, _)| *peer)
        {
            self.outgoing.remove(&oldest).iter().for_each(|entry| entry.end(out));
        }
    }

    /// Keeps a frame until its connection is there.
    pub fn hold(&mut self, to: &LinkAddress, frame: Frame) {
        if let Some(State::Resolving(held) | State::Requested(held, _)) =
            self.outgoing.get_mut(&(to.gid, to.qpn)).map(|entry| &mut entry.state)
        {
            held.push(frame);
        }
    }

    /// Handles a path: connections that wait for it are requested, and those that took another way end.
    pub fn on_path(&mut self, record: &PathRecord, data: ConnectedData, out: &mut Vec<Output>) {
        let way = (record.dlid, record.sl);
        let mut moved = Vec::new();
        for (peer, entry) in self.outgoing.range_mut((record.dgid, 0)..=(record.dgid, u32::MAX)) {
            match &mut entry.state {
                State::Resolving(held) => {
                    let held = std::mem::take(held);
                    let (connection, to) = (entry.number, entry.to);
                    out.push(Output::Connect { connection, to, path: Box::new(*record), data });
                    entry.state = State::Requested(held, way);
                }
                State::Requested(_, old) | State::Connected(_, old) if *old != way => moved.push(*peer),
                _ => {}
            }
        }
        for peer in moved {
            self.outgoing.remove(&peer).iter().for_each(|entry| entry.end(out));
        }
    }

    /// Handles the answer that there is no path: what waited for it is lost.
    pub fn on_no_path(&mut self, dgid: &Gid) {
        self.outgoing.retain(|(gid, _), entry| gid != dgid || !matches!(entry.state, State::Resolving(_)));
    }

    fn numbered(&mut self, connection: u32) -> Option<&mut Outgoing> {
        self.outgoing.values_mut().find(|entry| entry.number == connection)
    }

    /// Handles the peer's acceptance. Returns the link-layer address and the frames that waited.
    pub fn on_connected(&mut self, connection: u32, frame_max: u32) -> Option<(LinkAddress, VecDeque<Frame>)> {
        let entry = self.numbered(connection)?;
        let State::Requested(held, way) = &mut entry.state else { return None };
        let (frames, way) = (held.take(), *way);
        entry.state = State::Connected(frame_max, way);
        Some((entry.to, frames))
    }

    /// Handles the peer's refusal. Returns the link-layer address and the frames that waited.
    pub fn on_refused(&mut self, now: Instant, connection: u32) -> Option<(LinkAddress, VecDeque<Frame>)> {
        let entry = self.numbered(connection)?;
        let State::Requested(held, _) = &mut entry.state else { return None };
        let frames = held.take();
        entry.state = State::Refused { until: now + REFUSED_FOR };
        Some((entry.to, frames))
    }

    /// Handles the end of a connection for sending, whose packets are lost. Returns the peer's GID.
    pub fn on_outgoing_end(&mut self, connection: u32) -> Option<Gid> {
        let peer = self.outgoing.iter().find(|(_, entry)| entry.number == connection).map(|(peer, _)| *peer)?;
        self.outgoing.remove(&peer).map(|entry| entry.to.gid)
    }

    /// Accepts a connection for receiving; `false` if there is no room. Connections that have carried nothing make room
    /// for it, and the peer's own oldest one does.
    pub fn accept(&mut self, now: Instant, number: u32, peer: Peer, out: &mut Vec<Output>) -> bool {
        let of_peer = || self.incoming.iter().filter(|(_, entry)| entry.gid == peer.0);
        let makes_room = if of_peer().count() >= INCOMING_PER_PEER_MAX {
            of_peer().min_by_key(|(_, entry)| entry.used).map(|(number, _)| *number)
        } else if self.incoming.len() >= INCOMING_MAX {
            let unused = self.incoming.iter().filter(|(_, entry)| !entry.carried);
            let Some(oldest) = unused.min_by_key(|(_, entry)| entry.used).map(|(number, _)| *number) else {
                return false;
            };
            Some(oldest)
        } else {
            None
        };
        if let Some(number) = makes_room {
            self.incoming.remove(&number);
            out.push(Output::Disconnect(Connection::Incoming(number)));
        }
        let (gid, qpn) = peer;
        self.incoming.insert(number, Incoming { gid, qpn, used: now, carried: false });
        self.sweep_at.get_or_insert(now + SWEEP_EVERY);
        true
    }

    /// Notes a message on a connection for receiving. Returns the peer's queue pair for datagrams.
    pub fn on_message(&mut self, now: Instant, number: u32) -> Option<u32> {
        let entry = self.incoming.get_mut(&number)?;
        (entry.used, entry.carried) = (now, true);
        Some(entry.qpn)
    }

    /// Handles the end of a connection for receiving.
    pub fn on_incoming_end(&mut self, number: u32) {
        self.incoming.remove(&number);
    }

    /// Returns the GIDs of the peers that this interface is connected to, or will be.
    pub fn peers(&self) -> impl Iterator<Item = Gid> {
        let waits = |entry: &&Outgoing| matches!(entry.state, State::Requested(..) | State::Connected(..));
        self.outgoing.values().filter(waits).map(|entry| entry.to.gid)
    }

    /// Returns the numbers of connections: established for sending, and for receiving.
    pub fn count(&self) -> (usize, usize) {
        let connected = |entry: &&Outgoing| matches!(entry.state, State::Connected(..));
        (self.outgoing.values().filter(connected).count(), self.incoming.len())
    }

    /// Returns when [`Connections::handle_timeout`] must be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.sweep_at
    }

    /// Ends idle connections.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut Vec<Output>) {
        if self.sweep_at.is_none_or(|at| at > now) {
            return;
        }
        let is_idle = |used: Instant, most: Duration| now.since(used) >= most;
        self.outgoing.retain(|_, entry| {
            let ends = match entry.state {
                State::Refused { until } => until <= now,
                State::Connected(..) => is_idle(entry.used, OUTGOING_IDLE),
                // The path's query and the request have timeouts of their own.
                State::Resolving(_) | State::Requested(..) => false,
            };
            ends.then(|| entry.end(out));
            !ends
        });
        self.incoming.retain(|number, entry| {
            let ends = is_idle(entry.used, INCOMING_IDLE);
            ends.then(|| out.push(Output::Disconnect(Connection::Incoming(*number))));
            !ends
        });
        let any = !self.outgoing.is_empty() || !self.incoming.is_empty();
        self.sweep_at = any.then(|| now + SWEEP_EVERY);
    }

    /// Ends all connections.
    pub fn reset(&mut self, out: &mut Vec<Output>) {
        self.outgoing.values().for_each(|entry| entry.end(out));
        out.extend(self.incoming.keys().map(|number| Output::Disconnect(Connection::Incoming(*number))));
        (self.outgoing, self.incoming, self.sweep_at) = (BTreeMap::new(), BTreeMap::new(), None);
    }
}

impl Outgoing {
    /// Ends the connection for the driver, if the driver knows it.
    fn end(&self, out: &mut Vec<Output>) {
        if matches!(self.state, State::Requested(..) | State::Connected(..)) {
            out.push(Output::Disconnect(Connection::Outgoing(self.number)));
        }
    }
}
