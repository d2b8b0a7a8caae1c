//! Networks of virtual hosts: a host gets one when a program first runs as it. IPoIB carries their packets.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use weft_fabric::topology::LinkLayer;
use weft_fabric::{Delivery, Fabric, PortRef};
use weft_ipc::{Refusal, Request, Response};
use weft_ipoib::Mode;
use weft_wire::ipoib::LinkAddress;

use super::call::{Call, Outcome};
use super::ethernet_ports;
use super::fabric::Changed;
use super::host_wake::Woken;
use super::route::{Routed, Rules};
use super::shared::Shared;
use super::{Attach, Broker};
use crate::ethernet::EthernetPort;
use crate::fabric::Running;
use crate::host::Host;
use crate::host_networks::{HostSetup, INTERFACES_MAX, InterfaceSetup};
use crate::ipoib::{InterfaceId, Interfaces};
use crate::refusal::{ENODEV, refuse};
use crate::umad;

/// MTU of an interface until its link is known: that of most links.
pub(super) const MTU_FIRST: u32 = 2044;

/// Length of the prefix of the hosts' addresses: all are in one network.
const PREFIX: u8 = 8;

/// Addresses of an interface that the link learns of.
const ADDRESSES_MAX: usize = 256;

/// The requests of this feature.
pub(super) fn route<H: Host>(request: Request) -> Routed<H> {
    Routed::Here(match request {
        Request::HostNetwork => Rules::PLAIN.trusted("enter the namespaces of a fabric's hosts").to(|broker, call| {
            let opened = broker.networks.open(&mut broker.shared, call);
            broker.take_packets_of_interfaces();
            opened
        }),
        Request::MachineSocket => Rules::PLAIN
            .trusted("reach this machine from a fabric's host")
            .to(|_, _| Ok(Outcome::with(Response::Done, Attach { machine_socket: true, ..Attach::default() }))),
        Request::SetIpoibMode { interface, connected } => Rules::PLAIN
            .trusted("change the interfaces of a fabric's hosts")
            .to(move |broker, call| broker.networks.set_mode(&mut broker.shared, &call, &interface, connected)),
        Request::EthernetUp(spec) => {
            Rules::PLAIN.trusted("bring up a network").to(move |broker, call| broker.start_ethernet(call, spec))
        }
        Request::EthernetStatus => Rules::PLAIN.to(|broker, call| {
            let status = broker.shared.ethernet.as_ref().map(|network| network.status(call.now));
            Ok(Response::Ethernet(status).into())
        }),
        other => return super::ipoib_interfaces::route(other),
    })
}

/// The networks, and the IPoIB interfaces in them.
#[derive(Debug, Default)]
pub(super) struct Networks {
    pub(super) interfaces: Interfaces,
    /// The interfaces of each network, by place. A network has the number of its host's first node.
    pub(super) of: BTreeMap<u32, BTreeMap<usize, InterfaceId>>,
    pub(super) places: BTreeMap<InterfaceId, (u32, usize)>,
    /// The kernel's addresses of each interface.
    pub(super) addresses: BTreeMap<InterfaceId, BTreeSet<IpAddr>>,
    /// The kernel's names of them.
    pub(super) names: BTreeMap<InterfaceId, String>,
    /// Receivers whose hosts have networks because of packets to them.
    pub(super) woken: Woken,
    /// Whether a user namespace owns the networks, once there is one.
    has_user: Option<bool>,
    /// Nodes without power.
    pub(super) unpowered: BTreeSet<u32>,
}

impl Networks {
    fn open(&mut self, shared: &mut Shared, call: Call<'_, impl Host>) -> Result<Outcome, Refusal> {
        let Call { now, id, host: outside, .. } = call;
        let host = shared.sessions.host(id).ok_or_else(no_host)?.to_owned();
        let (network, has_user) = match &shared.ethernet {
            Some(ethernet) => ethernet.open_host(outside, &host)?,
            None => {
                let opened = self.open_host(shared, now, outside, host.clone())?;
                self.open_neighbours(shared, now, outside, &host);
                opened
            }
        };
        let attach = Attach { network: Some(network), ..Attach::default() };
        Ok(Outcome::with(Response::HostNetwork { has_user }, attach))
    }

    /// Makes a host's network, unless it is there. Returns its number, and whether a user namespace owns it.
    pub(super) fn open_host(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        outside: &mut impl Host,
        host: String,
    ) -> Result<(u32, bool), Refusal> {
        let (time, generation) = (shared.fabric.time(now), shared.fabric.generation());
        let running = shared.fabric.required()?;
        let adapters = running.adapters(&host).ok_or_else(no_host)?.to_vec();
        let network = *adapters.first().ok_or_else(no_host)?;
        if let Some(has_user) = self.has_user.filter(|_| self.of.contains_key(&network)) {
            return Ok((network, has_user));
        }
        let interfaces = port_interfaces(running, generation, &adapters);
        let setup = HostSetup {
            name: host,
            socket_name: shared.config.socket_name.clone(),
            interfaces: interfaces.iter().map(|(_, setup)| setup.clone()).collect(),
            ethernet: EthernetPort::of_adapters(running.fabric(), &adapters),
        };
        if self.of.is_empty() {
            outside.set_hosts_file(&hosts_file(running))?;
        }
        let has_user = outside.open_network(network, &setup)?;
        self.has_user = Some(has_user);
        ethernet_ports::switch_off_unpowered(running.fabric(), network, &adapters, outside);
        if let Entry::Vacant(new) = self.of.entry(network) {
            new.insert(BTreeMap::new());
            self.interfaces.set_hop_by_hop(running.packets());
            for (place, (port, setup)) in interfaces.into_iter().enumerate() {
                self.bind_port(time, running, (network, place), port, setup);
            }
        }
        Ok((network, has_user))
    }

    /// Gives a port's interface, which the kernel has, its part on the fabric.
    fn bind_port(
        &mut self,
        time: weft_verbs::Instant,
        running: &mut Running,
        (network, place): (u32, usize),
        port: PortRef,
        made: InterfaceSetup,
    ) {
        let mode = mode(running.ipoib_connected());
        let fabric = running.fabric_mut();
        let addresses = made.addresses.iter().map(|(ip, _)| *ip).chain(made.link_local).collect();
        self.adopt(network, place, port.into(), made.name, addresses);
        self.interfaces.add(time, fabric, port, weft_sys::random::u64());
        self.interfaces.set_mode(time, fabric, port, mode);
        self.set_addresses(time, fabric, port.into());
    }

    /// Makes or removes the interfaces of a host, as `modprobe ib_ipoib` and `modprobe -r ib_ipoib` do.
    pub(super) fn set_ipoib(
        &mut self,
        shared: &mut Shared,
        call: &mut Call<'_, impl Host>,
        loaded: bool,
    ) -> Result<(), Refusal> {
        if loaded { self.load_ipoib(shared, call) } else { self.remove_ipoib(shared, call) }
    }

    /// Makes the interfaces of a host's ports that are not there.
    fn load_ipoib(&mut self, shared: &mut Shared, call: &mut Call<'_, impl Host>) -> Result<(), Refusal> {
        let network = self.network_of(shared, call)?;
        let host = shared.sessions.host(call.id).ok_or_else(no_host)?.to_owned();
        let (time, generation) = (shared.fabric.time(call.now), shared.fabric.generation());
        let running = shared.fabric.required()?;
        let adapters = running.adapters(&host).ok_or_else(no_host)?.to_vec();
        for (place, (port, setup)) in port_interfaces(running, generation, &adapters).into_iter().enumerate() {
            if self.at(network, place).is_none() {
                call.host.add_interface(network, place, &setup)?;
                self.bind_port(time, running, (network, place), port, setup);
            }
        }
        Ok(())
    }

    /// Removes all interfaces of a host, children included.
    fn remove_ipoib(&mut self, shared: &mut Shared, call: &mut Call<'_, impl Host>) -> Result<(), Refusal> {
        let network = self.network_of(shared, call)?;
        let time = shared.fabric.time(call.now);
        let fabric = shared.fabric.required()?.fabric_mut();
        for (place, id) in self.of.insert(network, BTreeMap::new()).unwrap_or_default() {
            self.interfaces.remove(time, fabric, id);
            self.places.remove(&id);
            self.names.remove(&id);
            self.addresses.remove(&id);
            call.host.remove_interface(network, place);
        }
        Ok(())
    }

    /// Notes an interface at its place.
    pub(super) fn adopt(
        &mut self,
        network: u32,
        place: usize,
        id: InterfaceId,
        name: String,
        addresses: BTreeSet<IpAddr>,
    ) {
        self.of.entry(network).or_default().insert(place, id);
        self.places.insert(id, (network, place));
        self.names.insert(id, name);
        self.addresses.insert(id, addresses);
    }

    /// Tells an interface its addresses.
    pub(super) fn set_addresses(&mut self, time: weft_verbs::Instant, fabric: &mut Fabric, id: InterfaceId) {
        let all: Vec<IpAddr> = self.addresses.get(&id).into_iter().flatten().copied().collect();
        self.interfaces.set_addresses(time, fabric, id, &all, &all_hosts());
    }

    /// Returns the interface at a place.
    pub(super) fn at(&self, network: u32, place: usize) -> Option<InterfaceId> {
        self.of.get(&network)?.get(&place).copied()
    }

    /// Sets the mode of an interface of the client's host.
    fn set_mode(
        &mut self,
        shared: &mut Shared,
        call: &Call<'_, impl Host>,
        interface: &str,
        connected: bool,
    ) -> Result<Outcome, Refusal> {
        let host = shared.sessions.host(call.id).unwrap_or_default().to_owned();
        let time = shared.fabric.time(call.now);
        let running = shared.fabric.required()?;
        let network = running.adapters(&host).and_then(|adapters| adapters.first());
        let ids: Vec<InterfaceId> =
            network.and_then(|network| self.of.get(network)).into_iter().flat_map(BTreeMap::values).copied().collect();
        let name = |id: &InterfaceId| self.names.get(id).cloned().unwrap_or_default();
        let Some(id) = ids.iter().copied().find(|id| name(id) == interface) else {
            let names: Vec<String> = ids.iter().map(name).collect();
            let rest = match names.is_empty() {
                true => "has none until a program runs as it".to_owned(),
                false => format!("has {}", names.join(", ")),
            };
            return Err(refuse(ENODEV, format!("unknown IPoIB interface `{interface}`; host `{host}` {rest}")));
        };
        self.interfaces.set_mode(time, running.fabric_mut(), id, mode(connected));
        Ok(Response::Done.into())
    }

    /// Returns the modes of all interfaces, for tests.
    #[cfg(test)]
    pub fn interface_modes(&self) -> impl Iterator<Item = Option<Mode>> {
        self.places.keys().map(|id| self.interfaces.mode(*id))
    }

    /// Ends all networks with their fabric.
    pub fn end(&mut self, host: &mut impl Host) {
        *self = Networks::default();
        host.close_networks();
    }

    /// Gives the interfaces of changed nodes the state of their ports.
    pub fn follow(&mut self, shared: &mut Shared, now: Instant, changed: &Changed) {
        let time = shared.fabric.time(now);
        let Some(running) = shared.fabric.running_mut() else { return };
        let ports: BTreeSet<PortRef> =
            self.places.keys().map(|id| id.port).filter(|port| changed.nodes.contains(&port.node)).collect();
        for port in ports {
            self.interfaces.follow_port(time, running.fabric_mut(), port);
            if changed.reregister.contains(&port) {
                self.interfaces.reregister(time, running.fabric_mut(), port);
            }
        }
    }

    /// Handles a management datagram; returns whether it was for an interface.
    pub fn claim(&mut self, shared: &mut Shared, now: Instant, delivery: &Delivery) -> bool {
        if self.interfaces.is_empty() {
            return false;
        }
        let time = shared.fabric.time(now);
        let Some(running) = shared.fabric.running_mut() else { return false };
        self.interfaces.handle_delivery(time, running.fabric_mut(), delivery)
    }

    /// Does what is due by `now`.
    pub fn handle_timeout(&mut self, shared: &mut Shared, now: Instant) {
        let time = shared.fabric.time(now);
        if self.interfaces.poll_timeout().is_some_and(|at| at <= time)
            && let Some(running) = shared.fabric.running_mut()
        {
            self.interfaces.handle_timeout(time, running.fabric_mut());
        }
    }

    /// Returns when [`Networks::handle_timeout`] is due, in the fabric's time.
    pub fn poll_timeout(&self) -> Option<weft_verbs::Instant> {
        self.interfaces.poll_timeout()
    }
}

fn no_host() -> Refusal {
    refuse(ENODEV, "the program does not run as a host of a fabric")
}

/// Returns the interfaces of a host's ports, in the order of their places.
fn port_interfaces(running: &mut Running, generation: u64, adapters: &[u32]) -> Vec<(PortRef, InterfaceSetup)> {
    let (fabric, addresses) = running.addressed();
    let ports = umad::ports_of(fabric, generation, adapters).into_iter().map(|(_, port)| port);
    let setup = |(number, port): (usize, PortRef)| {
        let ip = addresses.ip(port).map(|ip| (IpAddr::from(ip), PREFIX));
        let setup = InterfaceSetup {
            name: format!("ib{number}"),
            addresses: ip.into_iter().collect(),
            link_local: fabric.gid(port, 0).map(|gid| LinkAddress::link_local(&gid).into()),
            mtu: MTU_FIRST,
            is_up: true,
        };
        (port, setup)
    };
    ports.take(INTERFACES_MAX).enumerate().map(setup).collect()
}

fn mode(connected: bool) -> Mode {
    if connected { Mode::Connected } else { Mode::Datagram }
}

/// The names of all hosts and their addresses, as hosts(5) has them. A host's name is its first port's; every port has one
/// with its interface, too.
fn hosts_file(running: &mut Running) -> String {
    let mut text = String::new();
    let hosts: Vec<(String, Vec<u32>)> = running.hosts().clone().into_iter().collect();
    let (fabric, addresses) = running.addressed();
    for (host, adapters) in hosts {
        let ports =
            adapters.iter().flat_map(|node| (1..=fabric.port_count(*node)).map(|port| PortRef::new(*node, port)));
        let ports = ports.filter(|port| fabric.link_layer(*port) == Some(LinkLayer::InfiniBand));
        let infiniband = ports.enumerate().map(|(number, port)| (port, format!("ib{number}")));
        let interfaces = infiniband.chain(umad::ethernet_interfaces(fabric, &adapters));
        let named = interfaces.filter_map(|(port, name)| Some((addresses.ip(port)?, name)));
        for (number, (ip, name)) in named.enumerate() {
            let first = if number == 0 { format!("\t{host}") } else { String::new() };
            let _ = writeln!(text, "{ip}{first}\t{host}-{name}");
        }
    }
    text
}

/// The groups that every host is in.
fn all_hosts() -> [IpAddr; 2] {
    [Ipv4Addr::new(224, 0, 0, 1).into(), Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1).into()]
}

impl Broker {
    /// Handles a change of an interface's addresses in a virtual host.
    pub fn handle_ip_address(&mut self, now: Instant, network: u32, interface: usize, ip: IpAddr, is_there: bool) {
        let networks = &mut self.networks;
        let Some(id) = networks.at(network, interface) else { return };
        let addresses = networks.addresses.entry(id).or_default();
        let changed =
            if is_there && addresses.len() < ADDRESSES_MAX { addresses.insert(ip) } else { addresses.remove(&ip) };
        let time = self.shared.fabric.time(now);
        if changed && let Some(running) = self.shared.fabric.running_mut() {
            networks.set_addresses(time, running.fabric_mut(), id);
        }
    }

    /// Handles a change of the routes over an interface of a virtual host.
    pub fn handle_ip_routes(&mut self, network: u32, interface: usize, routes: Vec<weft_ipoib::Route>) {
        if let Some(id) = self.networks.at(network, interface) {
            self.networks.interfaces.set_routes(id, routes);
        }
    }

    /// Handles the present name of an interface of a virtual host.
    pub fn handle_ip_link(&mut self, network: u32, interface: usize, name: String) {
        if let Some(id) = self.networks.at(network, interface) {
            self.networks.names.insert(id, name);
        }
    }

    /// Lets the switches hand over packets for all interfaces that there are.
    pub(super) fn take_packets_of_interfaces(&mut self) {
        self.packet_channels.set_daemon_ports(self.networks.places.keys().map(|id| id.port).collect());
    }
}
