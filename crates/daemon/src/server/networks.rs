//! The loop's part for the networks of virtual hosts: packets of their kernels, and the programs in them.

use std::time::Instant;

use libc::ENOBUFS;

use weft_ipoib::{Frame, VNET_HEADER_LEN};
use weft_sys::epoll::Interest;
use weft_sys::unix;

use super::{Server, tokens};
use crate::broker::NetworkEffect;
use crate::host_networks::Helper;
use crate::limits::CONNECTIONS_PER_TURN;
use crate::rtnl::{self, RouteMessage};

/// Packets of an interface, and their bytes, before the others get a turn.
const PACKETS_PER_TURN: usize = 64;
const BYTES_PER_TURN: usize = 1 << 18;

/// Interfaces of a network in a token.
const INTERFACE_BITS: u32 = 6;

/// Longest message of the kernel about interfaces.
const ROUTE_BYTES_MAX: usize = 1 << 15;

impl Server {
    /// Watches new networks, and does what the broker wants of the interfaces.
    pub(super) fn perform_for_networks(&mut self, now: Instant) {
        for network in self.host.networks.take_new() {
            let Some(made) = self.host.networks.get(network) else { continue };
            let number = u64::from(network);
            // Without a listener that is watched, no program in the network finds the daemon.
            let _ = self.epoll.add(&made.listener, tokens::NETWORK_LISTENER | number, Interest::READ);
            let _ = self.epoll.add(&made.routes, tokens::NETWORK_ROUTES | number, Interest::READ);
            // Routes came before the socket that follows them.
            self.host.networks.routing(network).invalidate();
            self.host.networks.request_routes(network);
        }
        for helper in self.host.networks.take_new_helpers() {
            let token = tokens::HELPERS | u64::from(helper == Helper::Shaper);
            let _ = self.host.networks.helper(helper).map(|end| self.epoll.add(end, token, Interest::READ));
        }
        for (network, place) in self.host.networks.take_new_interfaces() {
            let Some(tun) = self.host.networks.tun(network, place) else { continue };
            let token = tokens::TUN | u64::from(network) << INTERFACE_BITS | place as u64;
            let _ = self.epoll.add(tun, token, Interest::READ);
        }
        self.broker.carry_interface_packets(now);
        while let Some((network, interface, effect)) = self.broker.poll_network_effect() {
            match effect {
                NetworkEffect::Deliver(packet) => self.host.networks.deliver(now, network, interface, packet),
                NetworkEffect::Link(mtu) => self.host.networks.set_link(network, interface, mtu),
            }
        }
    }

    /// Notices the end of a process that networks depend on.
    pub(super) fn on_helper(&mut self, token: u64) {
        let helper = if token == tokens::HELPERS { Helper::Provisioner } else { Helper::Shaper };
        if self.host.networks.forget_ended(helper) {
            let process = match helper {
                Helper::Provisioner => "makes hosts and owns the Ethernet switch",
                Helper::Shaper => "carries the frames of Ethernet cables",
            };
            self.log.note(format_args!("the process that {process} has ended unexpectedly"));
            self.broker.note_ended(helper);
        }
    }

    /// Carries packets that the kernel of a virtual host sends.
    pub(super) fn on_tun(&mut self, now: Instant, token: u64) {
        let network = (token >> INTERFACE_BITS) as u32;
        let interface = (token & ((1 << INTERFACE_BITS) - 1)) as usize;
        let (mut header, mut bytes) = ([0; VNET_HEADER_LEN], 0);
        for _ in 0..PACKETS_PER_TURN {
            let Some(tun) = self.host.networks.tun(network, interface) else { return };
            let Ok(length) = tun.read(&mut header, &mut self.ip_packet) else { return };
            let packet = self.ip_packet.get(..length).unwrap_or_default();
            self.broker.wake_receiver(now, packet, &mut self.host);
            self.broker.handle_ip_packet(now, network, interface, Frame::of_kernel(&header, packet));
            self.perform_for_networks(now);
            bytes += length;
            if bytes >= BYTES_PER_TURN {
                return;
            }
        }
    }

    /// Takes connections of programs in a virtual host's network.
    pub(super) fn accept_in(&mut self, now: Instant, network: u32) {
        for _ in 0..CONNECTIONS_PER_TURN {
            let Some(made) = self.host.networks.get(network) else { return };
            let Ok(fd) = unix::accept(&made.listener) else { return };
            self.admit(now, fd);
        }
    }

    /// Takes the kernel's reports about a virtual host's interfaces.
    pub(super) fn on_network_routes(&mut self, now: Instant, network: u32) {
        let mut buffer = vec![0; ROUTE_BYTES_MAX];
        let mut routes_changed = false;
        while let Some(made) = self.host.networks.get(network) {
            let length = match made.routes.recv(&mut buffer) {
                Ok(length) => length,
                // Reports were lost: the next ones count, and routes are dumped.
                Err(error) if error.raw_os_error() == Some(ENOBUFS) => {
                    // A link that came up meanwhile must not stay unknown.
                    let _ = made.routes.send(&rtnl::dump_links(0));
                    self.host.networks.routing(network).invalidate();
                    continue;
                }
                Err(_) => break,
            };
            let datagram = buffer.get(..length).unwrap_or_default();
            routes_changed |= self.host.networks.routing(network).handle(datagram);
            for message in rtnl::parse(datagram) {
                self.on_network_report(now, network, message);
            }
        }
        self.host.networks.request_routes(network);
        if routes_changed {
            self.follow_routes(network);
        }
    }

    fn on_network_report(&mut self, now: Instant, network: u32, message: RouteMessage) {
        let (address, is_there) = match message {
            RouteMessage::NewAddress(address) => (address, true),
            RouteMessage::DelAddress(address) => (address, false),
            RouteMessage::NewLink(link) => {
                self.host.networks.routing(network).invalidate();
                if let (Some(place), Some(name)) = (self.host.networks.place(network, link.ifindex), link.name) {
                    self.broker.handle_ip_link(network, place, name);
                }
                self.host.networks.follow_operation(now, network, link.ifindex, link.is_operational);
                return self.host.networks.follow_link(network, link.ifindex, link.flags);
            }
            _ => return,
        };
        if !is_there {
            self.host.networks.routing(network).invalidate();
        }
        if let Some(interface) = self.host.networks.place(network, address.ifindex) {
            self.broker.handle_ip_address(now, network, interface, address.ip, is_there);
        }
    }

    /// Tells the interfaces of a network the kernel's routes.
    fn follow_routes(&mut self, network: u32) {
        let Some(made) = self.host.networks.get(network) else { return };
        let indexes: Vec<(usize, u32)> = made.interfaces.iter().map(|(place, one)| (*place, one.index)).collect();
        for (interface, index) in indexes {
            let routes = self.host.networks.routing(network).over(index);
            self.broker.handle_ip_routes(network, interface, routes);
        }
    }
}
