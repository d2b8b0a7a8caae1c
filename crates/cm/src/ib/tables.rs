//! State shared by all connections: timers, the tables that find a connection by its peer's identifiers, and the output
//! queues. All changes of a connection's state go through this type, so that the tables always agree with it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weft_mad::{GmpAddress, MadBytes, Retry, exponent_to_duration};
use weft_verbs::{Duration, Gid, Instant};
use weft_wire::cm::CmMessage;
use weft_wire::mad::{AttrId, Mad};

use super::comm_id::ConnId;
use super::conn::{Conn, RemoteQp};
use super::event::{Event, EventKind};
use super::limits::TRANSMIT_QUEUE_MAX;
use super::state::State;
use super::stats::{CmStats, column};

/// Timers, lookup tables and queues of all connections; see the module.
#[derive(Debug, Default)]
pub(super) struct ConnTables {
    pub timers: BTreeSet<(Instant, ConnId)>,
    /// By the peer's CA and communication id, which identify a repeated REQ.
    pub remote_ids: BTreeMap<(u64, u32), ConnId>,
    /// By the peer's GID, CA and queue pair, which identify an old connection. CAs and queue pairs are easily guessed:
    /// without the GID, a stranger who names a peer's could get the peer rejected as stale.
    pub remote_qps: BTreeMap<RemoteQp, ConnId>,
    /// SIDR requests by the peer and its request id.
    pub remote_sidrs: BTreeMap<(Gid, u32), ConnId>,
    /// Peer-to-peer REQs sent, by service and peer.
    pub peers: BTreeMap<(u64, Gid), ConnId>,
    /// Requests that await the owner's answer.
    pub pending: usize,
    /// Connections without an owner.
    pub orphans: usize,
    pub events: VecDeque<Event>,
    pub transmit: VecDeque<(GmpAddress, MadBytes)>,
    pub stats: CmStats,
}

impl ConnTables {
    /// Enters a state (or the same one again): stops timers, and removes table rows that no longer apply.
    pub fn enter(&mut self, now: Instant, conn: &mut Conn, next: State) {
        self.pending += usize::from(next.is_pending());
        self.pending -= usize::from(conn.state.is_pending());
        conn.state = next;
        self.forget(|tables| &mut tables.peers, (conn.service_id, conn.to.dgid), conn.id);
        if matches!(next, State::Idle | State::Timewait | State::DreqRcvd) {
            self.forget_remote_qp(conn);
        }
        if next == State::Idle {
            self.forget(|tables| &mut tables.remote_ids, (conn.remote_ca_guid, conn.remote_comm_id), conn.id);
            self.forget(|tables| &mut tables.remote_sidrs, (conn.to.dgid, conn.remote_comm_id), conn.id);
        }
        if matches!(next, State::MraReqRcvd | State::MraRepRcvd) {
            // The request stays pending; the peer only needs more time.
            return;
        }
        conn.ask = None;
        conn.retry = None;
        conn.reply = None;
        let wait = (next == State::Timewait).then(|| now + exponent_to_duration(conn.ack_timeout));
        self.arm(conn, wait);
    }

    /// Whether no table has a row, nothing is counted and the output queues are empty.
    pub fn is_empty(&self) -> bool {
        let tables = self.remote_ids.is_empty() && self.remote_qps.is_empty() && self.remote_sidrs.is_empty();
        let rest = self.peers.is_empty() && self.timers.is_empty();
        let queues = self.events.is_empty() && self.transmit.is_empty();
        tables && rest && queues && (self.pending, self.orphans) == (0, 0)
    }

    /// Forgets the peer's queue pair, which may then connect anew.
    pub fn forget_remote_qp(&mut self, conn: &Conn) {
        self.forget(|tables| &mut tables.remote_qps, conn.remote_qp(), conn.id);
    }

    /// Removes a row from a table if it is this connection's.
    fn forget<K: Ord>(&mut self, table: impl Fn(&mut ConnTables) -> &mut BTreeMap<K, ConnId>, key: K, conn: ConnId) {
        let table = table(self);
        if table.get(&key) == Some(&conn) {
            table.remove(&key);
        }
    }

    /// Sets or stops the timer of a connection.
    pub fn arm(&mut self, conn: &mut Conn, deadline: Option<Instant>) {
        if let Some(old) = conn.deadline.take() {
            self.timers.remove(&(old, conn.id));
        }
        if let Some(new) = deadline {
            self.timers.insert((new, conn.id));
        }
        conn.deadline = deadline;
    }

    /// Sends a message and repeats it until the state changes.
    pub fn ask(&mut self, now: Instant, conn: &mut Conn, message: impl Into<CmMessage>, attr_mod: u32) {
        let bytes = self.push(conn.to, &mad_of(message.into(), conn.tid, attr_mod));
        let retry = Retry::start(now, conn.timeout.max(Duration::from_millis(1)), conn.max_cm_retries);
        conn.ask = Some(Box::new(bytes));
        conn.retry = Some(retry);
        self.arm(conn, Some(retry.deadline()));
    }

    /// Stops repeating the pending message.
    pub fn answered(&mut self, conn: &mut Conn) {
        conn.ask = None;
        conn.retry = None;
        self.arm(conn, None);
    }

    /// Restarts the wait for the answer to the pending message, with this timeout.
    pub fn extend(&mut self, now: Instant, conn: &mut Conn, timeout: Duration) {
        if let Some(mut retry) = conn.retry {
            retry.extend(now, timeout);
            conn.retry = Some(retry);
            self.arm(conn, Some(retry.deadline()));
        }
    }

    /// Sends a message once, and keeps it to answer repeats of the message that it answers.
    pub fn reply(&mut self, conn: &mut Conn, message: impl Into<CmMessage>) {
        let bytes = self.push(conn.to, &mad_of(message.into(), conn.tid, 0));
        conn.reply = Some(Box::new(bytes));
    }

    /// Keeps a message to answer repeats of the message that it answers, without sending it.
    pub fn prepare(&mut self, conn: &mut Conn, message: impl Into<CmMessage>) {
        let mad = mad_of(message.into(), conn.tid, 0);
        conn.reply = Some(Box::new(zerocopy::transmute!(mad)));
    }

    /// Sends a message once.
    pub fn say(&mut self, conn: &Conn, message: impl Into<CmMessage>) {
        self.say_with(conn, message, 0);
    }

    /// Sends a message once, with options of enhanced connection establishment.
    pub fn say_with(&mut self, conn: &Conn, message: impl Into<CmMessage>, attr_mod: u32) {
        self.push(conn.to, &mad_of(message.into(), conn.tid, attr_mod));
    }

    /// Sends an answer to a peer without a connection.
    pub fn say_to_stranger(&mut self, to: &GmpAddress, tid: u64, message: impl Into<CmMessage>) {
        if !self.has_room() {
            return;
        }
        self.push(*to, &mad_of(message.into(), tid, 0));
    }

    /// Sends the pending message, or else the kept answer, again.
    pub fn say_again(&mut self, conn: &Conn) {
        let message = if conn.state == State::RepSent { &conn.ask } else { &conn.reply };
        if let Some(bytes) = message {
            self.push_again(conn.to, **bytes);
        }
    }

    /// Sends the pending message again.
    pub fn ask_again(&mut self, conn: &Conn) {
        if let Some(bytes) = &conn.ask {
            self.push_again(conn.to, **bytes);
        }
    }

    /// Returns whether the queue has room for a droppable message: an answer to a stranger, or one that will be
    /// repeated.
    pub fn has_room(&mut self) -> bool {
        let room = self.transmit.len() < TRANSMIT_QUEUE_MAX;
        self.stats.tx_dropped += u64::from(!room);
        room
    }

    fn push_again(&mut self, to: GmpAddress, bytes: MadBytes) {
        if !self.has_room() {
            return;
        }
        let mad: Mad = zerocopy::transmute!(bytes);
        self.stats.tx_retries[column(mad.header.attr_id())] += 1;
        self.push(to, &mad);
    }

    fn push(&mut self, to: GmpAddress, mad: &Mad) -> MadBytes {
        let bytes: MadBytes = zerocopy::transmute!(*mad);
        self.stats.tx_msgs[column(mad.header.attr_id())] += 1;
        self.transmit.push_back((to, bytes));
        bytes
    }

    /// Tells the owner, if there is one.
    pub fn tell(&mut self, conn: &Conn, kind: EventKind, private_data: &[u8]) {
        if !conn.orphan {
            self.events.push_back(Event { conn: conn.id, kind, private_data: private_data.to_vec() });
        }
    }

    /// Counts a repeated message.
    pub fn duplicate(&mut self, attr: AttrId) {
        self.stats.rx_duplicates[column(attr)] += 1;
    }
}

/// Builds the datagram of a message.
fn mad_of(message: CmMessage, tid: u64, attr_mod: u32) -> Mad {
    let mad = message.to_mad(tid);
    Mad { header: mad.header.with_attr_mod(attr_mod), ..mad }
}
