//! Paths over the fabric that programs ask about. The daemon judges each path on request, and again whenever something
//! changed that a verdict may depend on, and notifies the program if the answer changed. The ports on a path count the
//! traffic reported for it. This module also reports changes at a host's ports to its programs.

use std::collections::{BTreeMap, BTreeSet};

use weft_fabric::topology::LinkLayer;
use weft_fabric::{Fabric, Path, PathQuery, PortRef, Verdict};
use weft_ipc::{
    Event, FABRIC_PATHS_MAX, FABRIC_PATHS_PER_MESSAGE_MAX, PathReply, PathRequest, PathTraffic, Refusal, Request,
    Response,
};

use super::call::Outcome;
use super::groups::Groups;
use super::route::{Routed, Rules};
use super::shared::Shared;
use crate::host::Host;
use crate::refusal::{ENOSPC, refuse};
use crate::slots::ClientId;

/// Packets and bytes in one report: no program moves as much between two reports.
pub(super) const PASSED_MAX: u64 = 1 << 40;
/// Bytes of a packet besides its payload: LRH, BTH and ICRC.
pub(super) const HEADERS_BYTES: u64 = 24;
/// Full-membership bit of a P_Key.
const FULL_MEMBER: u16 = 0x8000;

/// The requests of this feature.
pub(super) fn route<H: Host>(request: Request) -> Routed<H> {
    Routed::Here(match request {
        Request::Path(request) => {
            Rules::PLAIN.to(move |broker, call| broker.paths.answer(&mut broker.shared, call.id, request))
        }
        Request::PathTraffic(traffic) => Rules::PLAIN
            .to(move |broker, call| Ok(broker.paths.count(&mut broker.shared, &broker.groups, call.id, &traffic))),
        other => return Routed::Elsewhere(other),
    })
}

/// A path that a program asked about.
#[derive(Debug)]
struct Watched {
    request: PathRequest,
    from: PortRef,
    open: bool,
    there: Option<Path>,
    back: Option<Path>,
}

/// All paths that programs asked about.
#[derive(Debug, Default)]
pub(super) struct Paths {
    /// By client, in the order of the requests: a path's number is its index here.
    watched: BTreeMap<ClientId, Vec<Watched>>,
    numbers: BTreeMap<(ClientId, PathRequest), u32>,
    /// The fabric, and its generation, that the verdicts belong to.
    judged: (bool, u64, u64),
}

impl Paths {
    /// Removes the paths of a client.
    pub fn forget(&mut self, client: ClientId) {
        for watched in self.watched.remove(&client).unwrap_or_default() {
            self.numbers.remove(&(client, watched.request));
        }
    }

    /// Returns a closed path of a client and its source port; `None` if the path is open.
    pub fn closed(&self, client: ClientId, path: u32) -> Option<(PortRef, PathRequest)> {
        let way = self.watched.get(&client)?.get(path as usize)?;
        (!way.open).then_some((way.from, way.request))
    }

    fn answer(&mut self, shared: &mut Shared, id: ClientId, request: PathRequest) -> Result<Outcome, Refusal> {
        let from = shared.host_port(id, request.device, request.port)?;
        let adapters = adapters_of_slot(shared, request.slot);
        let fabric = shared.fabric.required()?.fabric();
        let meets = match is_ethernet(fabric, from) {
            true => fabric.ethernet_destination(from, request.dgid).is_some_and(|to| adapters.contains(&to.node)),
            false => have_lid(fabric, &adapters, request.dlid),
        };
        let judged = judge(fabric, from, &request, &adapters);
        let open = judged.is_some();
        let (there, back) = judged.unwrap_or_default();
        let watched = self.watched.entry(id).or_default();
        let known = self.numbers.get(&(id, request)).copied();
        if known.is_none() && watched.len() >= FABRIC_PATHS_MAX {
            return Err(refuse(ENOSPC, "the program asked about too many paths over the fabric: restart it"));
        }
        let path = known.unwrap_or(watched.len() as u32);
        let fresh = Watched { request, from, open, there, back };
        match watched.get_mut(path as usize) {
            Some(old) => *old = fresh,
            None => watched.push(fresh),
        }
        self.numbers.insert((id, request), path);
        Ok(Response::Path(PathReply { path, open, meets }).into())
    }

    fn count(&mut self, shared: &mut Shared, groups: &Groups, id: ClientId, traffic: &[PathTraffic]) -> Outcome {
        for told in traffic.iter().take(FABRIC_PATHS_PER_MESSAGE_MAX) {
            if groups.count(&mut shared.fabric, id, told) {
                continue;
            }
            let way = self.watched.get(&id).and_then(|ways| ways.get(told.path as usize));
            let (Some(way), Some(running)) = (way, shared.fabric.running_mut()) else { continue };
            let fabric = running.fabric_mut();
            let mut account = |path: &Option<Path>, packets: u64, bytes: u64| {
                let (packets, bytes) = (packets.min(PASSED_MAX), bytes.min(PASSED_MAX));
                if let Some(path) = path.as_ref().filter(|_| packets > 0) {
                    fabric.account(path, packets, (bytes + packets * HEADERS_BYTES).div_ceil(4));
                }
            };
            account(&way.there, told.packets, told.bytes);
            account(&way.back, told.packets_back, told.bytes_back);
        }
        Response::Done.into()
    }

    /// Judges all paths again if something changed, and notifies programs whose answers changed.
    pub fn follow(&mut self, shared: &mut Shared) {
        let fabric = shared.fabric.running().map(|running| running.fabric().generation());
        let present = (fabric.is_some(), shared.fabric.generation(), fabric.unwrap_or(0));
        if std::mem::replace(&mut self.judged, present) == present || self.watched.is_empty() {
            return;
        }
        let slots: BTreeSet<u32> = self.watched.values().flatten().map(|way| way.request.slot).collect();
        let adapters: BTreeMap<u32, Vec<u32>> =
            slots.into_iter().map(|slot| (slot, adapters_of_slot(shared, slot))).collect();
        let fabric = shared.fabric.running().map(|running| running.fabric());
        let mut changed = Vec::new();
        for (client, watched) in &mut self.watched {
            for (path, way) in (0u32..).zip(watched) {
                let ends = adapters.get(&way.request.slot).map_or(&[][..], Vec::as_slice);
                let judged = fabric.and_then(|fabric| judge(fabric, way.from, &way.request, ends));
                let open = judged.is_some();
                if let Some(judged) = judged {
                    (way.there, way.back) = judged;
                }
                if std::mem::replace(&mut way.open, open) != open {
                    changed.push((*client, Event::PathChanged { path, open }));
                }
            }
        }
        for (client, event) in changed {
            shared.sessions.tell(client, &event, None);
        }
    }
}

fn is_ethernet(fabric: &Fabric, port: PortRef) -> bool {
    fabric.link_layer(port) == Some(LinkLayer::Ethernet)
}

/// Returns the path, and the return path if requested, if packets arrive at one of these adapters. Paths between Ethernet
/// ports lead through no port of the fabric.
fn judge(
    fabric: &Fabric,
    from: PortRef,
    request: &PathRequest,
    adapters: &[u32],
) -> Option<(Option<Path>, Option<Path>)> {
    if is_ethernet(fabric, from) {
        let to = fabric.ethernet_destination(from, request.dgid)?;
        return adapters.contains(&to.node).then_some((None, None));
    }
    let query = PathQuery { dlid: request.dlid, sl: request.sl, pkey: request.pkey, payload: request.mtu.into() };
    let there: Verdict = fabric.verdict(from, &query).ok()?;
    if !adapters.contains(&there.to.node) {
        return None;
    }
    if !request.there_and_back {
        return Some((Some(there.path), None));
    }
    let own = fabric.port_info(from)?;
    // The other end answers with its own P_Key of the partition.
    let partition = |key: &&u16| (**key ^ request.pkey) & !FULL_MEMBER == 0;
    let pkey = *fabric.pkeys(there.to).iter().find(partition)?;
    let query = PathQuery { dlid: own.lid, sl: request.sl, pkey, payload: request.mtu.into() };
    let back = fabric.verdict(there.to, &query).ok()?;
    Some((Some(there.path), Some(back.path)))
}

/// Returns whether one of these adapters has the LID.
fn have_lid(fabric: &Fabric, adapters: &[u32], lid: u16) -> bool {
    let has = |node: u32, port: u8| {
        fabric.port_info(PortRef::new(node, port)).map(|info| info.lid != 0 && lid & !0 << info.lmc.min(7) == info.lid)
    };
    adapters.iter().any(|node| (1..=u8::MAX).map_while(|port| has(*node, port)).any(|has| has))
}

/// Returns the adapters of the host that the process of a slot runs on.
fn adapters_of_slot(shared: &Shared, slot: u32) -> Vec<u32> {
    let host = shared.sessions.values().find(|client| client.slot == Some(slot)).map(|client| client.host.as_str());
    let adapters = host.and_then(|host| shared.fabric.running()?.adapters(host));
    adapters.unwrap_or_default().to_vec()
}
