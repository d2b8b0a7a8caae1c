//! Streams of iWARP queue pairs: from the connection manager to the process with the queue pair, and news of their ends.

use std::time::Instant;

use weft_cm::iw::ConnId;
use weft_ipc::{Event, Request, StreamGrant};
use weft_verbs::slot_of_qpn;

use super::call::Outcome;
use super::dispatch::{Routed, Rules};
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
    pub fn hand_over_stream(&mut self, now: Instant, conn: ConnId, grant: StreamGrant) -> bool {
        let sessions = &mut self.shared.sessions;
        let user = self.cms.machine.stream_client(conn).map(|client| sessions.uid(client));
        let process = sessions.client_with_slot(slot_of_qpn(grant.qp_num)).filter(|id| Some(sessions.uid(*id)) == user);
        let Some(process) = process else {
            self.cms.machine.handle_stream_ended(now, grant.qp_num);
            return false;
        };
        let attach = Attach { stream: Some(conn), ..Attach::default() };
        sessions.tell_with(process, &Event::StreamOpened(grant), attach);
        true
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
