//! Pool of sockets on UDP port 4791: one (with IPv6 two) per slot, in a reuseport group in the order of the slots.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weft_cm::rdma_cm::{CmEvent, QuestionId, ResolveQuestion, ResolveResult};
use weft_ipc::stat::{CountersPage, ObjectsPage};
use weft_ipc::umad_ring::DaemonRing;
use weft_ipc::{Captured, GsiStatus, McastGroup, PeerGrant, Publication, Refusal};
use weft_link::FaultPlan;
use weft_link::hops::SwitchEnd;
use weft_link::wrap::pcap::Capture;
use weft_sys::roce_port::{self, Family};
use weft_sys::unix::Credentials;
use weft_sys::{node, sockopt};

use crate::anchor::{self, Anchor};
use crate::capture_sockets::CaptureSockets;
use crate::cm_service::{ChannelSockets, Memberships, StreamSockets};
use crate::gsi::Gsi;
use crate::hops::PacketChannelFds;
use crate::host::{Adopted, Host};
use crate::host_networks::{HostNetworks, HostSetup, InterfaceSetup};
use crate::ledgers::Ledgers;
use crate::limits::{CM_CHANNELS_DESCRIPTOR_EIGHTHS, PAIRS_DESCRIPTOR_EIGHTHS, POOL_SLOTS_MAX};
use crate::netdev::Netdevs;
use crate::pairs::{Pairs, Slots};
use crate::port_holders;
use crate::refusal::{EADDRINUSE, EAGAIN, EINVAL, EMFILE, ETOOMANYREFS, refuse};
use crate::resolve::{Linux, Resolver};
use crate::saved::{Saved, SavedFile};
use crate::slots::ClientId;
use crate::umad::UmadSockets;

#[derive(Debug)]
struct Pool {
    v4: Vec<OwnedFd>,
    v6: Vec<OwnedFd>,
    anchor: Anchor,
    state: SavedFile,
}

/// The real host of a [`crate::broker::Broker`].
#[derive(Debug, Default)]
pub struct PoolHost {
    pool: Option<Pool>,
    trouble: Option<String>,
    /// Queue pair 1, once it is open.
    pub gsi: Option<Gsi>,
    /// Routes and neighbours; none before [`PoolHost::new`].
    pub resolver: Option<Resolver<Linux>>,
    /// Faults to inject into the packets of `gsi`.
    faults: FaultPlan,
    /// Name of the capture of the packets of `gsi`, empty for none.
    capture: String,
    /// Sockets of event channels.
    pub channels: ChannelSockets,
    /// Sockets of ports for management datagrams.
    pub umad: UmadSockets,
    /// Packet channels of programs in packet mode.
    pub packet_channels: PacketChannelFds,
    /// Networks of virtual hosts.
    pub networks: HostNetworks,
    /// Sockets of captures.
    pub captures: CaptureSockets,
    /// Sockets of iWARP connections.
    pub streams: StreamSockets,
    /// Groups joined for the connection manager.
    pub memberships: Memberships,
    /// Ledgers of processes.
    pub ledgers: Ledgers,
    /// Files that processes share with each other.
    pub pairs: Pairs,
    /// Processes that outlived their connection, by the slot that they had: at most one for each slot.
    last_processes: BTreeMap<u32, Arc<OwnedFd>>,
    /// Maximum number of descriptors of this process.
    descriptors_max: u64,
}

/// The daemon's own slot.
const SLOT_OWN: u32 = 0;

impl PoolHost {
    /// Makes one without a pool. Faults and a capture apply to the packets of queue pair 1.
    pub fn new(faults: FaultPlan, capture: String, descriptors_max: u64) -> io::Result<PoolHost> {
        let resolver = Some(Resolver::new(Linux::open()?));
        Ok(PoolHost { resolver, faults, capture, descriptors_max, ..PoolHost::default() })
    }

    /// Returns the sockets of a slot: IPv4, then IPv6 if there is one.
    pub fn sockets(&self, slot: u32) -> Vec<BorrowedFd<'_>> {
        let Some(pool) = &self.pool else { return Vec::new() };
        [pool.v4.get(slot as usize), pool.v6.get(slot as usize)].into_iter().flatten().map(AsFd::as_fd).collect()
    }

    /// Returns the descriptor that processes hold so that the pool outlives the daemon.
    pub fn anchor(&self) -> Option<BorrowedFd<'_>> {
        self.pool.as_ref().map(|pool| pool.anchor.keeper())
    }

    /// Saves the state for a successor, if there is a pool that could outlive the daemon.
    pub fn save(&mut self, saved: &Saved) -> io::Result<()> {
        self.pool.as_mut().map_or(Ok(()), |pool| pool.state.write(saved))
    }

    fn create(&mut self) -> Result<&mut Pool, Refusal> {
        let has_v6 = roce_port::family_exists(Family::V6);
        let families = if has_v6 { &[Family::V4, Family::V6][..] } else { &[Family::V4] };
        for &family in families {
            match roce_port::port_is_free(family) {
                Ok(true) => {}
                Ok(false) => {
                    let text = port_holders::describe();
                    self.trouble = Some(text.clone());
                    return Err(refuse(EADDRINUSE, text));
                }
                Err(error) => return Err(failed("open UDP port 4791", &error)),
            }
        }
        self.trouble = None;
        let make = || -> io::Result<Pool> {
            let state = SavedFile::new()?;
            let anchor = Anchor::new(state.file())?;
            let mut pool = Pool { v4: Vec::new(), v6: Vec::new(), anchor, state };
            // The daemon's own slot; it also determines whether there is IPv6.
            pool.grow(1, has_v6)?;
            Ok(pool)
        };
        let pool = make().map_err(|error| failed("open UDP port 4791", &error))?;
        Ok(self.pool.insert(pool))
    }
}

impl Pool {
    fn grow(&mut self, slots: usize, has_v6: bool) -> io::Result<()> {
        let before = self.v4.len();
        let mut add = || -> io::Result<()> {
            while self.v4.len() < slots {
                self.v4.push(roce_port::join_group(Family::V4, self.v4.is_empty())?);
                if has_v6 {
                    self.v6.push(roce_port::join_group(Family::V6, self.v6.is_empty())?);
                }
            }
            self.anchor.park(before, &self.v4[before..], if has_v6 { &self.v6[before..] } else { &[] })
        };
        add().inspect_err(|_| {
            // From the end, so that no other socket changes its position.
            while self.v4.len() > before {
                self.v4.pop();
            }
            while self.v6.len() > before {
                self.v6.pop();
            }
        })
    }

    fn of(&self, slot: u32) -> impl Iterator<Item = &OwnedFd> {
        [self.v4.get(slot as usize), self.v6.get(slot as usize)].into_iter().flatten()
    }
}

impl Host for PoolHost {
    fn grow_pool(&mut self, slots: u32) -> Result<u32, Refusal> {
        let pool = match &mut self.pool {
            Some(pool) => pool,
            None => self.create()?,
        };
        let has_v6 = !pool.v6.is_empty();
        pool.grow(slots.min(POOL_SLOTS_MAX) as usize, has_v6)
            .map_err(|error| failed("add sockets to the pool on UDP port 4791", &error))?;
        Ok(pool.v4.len() as u32)
    }

    fn open_slot(&mut self, slot: u32) -> Result<(), Refusal> {
        self.last_processes.remove(&slot);
        let sockets = self.pool.iter().flat_map(|pool| pool.of(slot));
        sockets.into_iter().try_for_each(roce_port::open).map_err(|error| failed("open a slot's sockets", &error))
    }

    fn seal_slot(&mut self, slot: u32) {
        for socket in self.pool.iter().flat_map(|pool| pool.of(slot)) {
            // It fails only for lack of memory, and then the socket keeps packets that no process reads.
            let _ = roce_port::seal(socket);
        }
    }

    fn retire_slot(&mut self, client: ClientId, slot: u32) {
        // A killed process closes its connection a moment before it is dead: those of earlier calls are dead by now.
        self.last_processes.retain(|_, process| lives(process));
        self.last_processes.extend(self.pairs.process(client).filter(lives).map(|process| (slot, process)));
    }

    fn is_abandoned(&self, slot: u32) -> bool {
        self.last_processes.get(&slot).is_none_or(|process| !lives(process))
    }

    fn node_grants(&self, client: ClientId, credentials: &Credentials, host: &str, umad: u32) -> bool {
        self.pairs.process(client).is_some_and(|process| node_grants(&process, credentials, host, umad))
    }

    fn steer(&mut self) {
        for socket in self.pool.iter().flat_map(|pool| [pool.v4.first(), pool.v6.first()]).flatten() {
            // It fails only for lack of memory, and then the old rule stays.
            let _ = weft_sys::bpf::steer_by_qpn(socket);
        }
    }

    fn has_v6(&self) -> bool {
        self.pool.as_ref().is_some_and(|pool| !pool.v6.is_empty())
    }

    fn multicast(&mut self, slot: u32, group: McastGroup, join: bool) -> Result<(), Refusal> {
        let pool = self.pool.as_ref().ok_or_else(|| refuse(EINVAL, "there is no slot"))?;
        let socket = if group.group.is_ipv4() { pool.v4.get(slot as usize) } else { pool.v6.get(slot as usize) };
        let socket = socket.ok_or_else(|| refuse(EINVAL, "this machine has no IPv6"))?;
        let result = match join {
            true => roce_port::join_multicast(socket, group.group, group.ifindex),
            false => roce_port::leave_multicast(socket, group.group, group.ifindex),
        };
        match result {
            // A predecessor had joined it for the same slot.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && join => Ok(()),
            result => result.map_err(|error| failed(&format!("join multicast group {}", group.group), &error)),
        }
    }

    fn proves(&self, slot: u32, proof: &OwnedFd) -> bool {
        let own = self.pool.as_ref().and_then(|pool| pool.v4.get(slot as usize));
        own.is_some_and(|own| same_socket(own, proof))
    }

    fn adopt_pool(&mut self, keeper: &OwnedFd) -> Result<Adopted, Refusal> {
        let (pool, saved) =
            adopt(keeper).map_err(|error| failed("take over the sockets of the last daemon", &error))?;
        let slots = pool.v4.len() as u32;
        self.pool = Some(pool);
        self.trouble = None;
        // A predecessor may have had queue pair 1 open.
        self.seal_slot(SLOT_OWN);
        Ok(Adopted { slots, saved })
    }

    fn slot0_packets(&self) -> u64 {
        let sockets = self.pool.iter().flat_map(|pool| pool.of(0));
        sockets.map(|socket| u64::from(roce_port::dropped_packets(socket).unwrap_or(0))).sum()
    }

    fn open_gsi(&mut self) -> Result<(), Refusal> {
        if self.gsi.is_some() {
            return Ok(());
        }
        self.open_slot(SLOT_OWN)?;
        let mut own = self.sockets(SLOT_OWN).into_iter().map(|socket| socket.try_clone_to_owned());
        let mut next = || own.next().transpose().map_err(|error| failed("open queue pair 1", &error));
        let (v4, v6) = (next()?, next()?);
        let capture = match self.capture.as_str() {
            "" => None,
            name => Capture::create(name, false).ok(),
        };
        self.gsi = Some(Gsi::new(v4, v6, &self.faults, capture));
        Ok(())
    }

    fn gsi_status(&self) -> Option<GsiStatus> {
        self.gsi.as_ref().map(Gsi::status)
    }

    fn resolve(&mut self, now: Instant, asked: &ResolveQuestion, netdevs: &Netdevs) -> Option<ResolveResult> {
        self.resolver.as_mut().map_or(Some(Err(EINVAL)), |resolver| resolver.ask(now, asked, netdevs))
    }

    fn forget(&mut self, question: QuestionId) {
        if let Some(resolver) = &mut self.resolver {
            resolver.forget(question);
        }
    }

    fn groups(&self) -> u32 {
        self.memberships.len() as u32
    }

    fn open_channel(&mut self, channel: u32) -> Result<(), Refusal> {
        let most = self.descriptors_max / 8 * CM_CHANNELS_DESCRIPTOR_EIGHTHS / 2;
        if self.channels.len() as u64 >= most {
            return Err(refuse(
                EMFILE,
                format!("there are {most} event channels, the most that this weft daemon's descriptors are enough for"),
            ));
        }
        self.channels.open(channel).map_err(|error| failed("open an event channel", &error))
    }

    fn close_channel(&mut self, channel: u32) {
        self.channels.close(channel);
    }

    fn open_umad(&mut self, handle: u32) -> Result<Option<DaemonRing>, Refusal> {
        self.umad.open(handle).map_err(|error| failed("open a port for management datagrams", &error))
    }

    fn close_umad(&mut self, handle: u32) {
        self.umad.close(handle);
    }

    fn open_packet_channel(&mut self, client: ClientId) -> Result<Option<SwitchEnd>, Refusal> {
        self.packet_channels
            .open(client)
            .map(Some)
            .map_err(|error| failed("make a packet channel to the fabric's switches", &error))
    }

    fn open_network(&mut self, network: u32, setup: &HostSetup) -> Result<bool, Refusal> {
        let made = self.networks.open(network, setup).map_err(|error| failed("make the host's network", &error))?;
        Ok(made.namespaces.user.is_some())
    }

    fn set_hosts_file(&mut self, text: &str) -> Result<(), Refusal> {
        self.networks.set_hosts_file(text).map_err(|error| failed("keep the hosts' names", &error))
    }

    fn add_interface(&mut self, network: u32, place: usize, setup: &InterfaceSetup) -> Result<(), Refusal> {
        let added = self.networks.add_interface(network, place, setup);
        added.map_err(|error| failed(&format!("make the interface {}", setup.name), &error))
    }

    fn switch_ethernet(&mut self, network: u32, name: &str, is_on: bool) {
        self.networks.switch_ethernet(network, name, is_on);
    }

    fn remove_interface(&mut self, network: u32, place: usize) {
        self.networks.remove_interface(network, place);
    }

    fn interface_index(&self, network: u32, place: usize) -> Option<u32> {
        Some(self.networks.get(network)?.interfaces.get(&place)?.index)
    }

    fn close_networks(&mut self) {
        self.networks.clear();
    }

    fn listen_for_streams(&mut self, wanted: &BTreeSet<SocketAddr>) -> Result<(), i32> {
        self.streams.follow(wanted)
    }

    fn open_capture(&mut self, client: ClientId) -> Result<(), Refusal> {
        self.captures.open(client).map_err(|error| failed("make the socket of a capture", &error))
    }

    fn push_capture(&mut self, client: ClientId, packet: &Captured) {
        self.captures.push(client, packet);
    }

    fn flush_capture(&mut self, client: ClientId, dropped: u64) -> bool {
        self.captures.add_dropped(client, dropped);
        self.captures.flush(client)
    }

    fn finish_capture(&mut self, client: ClientId) {
        self.captures.finish(client);
    }

    fn close_capture(&mut self, client: ClientId) {
        self.captures.close(client);
    }

    fn close_packet_channel(&mut self, client: ClientId) {
        self.packet_channels.close(client);
    }

    fn take_back(&mut self, channel: u32) -> Vec<CmEvent> {
        self.channels.take_back(channel)
    }

    fn open_ledger(&mut self, client: ClientId) -> Result<(), Refusal> {
        self.ledgers.open(client).map_err(|error| failed("make a ledger", &error))
    }

    fn close_ledger(&mut self, client: ClientId) {
        self.ledgers.close(client);
    }

    fn counters(&self, client: ClientId) -> Option<CountersPage> {
        self.ledgers.counters(client)
    }

    fn objects(&self, client: ClientId) -> Option<ObjectsPage> {
        self.ledgers.objects(client)
    }

    fn publish(
        &mut self,
        client: ClientId,
        slot: u32,
        what: Publication,
        brought: &[OwnedFd],
    ) -> Result<bool, Refusal> {
        self.pairs.publish(client, slot, what, brought)
    }

    fn unpublish(&mut self, slot: u32) {
        self.pairs.unpublish(slot);
    }

    fn make_pair(&mut self, slots: Slots, same_user: bool, brought: Option<&OwnedFd>) -> Result<(), Refusal> {
        const DESCRIPTORS_OF_PAIR: u64 = 5;
        let most = self.descriptors_max / 8 * PAIRS_DESCRIPTOR_EIGHTHS / DESCRIPTORS_OF_PAIR;
        self.pairs.make_pair(slots, same_user, brought, most as usize)
    }

    fn forget_pair(&mut self, slots: Slots) {
        self.pairs.forget_pair(slots);
    }

    fn peer_grant(&self, own: u32, peer: u32) -> Option<PeerGrant> {
        self.pairs.grant(own, peer)
    }

    fn port_trouble(&self) -> Option<String> {
        self.trouble.clone()
    }
}

/// Checks the rights of a port's node as the process sees it. The process lives, so its ID still belongs to it.
fn node_grants(process: &Arc<OwnedFd>, credentials: &Credentials, host: &str, umad: u32) -> bool {
    let Credentials { pid, uid, gid } = *credentials;
    let node = format!("/proc/{pid}/root/dev/infiniband/umad{umad}");
    let label = format!("{host}/umad{umad}");
    let Some(rights) = node::rights_if_labelled(Path::new(&node), &label) else { return false };
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap_or_default();
    let groups: Vec<u32> =
        groups.split_ascii_whitespace().filter_map(|group| group.parse().ok()).chain([gid]).collect();
    rights.allow(uid, &groups) && lives(process)
}

/// Returns whether a process lives; its descriptor is readable once it is dead.
fn lives(process: &Arc<OwnedFd>) -> bool {
    !weft_sys::epoll::wait_readable(process.as_ref(), Duration::ZERO).unwrap_or(true)
}

fn adopt(keeper: &OwnedFd) -> io::Result<(Pool, Saved)> {
    let parked = anchor::peek(keeper)?;
    let whole =
        parked.v4.len() <= POOL_SLOTS_MAX as usize && all_of(&parked.v4, Family::V4) && all_of(&parked.v6, Family::V6);
    if !whole {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it holds sockets of another kind"));
    }
    let (state, saved) = SavedFile::open(parked.state)?;
    let anchor = Anchor::new(state.file())?;
    anchor.park(0, &parked.v4, &parked.v6)?;
    Ok((Pool { v4: parked.v4, v6: parked.v6, anchor, state }, saved))
}

fn all_of(sockets: &[OwnedFd], family: Family) -> bool {
    let distinct: BTreeSet<u64> = sockets.iter().filter_map(|socket| sockopt::cookie(socket).ok()).collect();
    distinct.len() == sockets.len() && sockets.iter().all(|socket| roce_port::recognise(socket) == Some(family))
}

fn same_socket(a: &OwnedFd, b: &OwnedFd) -> bool {
    matches!((sockopt::cookie(a), sockopt::cookie(b)), (Ok(a), Ok(b)) if a == b)
}

fn failed(what: &str, error: &io::Error) -> Refusal {
    let errno = error.raw_os_error().unwrap_or(EAGAIN);
    let hint = match errno {
        EMFILE => {
            "; it has as many descriptors open as it may: end some programs, or start it with a higher `ulimit -n`"
        }
        ETOOMANYREFS => {
            "; its user's daemons have as many descriptors in flight as one process may have open: end daemons of other \
             network namespaces, or start this one with a higher `ulimit -n`"
        }
        _ => "",
    };
    refuse(errno, format!("the weft daemon could not {what}: {error}{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_descriptors_has_a_remedy() {
        let error = io::Error::from_raw_os_error(ETOOMANYREFS);
        let refusal = failed("add sockets to the pool", &error);
        assert_eq!(refusal.errno, ETOOMANYREFS);
        for wanted in ["could not add sockets to the pool: ", "descriptors in flight", "`ulimit -n`"] {
            assert!(refusal.text.contains(wanted), "{}", refusal.text);
        }
        let refusal = failed("add sockets to the pool", &io::Error::from_raw_os_error(EMFILE));
        assert!(refusal.text.contains("as many descriptors open as it may"), "{}", refusal.text);
    }
}
