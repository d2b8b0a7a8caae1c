//! Multicast groups of the fabric: which programs listen where, and which of them the switches' multicast tables
//! deliver a sender's packets to. When that changes, the daemon notifies the sender, which asks again.

use std::collections::{BTreeMap, BTreeSet};

use weft_fabric::{Fabric, Path, PathQuery, PortRef};
use weft_ipc::{
    Event, FABRIC_GROUPS_MAX, FABRIC_PATHS_MAX, GroupMember, GroupReply, PathRequest, PathTraffic, Refusal, Request,
    Response,
};

use super::call::Outcome;
use super::paths::{HEADERS_BYTES, PASSED_MAX};
use super::route::{Routed, Rules};
use super::sessions::Sessions;
use super::shared::Shared;
use crate::fabric::FabricHost;
use crate::hops::Listeners;
use crate::host::Host;
use crate::refusal::{EINVAL, ENOSPC, refuse};
use crate::slots::ClientId;

/// The requests of this feature.
pub(super) fn route<H: Host>(request: Request) -> Routed<H> {
    Routed::Here(match request {
        Request::GroupMember { member, listens } => Rules::PLAIN
            .to(move |broker, call| broker.groups.change_member(&mut broker.shared, call.id, member, listens)),
        Request::GroupPath(request) => {
            Rules::PLAIN.to(move |broker, call| broker.groups.answer(&mut broker.shared, call.id, request))
        }
        other => return Routed::Elsewhere(other),
    })
}

/// Bit that marks path numbers of groups, as opposed to paths to one port.
const GROUP_WAY: u32 = 1 << 31;
/// Multicast LIDs.
const MULTICAST_LIDS: std::ops::RangeInclusive<u16> = 0xc000..=0xfffe;

/// Listeners by port and MLID, each with the GID of its group.
type Members = BTreeMap<(PortRef, u16), BTreeSet<(ClientId, [u8; 16])>>;

/// A path to a group that a program sends over.
#[derive(Debug)]
struct Watched {
    request: PathRequest,
    from: PortRef,
    path: Option<Path>,
    slots: Vec<u32>,
    /// The program was notified of a change and has not asked again: the traffic that it reports took this path.
    stale: bool,
}

/// All groups and the paths to them.
#[derive(Debug, Default)]
pub(super) struct Groups {
    members: Members,
    /// Number of memberships of each client.
    counts: BTreeMap<ClientId, usize>,
    /// By client; a path's number is its index here.
    watched: BTreeMap<ClientId, Vec<Watched>>,
    numbers: BTreeMap<(ClientId, PathRequest), u32>,
    /// A member was added or removed.
    changed: bool,
    /// The fabric, and its generation, that these verdicts belong to.
    judged: (bool, u64, u64),
}

impl Groups {
    /// Removes a client's memberships and paths.
    pub fn forget(&mut self, client: ClientId) {
        for watched in self.watched.remove(&client).unwrap_or_default() {
            self.numbers.remove(&(client, watched.request));
        }
        if self.counts.remove(&client).is_some() {
            self.members.values_mut().for_each(|members| members.retain(|(id, _)| *id != client));
            self.members.retain(|_, members| !members.is_empty());
            self.changed = true;
        }
    }

    fn listen(&mut self, id: ClientId, port: PortRef, member: &GroupMember) -> Result<(), Refusal> {
        let count = self.counts.entry(id).or_default();
        if *count >= FABRIC_GROUPS_MAX {
            let text = format!("a program can listen to {FABRIC_GROUPS_MAX} groups: leave some first");
            return Err(refuse(ENOSPC, text));
        }
        if self.members.entry((port, member.mlid)).or_default().insert((id, member.mgid)) {
            *count += 1;
            self.changed = true;
        }
        Ok(())
    }

    fn leave(&mut self, id: ClientId, port: PortRef, member: &GroupMember) {
        let Some(members) = self.members.get_mut(&(port, member.mlid)) else { return };
        if members.remove(&(id, member.mgid)) {
            self.changed = true;
            if members.is_empty() {
                self.members.remove(&(port, member.mlid));
            }
            self.counts.entry(id).and_modify(|count| *count -= 1);
        }
    }

    /// Returns the clients that listen at these ports.
    fn listeners(&self, ports: impl Iterator<Item = PortRef>, mlid: u16) -> BTreeSet<ClientId> {
        let at = ports.filter_map(|port| self.members.get(&(port, mlid)));
        at.flatten().map(|(client, _)| *client).collect()
    }

    /// Returns a path and the clients that listen where it leads. One copy stays at the sender's own port (IBA
    /// 10.5.2.1).
    fn judge(&self, fabric: &Fabric, from: PortRef, request: &PathRequest) -> (Option<Path>, BTreeSet<ClientId>) {
        let query = PathQuery { dlid: request.dlid, sl: request.sl, pkey: request.pkey, payload: request.mtu.into() };
        match fabric.group_verdict(from, &query) {
            Ok(spread) => {
                let ports = spread.to.into_iter().chain([from]);
                (Some(spread.path), self.listeners(ports, request.dlid))
            }
            Err(_) => (None, BTreeSet::new()),
        }
    }

    fn change_member(
        &mut self,
        shared: &mut Shared,
        id: ClientId,
        member: GroupMember,
        listens: bool,
    ) -> Result<Outcome, Refusal> {
        let port = shared.host_port(id, member.device, member.port)?;
        if !MULTICAST_LIDS.contains(&member.mlid) {
            return Err(refuse(
                EINVAL,
                format!("{:#x} is not a multicast LID: those are 0xc000 to 0xfffe", member.mlid),
            ));
        }
        match listens {
            true => self.listen(id, port, &member)?,
            false => self.leave(id, port, &member),
        }
        Ok(Response::Done.into())
    }

    fn answer(&mut self, shared: &mut Shared, id: ClientId, request: PathRequest) -> Result<Outcome, Refusal> {
        let from = shared.host_port(id, request.device, request.port)?;
        let fabric = shared.fabric.required()?.fabric();
        let (path, listeners) = self.judge(fabric, from, &request);
        let slots = slots_of(&shared.sessions, &listeners);
        let watched = self.watched.entry(id).or_default();
        let known = self.numbers.get(&(id, request)).copied();
        if known.is_none() && watched.len() >= FABRIC_PATHS_MAX {
            return Err(refuse(ENOSPC, "the program sends to too many groups of the fabric: restart it"));
        }
        let number = known.unwrap_or(watched.len() as u32);
        let fresh = Watched { request, from, path, slots: slots.clone(), stale: false };
        match watched.get_mut(number as usize) {
            Some(old) => *old = fresh,
            None => watched.push(fresh),
        }
        self.numbers.insert((id, request), number);
        Ok(Response::Group(GroupReply { path: number | GROUP_WAY, slots }).into())
    }

    /// Counts traffic to a group; returns `false` if the path does not lead to a group.
    pub fn count(&self, fabric: &mut FabricHost, id: ClientId, told: &PathTraffic) -> bool {
        if told.path & GROUP_WAY == 0 {
            return false;
        }
        let way = self.watched.get(&id).and_then(|ways| ways.get((told.path & !GROUP_WAY) as usize));
        if let Some(running) = fabric.running_mut()
            && let Some(path) = way.and_then(|way| way.path.as_ref())
        {
            let (packets, bytes) = (told.packets.min(PASSED_MAX), told.bytes.min(PASSED_MAX));
            let words = (bytes + packets * HEADERS_BYTES).div_ceil(4);
            running.fabric_mut().account_group(path, packets, words);
        }
        true
    }

    /// Judges all paths to groups again if something changed, and notifies programs whose packets now arrive elsewhere.
    pub fn follow(&mut self, shared: &mut Shared) {
        let fabric = shared.fabric.running().map(|running| running.fabric().generation());
        let present = (fabric.is_some(), shared.fabric.generation(), fabric.unwrap_or(0));
        let before = std::mem::replace(&mut self.judged, present);
        let changed = std::mem::take(&mut self.changed);
        if (before.0, before.1) != (present.0, present.1) {
            // The ports belong to another fabric, which has no listeners yet.
            *self = Groups { judged: present, ..Groups::default() };
            return;
        }
        if before == present && !changed {
            return;
        }
        let Some(running) = shared.fabric.running() else { return };
        let mut watched = std::mem::take(&mut self.watched);
        let mut told = Vec::new();
        for (client, ways) in &mut watched {
            for (number, way) in (0u32..).zip(ways).filter(|(_, way)| !way.stale) {
                let (path, listeners) = self.judge(running.fabric(), way.from, &way.request);
                let slots = slots_of(&shared.sessions, &listeners);
                if way.slots == slots {
                    way.path = path;
                } else {
                    way.stale = true;
                    told.push((*client, Event::GroupChanged { path: number | GROUP_WAY }));
                }
            }
        }
        self.watched = watched;
        for (client, event) in told {
            shared.sessions.tell(client, &event, None);
        }
    }
}

impl Listeners for Groups {
    fn at(&self, port: PortRef, mlid: u16) -> Vec<ClientId> {
        self.listeners(std::iter::once(port), mlid).into_iter().collect()
    }
}

fn slots_of(sessions: &Sessions, listeners: &BTreeSet<ClientId>) -> Vec<u32> {
    let mut slots: Vec<u32> = listeners.iter().filter_map(|id| sessions.slot(*id)).collect();
    slots.sort_unstable();
    slots
}
