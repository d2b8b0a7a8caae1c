//! The broker's interface to the operating system: opens and seals sockets, grows or takes over the pool. The broker
//! itself does no I/O, so that tests and a fuzzer can drive it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Instant;

use weft_cm::rdma_cm::{CmEvent, QuestionId, ResolveQuestion, ResolveResult};
use weft_ipc::stat::{CountersPage, ObjectsPage};
use weft_ipc::umad_ring::DaemonRing;
use weft_ipc::{Captured, GsiStatus, McastGroup, PeerGrant, Publication, Refusal};
use weft_link::hops::SwitchEnd;
use weft_sys::unix::Credentials;

use crate::host_networks::{HostSetup, InterfaceSetup};
use crate::netdev::Netdevs;
use crate::pairs::Slots;
use crate::saved::Saved;
use crate::slots::ClientId;

/// The pool of a predecessor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Adopted {
    /// Number of its slots.
    pub slots: u32,
    /// State that the predecessor saved.
    pub saved: Saved,
}

/// Operations of the broker on the operating system.
pub trait Host {
    /// Grows the pool to this size (making one if there is none); returns the resulting size.
    fn grow_pool(&mut self, slots: u32) -> Result<u32, Refusal>;

    /// Prepares a slot's sockets for a process: empty, deep, and no longer dropping.
    fn open_slot(&mut self, slot: u32) -> Result<(), Refusal>;

    /// Makes a slot's sockets drop everything and hold nothing.
    fn seal_slot(&mut self, slot: u32);

    /// Remembers the process of a client whose slot was sealed.
    fn retire_slot(&mut self, client: ClientId, slot: u32);

    /// Returns whether the last process of a free slot is dead, as far as is known.
    fn is_abandoned(&self, slot: u32) -> bool;

    /// Returns whether root made the node of a port (`/dev/infiniband/umadN` as a client sees it) for this virtual
    /// host, and it lets the client read and write.
    fn node_grants(&self, client: ClientId, credentials: &Credentials, host: &str, umad: u32) -> bool;

    /// Restores the pool's steering rule. Every holder of one of its sockets can change the rule for all of them, and
    /// the kernel offers no lock: this undoes the change of a hostile program.
    fn steer(&mut self);

    /// Returns whether slots have an IPv6 socket.
    fn has_v6(&self) -> bool;

    /// Joins or leaves a multicast group on a slot's socket.
    fn multicast(&mut self, slot: u32, group: McastGroup, join: bool) -> Result<(), Refusal>;

    /// Returns whether this descriptor is the slot's own first socket.
    fn proves(&self, slot: u32, proof: &OwnedFd) -> bool;

    /// Takes over the pool that a predecessor parked in this anchor. Call it only for anchors of trusted users.
    fn adopt_pool(&mut self, anchor: &OwnedFd) -> Result<Adopted, Refusal>;

    /// Returns how many packets arrived on the daemon's own slot and were dropped unread.
    fn slot0_packets(&self) -> u64;

    /// Opens queue pair 1 on the daemon's own slot, unless it is open. There must be a pool.
    fn open_gsi(&mut self) -> Result<(), Refusal>;

    /// Returns the counters of queue pair 1, if it is open.
    fn gsi_status(&self) -> Option<GsiStatus>;

    /// Resolves the route to an address; `None` if the answer comes later.
    fn resolve(&mut self, now: Instant, asked: &ResolveQuestion, netdevs: &Netdevs) -> Option<ResolveResult>;

    /// Withdraws a question.
    fn forget(&mut self, question: QuestionId);

    /// Returns the number of multicast groups joined for the connection manager.
    fn groups(&self) -> u32;

    /// Makes the sockets of an event channel.
    fn open_channel(&mut self, channel: u32) -> Result<(), Refusal>;

    /// Closes the sockets of an event channel.
    fn close_channel(&mut self, channel: u32);

    /// Makes the socket of a port for management datagrams.
    fn open_umad(&mut self, handle: u32) -> Result<Option<DaemonRing>, Refusal>;

    /// Closes the socket of a port.
    fn close_umad(&mut self, handle: u32);

    /// Makes a program's packet channel to the fabric's switches.
    fn open_packet_channel(&mut self, client: ClientId) -> Result<Option<SwitchEnd>, Refusal>;

    /// Closes a program's packet channel.
    fn close_packet_channel(&mut self, client: ClientId);

    /// Makes the network of a virtual host; returns whether a user namespace owns it.
    fn open_network(&mut self, network: u32, setup: &HostSetup) -> Result<bool, Refusal>;

    /// Keeps the file of the hosts' names (hosts(5)) for the programs of all networks.
    fn set_hosts_file(&mut self, text: &str) -> Result<(), Refusal>;

    /// Makes an interface at this place in the network of a virtual host.
    fn add_interface(&mut self, network: u32, place: usize, setup: &InterfaceSetup) -> Result<(), Refusal>;

    /// Switches an Ethernet interface of a virtual host on or off.
    fn switch_ethernet(&mut self, network: u32, name: &str, is_on: bool);

    /// Removes an interface.
    fn remove_interface(&mut self, network: u32, place: usize);

    /// Returns the index of an interface in its network.
    fn interface_index(&self, network: u32, place: usize) -> Option<u32>;

    /// Closes the networks of all virtual hosts.
    fn close_networks(&mut self);

    /// Accepts TCP connections for iWARP ids on these addresses, and on no others.
    fn listen_for_streams(&mut self, wanted: &BTreeSet<SocketAddr>) -> Result<(), i32>;

    /// Makes the socket of a client's capture.
    fn open_capture(&mut self, client: ClientId) -> Result<(), Refusal>;

    /// Queues a packet for a capture.
    fn push_capture(&mut self, client: ClientId, packet: &Captured);

    /// Writes what fits into a capture's socket, and counts packets that were dropped earlier. Returns false if its reader
    /// has left: the capture is closed.
    fn flush_capture(&mut self, client: ClientId, dropped: u64) -> bool;

    /// Closes a capture after what is queued for it.
    fn finish_capture(&mut self, client: ClientId);

    /// Closes a capture.
    fn close_capture(&mut self, client: ClientId);

    /// Takes back the events sent to a channel that the program has not read, oldest first.
    fn take_back(&mut self, channel: u32) -> Vec<CmEvent>;

    /// Makes a ledger for a client.
    fn open_ledger(&mut self, client: ClientId) -> Result<(), Refusal>;

    /// Closes a client's ledger, if there is one.
    fn close_ledger(&mut self, client: ClientId);

    /// Returns the counters in a client's ledger.
    fn counters(&self, client: ClientId) -> Option<CountersPage>;

    /// Returns the objects in a client's ledger.
    fn objects(&self, client: ClientId) -> Option<ObjectsPage>;

    /// Makes, or takes back, the files for connections to a process; returns whether it shares memory.
    fn publish(&mut self, client: ClientId, slot: u32, what: Publication, brought: &[OwnedFd])
    -> Result<bool, Refusal>;

    /// Closes the files of a publication.
    fn unpublish(&mut self, slot: u32);

    /// Makes, or takes back, a pair of rings.
    fn make_pair(&mut self, slots: Slots, same_user: bool, brought: Option<&OwnedFd>) -> Result<(), Refusal>;

    /// Closes a pair of rings, if there is one.
    fn forget_pair(&mut self, slots: Slots);

    /// Returns the reply that connects slot `own` to slot `peer`; `None` if there is no such pair.
    fn peer_grant(&self, own: u32, peer: u32) -> Option<PeerGrant>;

    /// Returns why the last attempt to get the port failed.
    fn port_trouble(&self) -> Option<String>;
}

/// A host without sockets, for tests and fuzzing: it keeps only the invariants.
#[derive(Clone, Debug, Default)]
pub struct FakeHost {
    /// Number of slots in the pool.
    pub slots: u32,
    /// Open slots.
    pub open: std::collections::BTreeSet<u32>,
    /// Groups joined.
    pub groups: std::collections::BTreeSet<(u32, McastGroup)>,
    /// Result of adopting an anchor, if any.
    pub anchored: Option<Adopted>,
    /// Refusal for requests to grow.
    pub port_trouble: Option<Refusal>,
    /// Whether queue pair 1 is open.
    pub gsi: bool,
    /// Event channels.
    pub channels: std::collections::BTreeSet<u32>,
    /// Ports for management datagrams.
    pub umad: std::collections::BTreeSet<u32>,
    /// Contents of clients' ledgers.
    pub ledgers: std::collections::BTreeMap<ClientId, (CountersPage, ObjectsPage)>,
    /// Publications, by slot.
    pub published: std::collections::BTreeMap<u32, Publication>,
    /// Pairs of rings, and whether both processes belong to one user.
    pub pairs: std::collections::BTreeMap<Slots, bool>,
    /// Packets for captures.
    pub captures: std::collections::BTreeMap<ClientId, Vec<Captured>>,
    /// Questions without an answer.
    pub questions: std::collections::BTreeSet<QuestionId>,
}

impl Host for FakeHost {
    fn grow_pool(&mut self, slots: u32) -> Result<u32, Refusal> {
        if let Some(refusal) = &self.port_trouble {
            return Err(refusal.clone());
        }
        self.slots = slots;
        Ok(slots)
    }

    fn open_slot(&mut self, slot: u32) -> Result<(), Refusal> {
        assert!(slot != 0 && slot < self.slots, "slot {slot} of {}", self.slots);
        assert!(self.open.insert(slot), "slot {slot} is open already");
        Ok(())
    }

    fn seal_slot(&mut self, slot: u32) {
        assert!(self.open.remove(&slot), "slot {slot} is not open");
        assert!(!self.groups.iter().any(|&(other, _)| other == slot), "slot {slot} is sealed with groups joined");
    }

    fn retire_slot(&mut self, _: ClientId, _: u32) {}

    fn is_abandoned(&self, _: u32) -> bool {
        true
    }

    fn node_grants(&self, _: ClientId, _: &Credentials, _: &str, _: u32) -> bool {
        false
    }

    fn steer(&mut self) {}

    fn has_v6(&self) -> bool {
        true
    }

    fn multicast(&mut self, slot: u32, group: McastGroup, join: bool) -> Result<(), Refusal> {
        assert!(self.open.contains(&slot));
        match join {
            true => assert!(self.groups.insert((slot, group))),
            // A survivor of a predecessor may have claimed groups that it never joined.
            false => drop(self.groups.remove(&(slot, group))),
        }
        Ok(())
    }

    fn proves(&self, _slot: u32, _proof: &OwnedFd) -> bool {
        true
    }

    fn adopt_pool(&mut self, _anchor: &OwnedFd) -> Result<Adopted, Refusal> {
        let adopted = self.anchored.take().ok_or_else(|| crate::refusal::refuse(crate::refusal::EINVAL, "empty"))?;
        self.slots = adopted.slots;
        let owned = adopted.saved.slots.iter().filter(|saved| saved.owned && saved.slot < adopted.slots);
        self.open = owned.map(|saved| saved.slot).filter(|&slot| slot != 0).collect();
        Ok(adopted)
    }

    fn slot0_packets(&self) -> u64 {
        0
    }

    fn open_gsi(&mut self) -> Result<(), Refusal> {
        assert!(self.slots > 0, "there is no pool");
        self.gsi = true;
        Ok(())
    }

    fn gsi_status(&self) -> Option<GsiStatus> {
        self.gsi.then(GsiStatus::default)
    }

    fn resolve(&mut self, _now: Instant, asked: &ResolveQuestion, _netdevs: &Netdevs) -> Option<ResolveResult> {
        self.questions.insert(asked.question);
        None
    }

    fn forget(&mut self, question: QuestionId) {
        assert!(self.questions.remove(&question), "nobody asked {question:?}");
    }

    fn groups(&self) -> u32 {
        0
    }

    fn open_channel(&mut self, channel: u32) -> Result<(), Refusal> {
        assert!(self.channels.insert(channel), "channel {channel} is open already");
        Ok(())
    }

    fn close_channel(&mut self, channel: u32) {
        assert!(self.channels.remove(&channel), "channel {channel} is not open");
    }

    fn open_umad(&mut self, handle: u32) -> Result<Option<DaemonRing>, Refusal> {
        assert!(self.umad.insert(handle), "port {handle} is open already");
        Ok(None)
    }

    fn close_umad(&mut self, handle: u32) {
        assert!(self.umad.remove(&handle), "port {handle} is not open");
    }

    fn open_packet_channel(&mut self, _client: ClientId) -> Result<Option<SwitchEnd>, Refusal> {
        Ok(None)
    }

    fn close_packet_channel(&mut self, _client: ClientId) {}

    fn open_network(&mut self, _network: u32, _setup: &HostSetup) -> Result<bool, Refusal> {
        Ok(false)
    }

    fn set_hosts_file(&mut self, _text: &str) -> Result<(), Refusal> {
        Ok(())
    }

    fn add_interface(&mut self, _network: u32, _place: usize, _setup: &InterfaceSetup) -> Result<(), Refusal> {
        Ok(())
    }

    fn switch_ethernet(&mut self, _network: u32, _name: &str, _is_on: bool) {}

    fn remove_interface(&mut self, _network: u32, _place: usize) {}

    fn interface_index(&self, _network: u32, place: usize) -> Option<u32> {
        u32::try_from(place).ok()
    }

    fn close_networks(&mut self) {}

    fn listen_for_streams(&mut self, _wanted: &BTreeSet<SocketAddr>) -> Result<(), i32> {
        Ok(())
    }

    fn open_capture(&mut self, client: ClientId) -> Result<(), Refusal> {
        assert!(self.captures.insert(client, Vec::new()).is_none(), "client {client} has a capture already");
        Ok(())
    }

    fn push_capture(&mut self, client: ClientId, packet: &Captured) {
        assert!(self.captures.contains_key(&client), "client {client} has no capture");
        self.captures.entry(client).or_default().push(packet.clone());
    }

    fn flush_capture(&mut self, client: ClientId, _dropped: u64) -> bool {
        self.captures.contains_key(&client)
    }

    fn finish_capture(&mut self, client: ClientId) {
        self.close_capture(client);
    }

    fn close_capture(&mut self, client: ClientId) {
        assert!(self.captures.remove(&client).is_some(), "client {client} has no capture");
    }

    fn take_back(&mut self, channel: u32) -> Vec<CmEvent> {
        assert!(self.channels.contains(&channel), "channel {channel} is not open");
        Vec::new()
    }

    fn open_ledger(&mut self, client: ClientId) -> Result<(), Refusal> {
        assert!(self.ledgers.insert(client, Default::default()).is_none(), "client {client} has a ledger already");
        Ok(())
    }

    fn close_ledger(&mut self, client: ClientId) {
        self.ledgers.remove(&client);
    }

    fn counters(&self, client: ClientId) -> Option<CountersPage> {
        self.ledgers.get(&client).map(|(counters, _)| counters.clone())
    }

    fn objects(&self, client: ClientId) -> Option<ObjectsPage> {
        self.ledgers.get(&client).map(|(_, objects)| objects.clone())
    }

    fn publish(
        &mut self,
        _client: ClientId,
        slot: u32,
        what: Publication,
        brought: &[OwnedFd],
    ) -> Result<bool, Refusal> {
        if what.brings && brought.len() != 1 + 2 * usize::from(what.shares) {
            return Err(crate::refusal::refuse(crate::refusal::EINVAL, "not all of it"));
        }
        assert!(self.published.insert(slot, what).is_none(), "slot {slot} has published already");
        Ok(what.shares)
    }

    fn unpublish(&mut self, slot: u32) {
        assert!(self.published.remove(&slot).is_some(), "slot {slot} has published nothing");
        assert!(self.pairs.keys().all(|&(low, high)| low != slot && high != slot), "slot {slot} leaves pairs");
    }

    fn make_pair(&mut self, slots: Slots, same_user: bool, _brought: Option<&OwnedFd>) -> Result<(), Refusal> {
        assert!(self.published.contains_key(&slots.0) && self.published.contains_key(&slots.1));
        assert!(self.pairs.insert(slots, same_user).is_none(), "{slots:?} is there already");
        Ok(())
    }

    fn forget_pair(&mut self, slots: Slots) {
        self.pairs.remove(&slots);
    }

    fn peer_grant(&self, own: u32, peer: u32) -> Option<PeerGrant> {
        let same_user = *self.pairs.get(&crate::pairs::ordered(own, peer))?;
        let (ours, theirs) = (self.published.get(&own)?, self.published.get(&peer)?);
        let shares = same_user && ours.shares && theirs.shares;
        Some(PeerGrant { generation: theirs.generation, has_bell: !same_user, has_process: true, shares })
    }

    fn port_trouble(&self) -> Option<String> {
        self.port_trouble.as_ref().map(|refusal| refusal.text.clone())
    }
}
