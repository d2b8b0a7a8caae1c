//! Reliable connections through the connection manager: the server sends its port over TCP.

use std::time::{Duration, Instant};

use libc::AI_NUMERICHOST;
use weft_abi_types::{
    IBV_QP_MIN_RNR_TIMER, RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_DISCONNECTED,
    RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_PS_TCP, rdma_cm_event_type,
};

use super::verbs::{Verbs, Wanted};
use crate::tools::qperf::control::{Failure, Result, system};
use crate::tools::qperf::run::{NAP, Run};
use weft_client::rdmacm::{CmId, CmLibrary, ConnParam, Event, EventChannel, SockAddr, lookup, readable};
use weft_client::verbs::{Qp, no_attributes};

/// Connection parameters of both sides.
const PARAM: ConnParam = ConnParam {
    private_data: Vec::new(),
    responder_resources: 1,
    initiator_depth: 1,
    retry_count: 7,
    rnr_retry_count: 7,
    qp_num: 0,
};

/// A connection, and the listener that accepted it.
pub struct Connection {
    id: CmId,
    _listener: Option<CmId>,
    channel: EventChannel,
}

impl Connection {
    /// Connects to the server, or waits for the client to connect.
    pub fn open(run: &mut Run, wanted: Wanted) -> Result<(Connection, Verbs, Qp)> {
        let library = CmLibrary::load(run.which).map_err(|e| Failure::Ours(format!("{e:#}")))?;
        let failed = |_| Failure::Ours("rdma_create_event_channel failed".to_owned());
        let channel = EventChannel::new(library).map_err(failed)?;
        let id = CmId::new(&channel, RDMA_PS_TCP).map_err(|e| system("rdma_create_id failed", &e))?;
        if run.client {
            Connection::connect(run, channel, id, wanted)
        } else {
            Connection::accept(run, channel, id, wanted)
        }
    }

    fn connect(run: &mut Run, channel: EventChannel, id: CmId, wanted: Wanted) -> Result<(Connection, Verbs, Qp)> {
        let port = u32::from_le_bytes(run.control.recv("RDMA CM TCP IPv4 server port")?);
        let peer = run.control.stream().peer_addr().map_err(|e| system("getpeername failed", &e))?;
        let addr = lookup(Some(&peer.ip().to_canonical().to_string()), None, AI_NUMERICHOST)
            .map_err(|e| Failure::Ours(format!("getaddrinfo failed: {e}")))?
            .with_port(port as u16);
        let connection = Connection { id, _listener: None, channel };
        let (id, timeout_ms) = (&connection.id, run.control.timeout.as_millis() as i32);
        id.resolve_addr(None, &addr, timeout_ms).map_err(|e| system("rdma_resolve_addr failed", &e))?;
        connection.expect(run, RDMA_CM_EVENT_ADDR_RESOLVED)?;
        id.resolve_route(timeout_ms).map_err(|e| system("rdma_resolve_route failed", &e))?;
        connection.expect(run, RDMA_CM_EVENT_ROUTE_RESOLVED)?;
        let (verbs, qp) = queue_pair(run, id, wanted)?;
        id.connect(&PARAM).map_err(|e| system("rdma_connect failed", &e))?;
        connection.expect(run, RDMA_CM_EVENT_ESTABLISHED)?;
        Ok((connection, verbs, qp))
    }

    fn accept(run: &mut Run, channel: EventChannel, listener: CmId, wanted: Wanted) -> Result<(Connection, Verbs, Qp)> {
        listener.bind(&SockAddr::any_v4()).map_err(|e| system("rdma_bind_addr failed", &e))?;
        listener.listen(0).map_err(|e| system("rdma_listen failed", &e))?;
        run.control.send(&u32::from(listener.local_port()).to_le_bytes(), "RDMA CM TCP IPv4 server port")?;
        let event = expect(run, &channel, RDMA_CM_EVENT_CONNECT_REQUEST)?;
        let id = event.incoming.ok_or_else(|| Failure::Ours("a request without an id".to_owned()))?;
        // Dropping an id rejects the connection, so the peer must receive the reason first.
        let (verbs, qp) = queue_pair(run, &id, wanted).map_err(|failure| run.control.told_now(failure))?;
        id.accept(Some(&PARAM)).map_err(|e| system("rdma_accept failed", &e))?;
        let connection = Connection { id, _listener: Some(listener), channel };
        connection.expect(run, RDMA_CM_EVENT_ESTABLISHED)?;
        let mut attr = no_attributes();
        attr.min_rnr_timer = 12;
        // If this fails, the default is good enough.
        let _ = qp.modify_with(attr, IBV_QP_MIN_RNR_TIMER);
        Ok((connection, verbs, qp))
    }

    fn expect(&self, run: &Run, kind: rdma_cm_event_type) -> Result<Event> {
        expect(run, &self.channel, kind)
    }

    /// Disconnects, or waits for the client to disconnect.
    pub fn close(&self, run: &Run) -> Result<()> {
        if run.client {
            self.id.disconnect().map_err(|e| system("rdma_disconnect failed", &e))?;
        }
        self.expect(run, RDMA_CM_EVENT_DISCONNECTED)?;
        if !run.client {
            let _ = self.id.disconnect();
        }
        Ok(())
    }
}

fn queue_pair(run: &Run, id: &CmId, wanted: Wanted) -> Result<(Verbs, Qp)> {
    let context = id.context().map_err(|e| system("no device", &e))?;
    let verbs = Verbs::new(run, &context, wanted)?;
    let qp = id.create_qp(&verbs.pd, &wanted.request(&verbs.cq)).map_err(|e| system("failed to create QP", &e))?;
    Ok((verbs, qp))
}

/// Returns the next event, which must be of type `kind`. Waits one second longer than for a message, because the
/// connection manager retries too.
fn expect(run: &Run, channel: &EventChannel, kind: rdma_cm_event_type) -> Result<Event> {
    let end = Instant::now() + run.control.timeout + Duration::from_secs(1);
    while Instant::now() < end {
        run.control.check()?;
        let ready = readable(&[channel.fd()], Some(NAP.as_millis() as u32));
        if !ready.map_err(|e| system("poll failed", &e))?[0] {
            continue;
        }
        let event =
            channel.next().map_err(|_| Failure::Ours("failed to receive event from RDMA CM channel".to_owned()))?;
        if event.kind == kind {
            return Ok(event);
        }
        let name = |kind| channel.library().event_name(kind);
        let text = format!("unexpected event from RDMA CM: {}\n    expecting: {}", name(event.kind), name(kind));
        return Err(run.control.cause_of(Failure::Ours(text)));
    }
    Err(Failure::Ours(format!("no {} from RDMA CM", channel.library().event_name(kind))))
}
