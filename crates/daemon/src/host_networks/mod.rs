//! Networks of virtual hosts: each host that a program runs as has namespaces, IPoIB interfaces and a socket of the
//! daemon's in them. They end with their fabric, except as far as programs are still in them.

mod arrivals;
mod provisioner;
mod routing;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::Instant;

use weft_ipoib::Frame;
use weft_sys::memory;
use weft_sys::tun::Tun;
use weft_sys::unix::{self, Wait};

use arrivals::Arrivals;
use provisioner::Provisioner;
pub use provisioner::{HostSetup, INTERFACES_MAX, InterfaceSetup, Made, MadeInterface};
use routing::Routing;

use crate::{rtnl_changes, rtnl_links};

/// Flag of an interface that is up.
const IFF_UP: u32 = 1;

/// Sender of the queries for multicast groups. No port has this address: its GUID is not one.
const QUERIER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

/// A process that networks depend on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Helper {
    /// It makes hosts, and owns the switch of an Ethernet network.
    Provisioner,
    /// It carries the frames of Ethernet cables with limits.
    Shaper,
}

/// The networks of all hosts, by number.
#[derive(Debug, Default)]
pub struct HostNetworks {
    provisioner: Option<Provisioner>,
    /// Hangs up when the shaper ends.
    shaper: Option<OwnedFd>,
    /// Helpers that are not watched yet.
    new_helpers: Vec<Helper>,
    of: BTreeMap<u32, Made>,
    /// Their routes.
    routing: BTreeMap<u32, Routing>,
    /// Interfaces that are up, by network and index.
    up: BTreeSet<(u32, u32)>,
    arrivals: Arrivals,
    /// Those that are not watched yet.
    new: Vec<u32>,
    /// Interfaces that are not watched yet, by network and place.
    new_interfaces: Vec<(u32, usize)>,
    /// The hosts' names, as hosts(5) has them.
    hosts_file: Option<OwnedFd>,
}

impl HostNetworks {
    /// Makes the network of a host, unless it is there.
    ///
    /// # Errors
    /// The system refuses namespaces, or has no room for more.
    pub fn open(&mut self, network: u32, setup: &HostSetup) -> io::Result<&Made> {
        if !self.of.contains_key(&network) {
            if self.provisioner.as_ref().is_none_or(Provisioner::is_broken) {
                self.provisioner = Some(Provisioner::start()?);
                self.new_helpers.push(Helper::Provisioner);
            }
            let provisioner = self.provisioner.as_ref().ok_or(io::ErrorKind::NotFound)?;
            let mut made = provisioner.make(setup)?;
            if let Some(shaper) = made.shaper.take() {
                self.shaper = Some(shaper);
                self.new_helpers.push(Helper::Shaper);
            }
            self.new_interfaces.extend(made.interfaces.keys().map(|place| (network, *place)));
            self.of.insert(network, made);
            self.new.push(network);
        }
        self.of.get(&network).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Makes an interface in a network.
    ///
    /// # Errors
    /// The network is not there, the name is taken, or the system has no room for more.
    pub fn add_interface(&mut self, network: u32, place: usize, setup: &InterfaceSetup) -> io::Result<()> {
        let made = self.of.get_mut(&network).ok_or(io::ErrorKind::NotFound)?;
        let provisioner = self.provisioner.as_ref().ok_or_else(provisioner::has_ended)?;
        let interface = provisioner.add(made.namespaces.net.as_fd(), setup)?;
        made.interfaces.insert(place, interface);
        self.new_interfaces.push((network, place));
        Ok(())
    }

    /// Switches an Ethernet interface on or off.
    pub fn switch_ethernet(&self, network: u32, name: &str, is_on: bool) {
        // The kernel's answer comes among the changes. A user who has renamed or removed the interface has had the last
        // word.
        let _ = self.of.get(&network).map(|made| made.routes.send(&rtnl_links::switch(name, is_on)));
    }

    /// Removes an interface: it ends with its descriptor.
    pub fn remove_interface(&mut self, network: u32, place: usize) {
        if let Some(gone) = self.of.get_mut(&network).and_then(|made| made.interfaces.remove(&place)) {
            self.up.remove(&(network, gone.index));
        }
        self.arrivals.forget((network, place));
    }

    /// Hands a packet to the kernel, once it sends over the interface.
    pub fn deliver(&mut self, now: Instant, network: u32, place: usize, packet: Frame) {
        if let Some(packet) = self.arrivals.admit(now, (network, place), packet) {
            self.write(network, place, packet);
        }
    }

    /// A full queue loses the packet, as a link does. A kernel that does not take it as its sender's left it gets it
    /// complete.
    fn write(&self, network: u32, place: usize, packet: Frame) {
        let Some(tun) = self.tun(network, place) else { return };
        let write = |frame: &Frame| tun.write(&frame.vnet_header(), frame.packet());
        let is_refused = |error: io::Error| error.kind() == io::ErrorKind::InvalidInput;
        if packet.is_plain() {
            let _ = write(&packet);
        } else if !tun.takes_deferred() || write(&packet).is_err_and(is_refused) {
            packet.into_plain().for_each(|frame| drop(write(&frame)));
        }
    }

    /// Follows an interface's operational state. When it becomes operational, the kernel gets the packets that waited for
    /// it, and queries for its multicast groups: earlier reports are lost.
    pub fn follow_operation(&mut self, now: Instant, network: u32, ifindex: u32, is_operational: bool) {
        let Some(place) = self.place(network, ifindex) else { return };
        let is_new = is_operational && !self.arrivals.is_operational((network, place));
        for packet in self.arrivals.follow(now, (network, place), is_operational) {
            self.write(network, place, packet);
        }
        if is_new {
            let queries = weft_ipoib::queries(QUERIER);
            queries.into_iter().for_each(|query| self.write(network, place, query));
        }
    }

    /// Returns a network.
    pub fn get(&self, network: u32) -> Option<&Made> {
        self.of.get(&network)
    }

    /// Keeps the file of the hosts' names.
    pub fn set_hosts_file(&mut self, text: &str) -> io::Result<()> {
        let file = memory::sealed_file("weft-hosts", text.len() as u64)?;
        file.write_all_at(text.as_bytes(), 0)?;
        self.hosts_file = Some(file.into());
        Ok(())
    }

    /// Returns the descriptors for programs of a network: file of the hosts' names, user namespace if there is one,
    /// network, UTS.
    pub fn namespaces(&self, network: u32) -> Vec<BorrowedFd<'_>> {
        let Some(made) = self.of.get(&network) else { return Vec::new() };
        let (hosts, user) = (self.hosts_file.as_ref(), made.namespaces.user.as_ref());
        hosts
            .into_iter()
            .chain(user)
            .map(AsFd::as_fd)
            .chain([made.namespaces.net.as_fd(), made.namespaces.uts.as_fd()])
            .collect()
    }

    /// Returns an interface of a network.
    pub fn tun(&self, network: u32, interface: usize) -> Option<&Tun> {
        self.of.get(&network)?.interfaces.get(&interface).map(|interface| &interface.tun)
    }

    /// Tells the kernel an interface's link: its MTU, or that there is none.
    pub fn set_link(&self, network: u32, interface: usize, mtu: Option<u32>) {
        let Some(made) = self.of.get(&network) else { return };
        let Some(MadeInterface { index, tun, .. }) = made.interfaces.get(&interface) else { return };
        // The kernel's answers come among the changes. A user who has set another MTU, or removed the interface, has
        // had the last word.
        let _ = tun.set_carrier(mtu.is_some());
        if let Some(mtu) = mtu {
            let _ = made.routes.send(&rtnl_changes::set_mtu(*index, mtu));
        }
    }

    /// Returns the helpers that came since the last call.
    pub fn take_new_helpers(&mut self) -> Vec<Helper> {
        std::mem::take(&mut self.new_helpers)
    }

    /// Returns the descriptor that is readable when a helper ends.
    pub fn helper(&self, helper: Helper) -> Option<BorrowedFd<'_>> {
        match helper {
            Helper::Provisioner => self.provisioner.as_ref().map(Provisioner::end),
            Helper::Shaper => self.shaper.as_ref().map(AsFd::as_fd),
        }
    }

    /// Forgets a helper if it has ended; returns whether it has.
    pub fn forget_ended(&mut self, helper: Helper) -> bool {
        // Messages of the provisioner are answers, which are read where they are awaited. A late one is as bad as none.
        let is_alive = |end| matches!(unix::recv(end, &mut [0], 0, Wait::No), Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        if self.helper(helper).is_none_or(is_alive) {
            return false;
        }
        match helper {
            Helper::Provisioner => self.provisioner = None,
            Helper::Shaper => self.shaper = None,
        }
        true
    }

    /// Returns the networks that came since the last call.
    pub fn take_new(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.new)
    }

    /// Returns the interfaces that came since the last call, by network and place.
    pub fn take_new_interfaces(&mut self) -> Vec<(u32, usize)> {
        std::mem::take(&mut self.new_interfaces)
    }

    /// Returns the place of an interface in its network.
    pub fn place(&self, network: u32, ifindex: u32) -> Option<usize> {
        self.of.get(&network)?.interfaces.iter().find(|(_, one)| one.index == ifindex).map(|(place, _)| *place)
    }

    /// Follows the flags of an interface. One that is switched on gets its link-local address, which the kernel took when
    /// it was switched off.
    pub fn follow_link(&mut self, network: u32, ifindex: u32, flags: u32) {
        let Some(place) = self.place(network, ifindex) else { return };
        if flags & IFF_UP == 0 {
            self.up.remove(&(network, ifindex));
        } else if self.up.insert((network, ifindex))
            && let Some(made) = self.of.get(&network)
            && let Some(ip) = made.interfaces.get(&place).and_then(|interface| interface.link_local)
        {
            // The kernel's answer comes among the changes: the address may be there already.
            let _ = made.routes.send(&rtnl_changes::add_address(ifindex, ip, provisioner::LINK_LOCAL_PREFIX));
        }
    }

    /// Returns what is known of a network's routes.
    pub fn routing(&mut self, network: u32) -> &mut Routing {
        self.routing.entry(network).or_default()
    }

    /// Requests a network's routes from the kernel where reports of changes may be missing.
    pub fn request_routes(&mut self, network: u32) {
        if let Some(request) = self.routing.entry(network).or_default().poll_request()
            && let Some(made) = self.of.get(&network)
            && made.routes.send(&request).is_err()
        {
            self.routing.remove(&network);
        }
    }

    /// Closes all of them.
    pub fn clear(&mut self) {
        *self = HostNetworks::default();
    }
}
