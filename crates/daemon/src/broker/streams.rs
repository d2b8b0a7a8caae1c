//! Streams of iWARP queue pairs: from the connection manager to the process with the queue pair, and news of their ends.

use std::time::Instant;

use weft_cm::iw::{ConnId, StreamParams};
use weft_ipc::{Event, Request, StreamGrant};
use weft_verbs::slot_of_qpn;

use super::call::Outcome;
use super::route::{Routed, Rules};
use super::{Attach, Broker};
use crate::host::Host;
use crate::slots::ClientId;

/// The requests of this feature.
pub(super) fn route<H: Host>(request: Request) -> Routed<H> {
    Routed::Here(match request {
        Request::StreamEnded { qp_num } => Rules::PLAIN.during_recovery().to(move |broker, call| {
            if broker.shared.sessions.slot(call.id) == Some(slot_of_qpn(qp_num)) {
                broker.cms.machine.handle_stream_ended(call.now, qp_num);
            }
            Ok(Outcome::NoReply)
        }),
        other => return Routed::Elsewhere(other),
    })
}

impl Broker {
    /// Sends a connection's socket to the process that has the queue pair: one of the same user as the connection's.
    /// Returns whether there is one; otherwise the stream has ended.
    pub fn hand_over_stream(&mut self, now: Instant, conn: ConnId, qp_num: u32, params: StreamParams) -> bool {
        let Some(process) = self.process_of_stream(conn, qp_num) else {
            self.cms.machine.handle_stream_ended(now, qp_num);
            return false;
        };
        let peer_qp = self.peer_within_host(conn, qp_num, &params);
        let attach = Attach { stream: Some(conn), ..Attach::default() };
        let grant = StreamGrant { qp_num, params, peer_qp };
        self.shared.sessions.tell_with(process, &Event::StreamOpened(grant), attach);
        true
    }

    fn process_of_stream(&self, conn: ConnId, qp_num: u32) -> Option<ClientId> {
        let sessions = &self.shared.sessions;
        let user = self.cms.machine.stream_client(conn).map(|client| sessions.uid(client));
        sessions.client_with_slot(slot_of_qpn(qp_num)).filter(|id| Some(sessions.uid(*id)) == user)
    }

    /// Returns the number of the peer's queue pair, if both processes can meet and neither asked for the stream. The first
    /// call for a connection, at the responder's end, decides for both ends.
    fn peer_within_host(&mut self, conn: ConnId, qp_num: u32, params: &StreamParams) -> Option<u32> {
        if let Some(peer) = self.cms.machine.stream_peer(conn) {
            return Some(peer);
        }
        // A program that asks for CRCs, markers or revision 1 wants these in its stream.
        let is_plain = params.extensions && !params.crc && !params.markers_in && !params.markers_out;
        let (twin, peer) = self.cms.machine.stream_twin(conn).filter(|_| is_plain)?;
        let can_meet = |conn, qp_num| {
            let process = self.process_of_stream(conn, qp_num);
            process.is_some_and(|process| self.peers.is_published(slot_of_qpn(qp_num), process))
        };
        if !can_meet(conn, qp_num) || !can_meet(twin, peer) {
            return None;
        }
        self.cms.machine.pair_streams(conn, twin);
        Some(peer)
    }

    /// Has the process with a queue pair close its stream.
    pub fn close_stream(&mut self, now: Instant, qp_num: u32) {
        match self.shared.sessions.client_with_slot(slot_of_qpn(qp_num)) {
            Some(process) => self.tell_close(process, qp_num),
            None => self.cms.machine.handle_stream_ended(now, qp_num),
        }
    }

    fn tell_close(&mut self, process: ClientId, qp_num: u32) {
        self.shared.sessions.tell(process, &Event::CloseStream { qp_num }, None);
    }
}
