//! A queue pair that the connection manager connects.

use std::time::{Duration, Instant};

use weft_abi_types::{
    RAI_PASSIVE, RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_DISCONNECTED,
    RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_PS_TCP, rdma_cm_event_type,
};
use weft_client::Which;
use weft_client::rdmacm::{AddrInfo, CmId, CmLibrary, ConnParam, Event, EventChannel, Hints, readable};
use weft_client::verbs::{Pd, Qp};
use weft_replay::{Ending, Plan, Replay, Report, Role};

use super::args::ReplayArgs;
use super::drive::Driver;
use super::objects::Objects;
use super::peer::Peer;
use crate::errln;

/// Timeout for resolving an address or a route, in milliseconds.
const RESOLVE_MS: i32 = 2000;
/// Longest wait for the answer to a disconnect: the connection is over either way.
const DISCONNECT: Duration = Duration::from_secs(3);

/// Connects, replays and disconnects.
pub fn replay(driver: &Driver<'_>, role: Role, peer: &Peer, args: &ReplayArgs) -> Result<Report, String> {
    let library =
        CmLibrary::load(if args.system { Which::System } else { Which::Ours }).map_err(|e| format!("{e:#}"))?;
    let channel = EventChannel::new(library).map_err(failed("rdma_create_event_channel"))?;
    let end = match (role, peer) {
        (Role::Active, Peer::Host { host, port }) => End::connected(driver, channel, host, *port)?,
        (Role::Passive, Peer::Listen { port }) => End::accepted(driver, channel, *port)?,
        _ => return Err("the peer does not suit the recorded connection".to_owned()),
    };
    let report = driver.run(end.replay, &end.objects, &end.qp)?;
    disconnect(driver, &end.id, &end.channel);
    Ok(report)
}

/// A connected end. Fields drop in their order: the queue pair before its id.
struct End<'a> {
    replay: Replay<'a>,
    qp: Qp,
    objects: Objects,
    id: CmId,
    channel: EventChannel,
}

impl<'a> End<'a> {
    fn connected(driver: &Driver<'a>, channel: EventChannel, host: &str, port: u16) -> Result<End<'a>, String> {
        let hints = Hints { port_space: RDMA_PS_TCP, ..Hints::default() };
        let found = AddrInfo::resolve(channel.library(), None, Some(host), &port.to_string(), hints);
        let address = found.map_err(|error| format!("{host}: {error}"))?;
        let dst = address.dst.ok_or_else(|| format!("{host}: no address"))?;
        let id = CmId::new(&channel, RDMA_PS_TCP).map_err(failed("rdma_create_id"))?;
        id.resolve_addr(address.src.as_ref(), &dst, RESOLVE_MS).map_err(failed("rdma_resolve_addr"))?;
        await_event(&channel, RDMA_CM_EVENT_ADDR_RESOLVED, Some(driver.patience))?;
        id.resolve_route(RESOLVE_MS).map_err(failed("rdma_resolve_route"))?;
        await_event(&channel, RDMA_CM_EVENT_ROUTE_RESOLVED, Some(driver.patience))?;
        let end = End::prepared(driver, channel, id)?;
        end.id.connect(&param(driver.plan)).map_err(failed("rdma_connect"))?;
        end.established(driver)
    }

    /// Waits for a peer as long as it takes: the user sees that, and may end it.
    fn accepted(driver: &Driver<'a>, channel: EventChannel, port: u16) -> Result<End<'a>, String> {
        let listener = CmId::new(&channel, RDMA_PS_TCP).map_err(failed("rdma_create_id"))?;
        let hints = Hints { port_space: RDMA_PS_TCP, flags: RAI_PASSIVE, ..Hints::default() };
        let found = AddrInfo::resolve(channel.library(), None, None, &port.to_string(), hints);
        let src = found.map_err(|error| error.to_string())?.src.ok_or("no address to listen on")?;
        listener.bind(&src).map_err(failed("rdma_bind_addr"))?;
        listener.listen(1).map_err(failed("rdma_listen"))?;
        errln!("weft replay: listening on port {}", listener.local_port());
        let request = await_event(&channel, RDMA_CM_EVENT_CONNECT_REQUEST, None)?;
        let id = request.incoming.ok_or("a connection request without an id")?;
        let end = End::prepared(driver, channel, id)?;
        end.id.accept(Some(&param(driver.plan))).map_err(failed("rdma_accept"))?;
        end.established(driver)
    }

    fn prepared(driver: &Driver<'a>, channel: EventChannel, id: CmId) -> Result<End<'a>, String> {
        let context = id.context().map_err(failed("the id's device"))?;
        let pd = Pd::new(&context).map_err(failed("ibv_alloc_pd"))?;
        let objects = Objects::new(&context, &pd, driver.plan, driver.seed)?;
        let qp = id.create_qp(&pd, &objects.request(driver.plan)).map_err(failed("rdma_create_qp"))?;
        let replay = driver.prepare(&objects, &qp)?;
        Ok(End { replay, qp, objects, id, channel })
    }

    fn established(self, driver: &Driver<'a>) -> Result<End<'a>, String> {
        await_event(&self.channel, RDMA_CM_EVENT_ESTABLISHED, Some(driver.patience))?;
        Ok(self)
    }
}

/// The recorded attributes as the connection's parameters. Private data is payload, and not recorded.
fn param(plan: &Plan) -> ConnParam {
    let recorded = &plan.attributes;
    ConnParam {
        responder_resources: recorded.max_dest_rd_atomic,
        initiator_depth: recorded.max_rd_atomic,
        retry_count: recorded.retry_cnt,
        rnr_retry_count: recorded.rnr_retry,
        ..ConnParam::default()
    }
}

/// Ends the connection as the recorded program did: first, or after its peer.
fn disconnect(driver: &Driver<'_>, id: &CmId, channel: &EventChannel) {
    if driver.plan.ending == Ending::Peer {
        let _ = await_event(channel, RDMA_CM_EVENT_DISCONNECTED, Some(driver.patience));
    }
    // The peer may have disconnected first.
    if id.disconnect().is_ok() && driver.plan.ending == Ending::Own {
        let _ = await_event(channel, RDMA_CM_EVENT_DISCONNECTED, Some(DISCONNECT));
    }
}

/// Waits for an event; another one, or one with an error, ends the replay.
fn await_event(channel: &EventChannel, wanted: rdma_cm_event_type, within: Option<Duration>) -> Result<Event, String> {
    let deadline = within.map(|within| Instant::now() + within);
    let name = |kind| channel.library().event_name(kind);
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout_ms = left.map(|left| u32::try_from(left.as_millis()).unwrap_or(u32::MAX));
        let ready = readable(&[channel.fd()], timeout_ms).map_err(failed("poll"))?;
        if !ready.iter().any(|ready| *ready) {
            match left {
                Some(left) if left.is_zero() => return Err(format!("{} did not come", name(wanted))),
                _ => continue,
            }
        }
        let event = channel.next().map_err(failed("rdma_get_cm_event"))?;
        if event.kind == wanted && event.status == 0 {
            return Ok(event);
        }
        return Err(format!("{}, status {}, in place of {}", name(event.kind), event.status, name(wanted)));
    }
}

fn failed(what: &'static str) -> impl Fn(std::io::Error) -> String {
    move |error| format!("{what}: {}", crate::errno::text(&error))
}
