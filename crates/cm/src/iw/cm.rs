//! The connections, their negotiations, and who hears of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use rustc_hash::FxHashMap;
use weft_iwarp::limits::DEPTH_MAX;
use weft_iwarp::{Negotiation, NegotiationError, NegotiationEvent, Offer, StreamParams};
use weft_verbs::{Errno, Instant};

use super::conn::{Conn, ConnId, Patience};
use super::event::{Event, SocketRequest};
use super::limits::{CONNECT_TIMEOUT, PRIVATE_DATA_BYTES_MAX, REQUESTS_MAX, UNREPORTED_ENDS_MAX};
use super::options::MpaOptions;
use super::phase::{self, Input, Phase};
use super::twins::Twins;

const ENOENT: Errno = 2;
const ENOMEM: Errno = 12;
const EINVAL: Errno = 22;
const EPROTO: Errno = 71;
const ECONNRESET: Errno = 104;
const ETIMEDOUT: Errno = 110;
const ECONNREFUSED: Errno = 111;

/// Parameters of a program that connects or accepts.
#[derive(Clone, Debug)]
pub struct ConnectParams {
    /// Number of the queue pair.
    pub qp_num: u32,
    /// READs of the peer that this side answers at a time.
    pub ird: u8,
    /// READs that this side wants outstanding.
    pub ord: u8,
    /// Private data for the peer.
    pub private_data: Vec<u8>,
}

/// The connections of all RNICs of a network namespace.
#[derive(Debug, Default)]
pub struct Cm {
    conns: BTreeMap<ConnId, Conn>,
    last: u64,
    /// Connections whose streams the process with a queue pair got and has not reported to have ended, the oldest first. It
    /// reports one end for each stream, in their order.
    by_qp: FxHashMap<u32, VecDeque<ConnId>>,
    deadlines: BTreeSet<(Instant, ConnId)>,
    twins: Twins,
    /// Connections of peers that no program accepted yet.
    requests: usize,
    out: VecDeque<SocketRequest>,
    events: VecDeque<(ConnId, Event)>,
}

impl Cm {
    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<(ConnId, Event)> {
        self.events.pop_front()
    }

    /// Returns the next request to the owner of the sockets.
    pub fn poll_request(&mut self) -> Option<SocketRequest> {
        self.out.pop_front()
    }

    /// Returns the phase of a connection.
    pub fn phase(&self, id: ConnId) -> Option<Phase> {
        self.conns.get(&id).map(|conn| conn.phase)
    }

    /// Returns the other end of a connection that a peer made, with the number of its queue pair, if that end is a
    /// connection of this namespace, too, and waits for the reply.
    pub fn twin(&self, id: ConnId) -> Option<(ConnId, u32)> {
        let conn = self.conns.get(&id).filter(|conn| conn.is_incoming)?;
        let twin = self.twins.of(conn.local, conn.peer)?;
        let initiator = self.conns.get(&twin).filter(|twin| twin.phase == Phase::Negotiating)?;
        Some((twin, initiator.qp_num?))
    }

    /// Records that the two ends of a connection exchange data without the stream. The responder's end is handed over
    /// first, so the decision about it is the one for both.
    pub fn pair(&mut self, id: ConnId, twin: ConnId) {
        let number = |conn: Option<&Conn>| conn.and_then(|conn| conn.qp_num);
        let numbers = (number(self.conns.get(&id)), number(self.conns.get(&twin)));
        if let (Some(own), Some(peer)) = numbers {
            self.conns.entry(id).and_modify(|conn| conn.peer_qp = Some(peer));
            self.conns.entry(twin).and_modify(|conn| conn.peer_qp = Some(own));
        }
    }

    /// Returns the number of the peer's queue pair, if the connection's data does not take the stream.
    pub fn peer_qp(&self, id: ConnId) -> Option<u32> {
        self.conns.get(&id)?.peer_qp
    }

    /// Connects a queue pair.
    ///
    /// # Errors
    /// `EINVAL`: the private data is too long.
    pub fn connect(
        &mut self,
        now: Instant,
        local: SocketAddr,
        peer: SocketAddr,
        options: &MpaOptions,
        params: ConnectParams,
    ) -> Result<ConnId, Errno> {
        check_private_data(&params.private_data)?;
        let offer = options.offer(params.ird, params.ord);
        let conn = Conn {
            phase: Phase::Connecting,
            local,
            peer,
            offer,
            patience: Patience::new(now),
            private_data: params.private_data,
            qp_num: Some(params.qp_num),
            negotiation: None,
            deadline: None,
            is_incoming: false,
            peer_qp: None,
        };
        let id = self.insert(conn);
        self.start(now, id);
        Ok(id)
    }

    /// Notes that TCP connected, from this local address.
    pub fn handle_connected(&mut self, now: Instant, id: ConnId, local: SocketAddr) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let Some(next) = phase::next(conn.phase, Input::Connected) else { return };
        match Negotiation::initiator(now, conn.offer, &conn.private_data) {
            Ok(negotiation) => {
                (conn.phase, conn.local, conn.negotiation) = (next, local, Some(negotiation));
                self.twins.insert(local, conn.peer, id);
                self.advance(now, id);
            }
            Err(_) => self.fail(id, EINVAL),
        }
    }

    /// Takes a TCP connection of a peer, which must now send its request. `None` if too many wait: the caller closes the
    /// socket.
    pub fn handle_accepted(
        &mut self,
        now: Instant,
        local: SocketAddr,
        peer: SocketAddr,
        options: &MpaOptions,
    ) -> Option<ConnId> {
        if self.requests >= REQUESTS_MAX {
            return None;
        }
        self.requests += 1;
        let offer = options.offer(0, 0);
        let conn = Conn {
            phase: Phase::Negotiating,
            local,
            peer,
            offer,
            patience: Patience::NONE,
            private_data: Vec::new(),
            qp_num: None,
            negotiation: Some(Negotiation::responder(now, offer)),
            deadline: None,
            is_incoming: true,
            peer_qp: None,
        };
        let id = self.insert(conn);
        self.advance(now, id);
        Some(id)
    }

    /// Returns how many bytes the owner of the sockets may read at most: those after a frame belong to the stream.
    pub fn wants(&self, id: ConnId) -> usize {
        self.conns.get(&id).and_then(|conn| conn.negotiation.as_ref()).map_or(0, Negotiation::wants)
    }

    /// Handles received bytes, no more than [`Cm::wants`].
    pub fn handle_bytes(&mut self, now: Instant, id: ConnId, bytes: &[u8]) {
        if let Some(negotiation) = self.conns.get_mut(&id).and_then(|conn| conn.negotiation.as_mut()) {
            negotiation.handle_bytes(now, bytes);
            self.advance(now, id);
        }
    }

    /// Handles the end of a TCP connection, or the errno with which it failed.
    pub fn handle_closed(&mut self, now: Instant, id: ConnId, errno: Option<Errno>) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        match (&mut conn.negotiation, errno) {
            (Some(negotiation), None) => {
                negotiation.handle_close();
                self.advance(now, id);
            }
            (None, Some(ECONNREFUSED)) => self.on_refused(now, id),
            (_, errno) => self.fail(id, errno.unwrap_or(ECONNRESET)),
        }
    }

    /// Accepts a peer's request for a queue pair.
    ///
    /// # Errors
    /// `EINVAL`: the private data is too long, or the connection is not in this phase. `ENOENT`: it is gone.
    pub fn accept(&mut self, now: Instant, id: ConnId, params: &ConnectParams) -> Result<(), Errno> {
        check_private_data(&params.private_data)?;
        let conn = self.conns.get_mut(&id).ok_or(ENOENT)?;
        let (Phase::Requested, Some(negotiation)) = (conn.phase, &mut conn.negotiation) else { return Err(EINVAL) };
        negotiation
            .accept(now, params.ird.into(), params.ord.into(), &params.private_data)
            .map_err(|error| if error == NegotiationError::PrivateData { EINVAL } else { ECONNRESET })?;
        conn.qp_num = Some(params.qp_num);
        self.advance(now, id);
        Ok(())
    }

    /// Rejects a peer's request; the connection is gone.
    ///
    /// # Errors
    /// `EINVAL`: the private data is too long, or the connection is not in this phase. `ENOENT`: it is gone.
    pub fn reject(&mut self, id: ConnId, private_data: &[u8]) -> Result<(), Errno> {
        check_private_data(private_data)?;
        let conn = self.conns.get_mut(&id).ok_or(ENOENT)?;
        let (Phase::Requested, Some(negotiation)) = (conn.phase, &mut conn.negotiation) else { return Err(EINVAL) };
        negotiation.reject(private_data).map_err(|_| EINVAL)?;
        self.flush(id);
        self.remove(id);
        Ok(())
    }

    /// Closes a connection for its program. Of a stream that is handed over [`Event::Closed`] follows; of others nothing
    /// is heard any more.
    pub fn close(&mut self, id: ConnId) {
        match self.conns.get(&id) {
            Some(Conn { phase: Phase::Handed, qp_num: Some(qp_num), .. }) => {
                // Of an older stream the queue pair is rid already.
                if self.by_qp.get(qp_num).and_then(VecDeque::back) == Some(&id) {
                    self.out.push_back(SocketRequest::CloseStream { qp_num: *qp_num });
                }
            }
            _ => self.remove(id),
        }
    }

    /// Closes a connection whose program is gone: nothing is heard of it any more.
    pub fn destroy(&mut self, id: ConnId) {
        self.close(id);
        self.forget(id);
    }

    /// Notes that the oldest stream of a queue pair ended.
    pub fn handle_stream_ended(&mut self, qp_num: u32) {
        let Some(streams) = self.by_qp.get_mut(&qp_num) else { return };
        let ended = streams.pop_front();
        if streams.is_empty() {
            self.by_qp.remove(&qp_num);
        }
        // Its program may be gone.
        if let Some(id) = ended.filter(|id| self.conns.contains_key(id)) {
            self.forget(id);
            self.events.push_back((id, Event::Closed));
        }
    }

    /// Notes that the streams of these queue pairs ended: their process is gone.
    pub fn handle_streams_gone(&mut self, of: impl Fn(u32) -> bool) {
        let gone: Vec<u32> = self.by_qp.keys().copied().filter(|qp_num| of(*qp_num)).collect();
        for qp_num in gone {
            while self.by_qp.contains_key(&qp_num) {
                self.handle_stream_ended(qp_num);
            }
        }
    }

    /// Returns when [`Cm::handle_timeout`] must be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Handles the deadlines that have passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((at, id)) = self.deadlines.first().copied()
            && at <= now
        {
            self.set_deadline(id, None);
            let Some(conn) = self.conns.get_mut(&id) else { continue };
            if let Some(negotiation) = &mut conn.negotiation {
                negotiation.handle_timeout(now);
                self.advance(now, id);
            } else if let Some(next) = phase::next(conn.phase, Input::PauseOver) {
                conn.phase = next;
                self.start(now, id);
            } else {
                self.fail(id, ETIMEDOUT);
            }
        }
    }

    /// Has TCP connect.
    fn start(&mut self, now: Instant, id: ConnId) {
        let Some(conn) = self.conns.get(&id) else { return };
        self.out.push_back(SocketRequest::Connect { conn: id, local: conn.local, peer: conn.peer });
        self.set_deadline(id, Some(now + CONNECT_TIMEOUT));
    }

    /// Tries a connection again whose peer does not listen yet.
    fn on_refused(&mut self, now: Instant, id: ConnId) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        match (phase::next(conn.phase, Input::Refused), conn.patience.next(now)) {
            (Some(next), Some(again)) => {
                conn.phase = next;
                self.out.push_back(SocketRequest::Close { conn: id });
                self.set_deadline(id, Some(again));
            }
            _ => self.fail(id, ECONNREFUSED),
        }
    }

    fn insert(&mut self, conn: Conn) -> ConnId {
        self.last += 1;
        let id = ConnId(self.last);
        self.conns.insert(id, conn);
        id
    }

    /// Acts on what a negotiation says, sends what it wrote, and follows its deadline.
    fn advance(&mut self, now: Instant, id: ConnId) {
        self.flush(id);
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let Some(negotiation) = &mut conn.negotiation else { return };
        let (deadline, event) = (negotiation.poll_timeout(), negotiation.poll_event());
        match event {
            None => {}
            Some(NegotiationEvent::Requested { ird, ord }) => self.on_requested(id, ird, ord),
            Some(NegotiationEvent::Opened(params)) => return self.on_opened(id, params),
            Some(NegotiationEvent::Rejected) => {
                let private_data = negotiation.private_data().to_vec();
                return self.end(id, ECONNRESET, private_data);
            }
            Some(NegotiationEvent::Failed(error)) => return self.on_failed(now, id, error),
        }
        self.set_deadline(id, deadline);
    }

    fn flush(&mut self, id: ConnId) {
        let Some(negotiation) = self.conns.get_mut(&id).and_then(|conn| conn.negotiation.as_mut()) else { return };
        let bytes = negotiation.transmit().to_vec();
        if !bytes.is_empty() {
            negotiation.sent(bytes.len());
            self.out.push_back(SocketRequest::Send { conn: id, bytes });
        }
    }

    fn on_requested(&mut self, id: ConnId, ird: Option<u16>, ord: Option<u16>) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let Some(next) = phase::next(conn.phase, Input::Requested) else { return };
        conn.phase = next;
        let depth = |depth: Option<u16>| narrow(depth.unwrap_or(DEPTH_MAX).min(DEPTH_MAX));
        let event = Event::Requested {
            local: conn.local,
            peer: conn.peer,
            ird: depth(ird),
            ord: depth(ord),
            private_data: conn.negotiation.as_ref().map_or(Vec::new(), |side| side.private_data().to_vec()),
        };
        self.events.push_back((id, event));
    }

    fn on_opened(&mut self, id: ConnId, params: StreamParams) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let (Some(next), Some(qp_num)) = (phase::next(conn.phase, Input::Opened), conn.qp_num) else { return };
        conn.phase = next;
        let (ird, ord) = (narrow(params.ird), narrow(params.ord));
        let private_data = match (conn.is_incoming, conn.negotiation.take()) {
            (false, Some(side)) => side.private_data().to_vec(),
            _ => Vec::new(),
        };
        let local = (!conn.is_incoming).then_some(conn.local);
        if conn.is_incoming {
            self.requests -= 1;
        } else {
            self.twins.remove(conn.local, conn.peer, id);
        }
        self.set_deadline(id, None);
        let streams = self.by_qp.entry(qp_num).or_default();
        streams.push_back(id);
        if streams.len() > UNREPORTED_ENDS_MAX {
            self.handle_stream_ended(qp_num);
        }
        self.out.push_back(SocketRequest::HandOver { conn: id, qp_num, params });
        self.events.push_back((id, Event::Established { local, ird, ord, private_data }));
    }

    fn on_failed(&mut self, now: Instant, id: ConnId, error: NegotiationError) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let may_be_old = matches!(error, NegotiationError::ClosedWithoutReply | NegotiationError::Revision);
        if may_be_old && !conn.is_incoming && conn.offer.revision > 1 {
            // The peer may know revision 1 alone: ask once more.
            conn.offer = Offer { revision: 1, ..conn.offer };
            (conn.phase, conn.negotiation, conn.peer_qp) = (Phase::Connecting, None, None);
            // Its listener may be busy with the connection that it ended.
            conn.patience = Patience::new(now);
            let (local, peer) = (conn.local, conn.peer);
            self.twins.remove(local, peer, id);
            self.out.push_back(SocketRequest::Close { conn: id });
            return self.start(now, id);
        }
        self.fail(id, errno_of(error));
    }

    /// Ends a connection that did not come about.
    fn fail(&mut self, id: ConnId, errno: Errno) {
        self.end(id, errno, Vec::new());
    }

    fn end(&mut self, id: ConnId, errno: Errno, private_data: Vec<u8>) {
        let Some(conn) = self.conns.get(&id) else { return };
        // No program has heard of a peer's connection before its request.
        let is_known = !conn.is_incoming || conn.phase != Phase::Negotiating;
        self.remove(id);
        if is_known {
            self.events.push_back((id, Event::Failed { errno, private_data }));
        }
    }

    /// Closes the socket of a connection, and forgets it.
    fn remove(&mut self, id: ConnId) {
        if self.conns.contains_key(&id) {
            self.forget(id);
            self.out.push_back(SocketRequest::Close { conn: id });
        }
    }

    fn forget(&mut self, id: ConnId) {
        self.set_deadline(id, None);
        let Some(conn) = self.conns.remove(&id) else { return };
        if !conn.is_incoming {
            self.twins.remove(conn.local, conn.peer, id);
        } else if conn.phase != Phase::Handed {
            self.requests -= 1;
        }
    }

    fn set_deadline(&mut self, id: ConnId, deadline: Option<Instant>) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if let Some(old) = std::mem::replace(&mut conn.deadline, deadline) {
            self.deadlines.remove(&(old, id));
        }
        if let Some(new) = deadline {
            self.deadlines.insert((new, id));
        }
    }
}

fn check_private_data(data: &[u8]) -> Result<(), Errno> {
    if data.len() > PRIVATE_DATA_BYTES_MAX { Err(EINVAL) } else { Ok(()) }
}

/// Returns the errno that siw reports for a failed negotiation.
fn errno_of(error: NegotiationError) -> Errno {
    match error {
        NegotiationError::Timeout => ETIMEDOUT,
        NegotiationError::Closed | NegotiationError::ClosedWithoutReply => ECONNRESET,
        NegotiationError::InsufficientIrd => ENOMEM,
        NegotiationError::PrivateData | NegotiationError::State => EINVAL,
        NegotiationError::NotMpa | NegotiationError::Revision | NegotiationError::NoMatchingRtr => EPROTO,
    }
}

fn narrow(depth: u16) -> u8 {
    u8::try_from(depth).unwrap_or(u8::MAX)
}
