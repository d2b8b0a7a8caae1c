//! What all connections share: timers, the tables that find a connection by its peer's names, and what waits to be
//! fetched. A connection changes its state here and nowhere else, so that the tables always agree with it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weft_mad::{GmpAddress, MadBytes, Retry, exponent_to_duration};
use weft_verbs::{Duration, Gid, Instant};
use weft_wire::cm::CmMessage;
use weft_wire::mad::{AttrId, Mad};

use super::comm_id::ConnId;
use super::conn::Conn;
use super::event::{Event, EventKind};
use super::limits::TRANSMIT_QUEUE_MAX;
use super::state::State;
use super::stats::{CmStats, column};

/// A peer's queue pair: by address, adapter and number.
pub(super) type RemoteQp = (Gid, u64, u32);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub timers: BTreeSet<(Instant, ConnId)>,
    /// By the peer's adapter and communication id: what a repeated REQ is known by.
    pub remote_ids: BTreeMap<(u64, u32), ConnId>,
    /// By the peer, its adapter and its queue pair: what an old connection is known by. Adapters and queue pairs are easily
    /// guessed: without the address a stranger who names a peer's would have the peer rejected as stale.
    pub remote_qps: BTreeMap<RemoteQp, ConnId>,
    /// Requests for services by the peer and its request id.
    pub remote_sidrs: BTreeMap<(Gid, u32), ConnId>,
    /// Requests peer to peer that were sent, by service and peer.
    pub peers: BTreeMap<(u64, Gid), ConnId>,
    /// Requests that wait for their owner's answer.
    pub pending: usize,
    /// Connections without an owner.
    pub orphans: usize,
    pub events: VecDeque<Event>,
    pub transmit: VecDeque<(GmpAddress, MadBytes)>,
    pub stats: CmStats,
}

impl Book {
    /// Goes to another state (or enters the same one again): timers end, and the tables forget what they must.
    pub fn enter(&mut self, now: Instant, conn: &mut Conn, next: State) {
        self.pending += usize::from(next.is_pending());
        self.pending -= usize::from(conn.state.is_pending());
        conn.state = next;
        self.forget(|book| &mut book.peers, (conn.service_id, conn.to.dgid), conn.id);
        if matches!(next, State::Idle | State::Timewait | State::DreqRcvd) {
            self.forget_remote_qp(conn);
        }
        if next == State::Idle {
            self.forget(|book| &mut book.remote_ids, (conn.remote_ca_guid, conn.remote_comm_id), conn.id);
            self.forget(|book| &mut book.remote_sidrs, (conn.to.dgid, conn.remote_comm_id), conn.id);
        }
        if matches!(next, State::MraReqRcvd | State::MraRepRcvd) {
            // What was asked is still asked; the peer only needs time.
            return;
        }
        conn.ask = None;
        conn.retry = None;
        conn.reply = None;
        let wait = (next == State::Timewait).then(|| now + exponent_to_duration(conn.ack_timeout));
        self.arm(conn, wait);
    }

    /// Whether no table has a row, nothing is counted and nothing waits to be fetched.
    pub fn is_empty(&self) -> bool {
        let tables = self.remote_ids.is_empty() && self.remote_qps.is_empty() && self.remote_sidrs.is_empty();
        let rest = self.peers.is_empty() && self.timers.is_empty();
        let queues = self.events.is_empty() && self.transmit.is_empty();
        tables && rest && queues && (self.pending, self.orphans) == (0, 0)
    }

    /// The peer's queue pair may connect anew.
    pub fn forget_remote_qp(&mut self, conn: &Conn) {
        self.forget(|book| &mut book.remote_qps, conn.remote_qp(), conn.id);
    }

    /// Takes a row out of a table if it is this connection's.
    fn forget<K: Ord>(&mut self, table: impl Fn(&mut Book) -> &mut BTreeMap<K, ConnId>, key: K, conn: ConnId) {
        let table = table(self);
        if table.get(&key) == Some(&conn) {
            table.remove(&key);
        }
    }

    /// Sets or ends the timer of a connection.
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

    /// What was asked needs no answer any more.
    pub fn answered(&mut self, conn: &mut Conn) {
        conn.ask = None;
        conn.retry = None;
        self.arm(conn, None);
    }

    /// Waits longer for the answer to what was asked.
    pub fn extend(&mut self, now: Instant, conn: &mut Conn, timeout: Duration) {
        if let Some(mut retry) = conn.retry {
            retry.extend(now, timeout);
            conn.retry = Some(retry);
            self.arm(conn, Some(retry.deadline()));
        }
    }

    /// Sends a message once, and remembers it for when what it answers comes again.
    pub fn reply(&mut self, conn: &mut Conn, message: impl Into<CmMessage>) {
        let bytes = self.push(conn.to, &mad_of(message.into(), conn.tid, 0));
        conn.reply = Some(Box::new(bytes));
    }

    /// Remembers a message for when what it answers comes again, without sending it.
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

    /// Sends an answer to somebody with whom there is no connection.
    pub fn say_to_stranger(&mut self, to: &GmpAddress, tid: u64, message: impl Into<CmMessage>) {
        if !self.has_room() {
            return;
        }
        self.push(*to, &mad_of(message.into(), tid, 0));
    }

    /// Sends the message that is being repeated, or the one that answers, again.
    pub fn say_again(&mut self, conn: &Conn) {
        let message = if conn.state == State::RepSent { &conn.ask } else { &conn.reply };
        if let Some(bytes) = message {
            self.push_again(conn.to, **bytes);
        }
    }

    /// Sends what is being repeated.
    pub fn ask_again(&mut self, conn: &Conn) {
        if let Some(bytes) = &conn.ask {
            self.push_again(conn.to, **bytes);
        }
    }

    /// Whether one more message may wait that is an answer to what anybody may send at any rate, or comes again anyhow.
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

    /// Counts a message that came again.
    pub fn duplicate(&mut self, attr: AttrId) {
        self.stats.rx_duplicates[column(attr)] += 1;
    }
}

/// The datagram of a message.
fn mad_of(message: CmMessage, tid: u64, attr_mod: u32) -> Mad {
    let mad = message.to_mad(tid);
    Mad { header: mad.header.with_attr_mod(attr_mod), ..mad }
}
