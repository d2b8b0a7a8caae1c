//! The switch of the Ethernet network: a bridge in a network namespace of its own. The process that makes hosts owns it,
//! and connects each host while it is in the host's network namespace.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use weft_ipc::{ConnectOptions, SOCKET_NAME, Spawn, request_stop};
use weft_sys::netlink::RouteSocket;
use weft_sys::tun::Tap;
use weft_sys::{host_namespace, process};

use super::port::EthernetPort;
use super::shaper::Shaper;
use crate::rtnl_changes;
use crate::rtnl_links::{self, End};

const HOST_NAME: &str = "switch";
const BRIDGE: &str = "br0";

/// Time limit for all hosts' daemons to say that they end.
const STOPS_WITHIN: Duration = Duration::from_secs(2);

/// A step that the system refused, for the error's text.
type Failure = (io::Error, &'static str);

/// The switch.
#[derive(Debug)]
pub(crate) struct Switch {
    network: OwnedFd,
    /// Changes links of its network, wherever the process is.
    routes: RouteSocket,
    /// Index of the bridge.
    bridge: u32,
    shaper: Option<Shaper>,
    /// Hangs up when the shaper ends; the daemon has it once [`Switch::take_shaper_end`] gave it out.
    shaper_end: Option<OwnedFd>,
    /// Networks of the hosts that have daemons of their own.
    hosts: Vec<OwnedFd>,
}

impl Switch {
    /// Makes a switch without ports, and leaves the process in its network.
    pub fn new() -> Result<Switch, Failure> {
        let (network, _) = host_namespace::enter_new(HOST_NAME).map_err(at("a network namespace"))?;
        let routes = RouteSocket::open(0).map_err(at("a route netlink socket"))?;
        rtnl_changes::change(&routes, &rtnl_links::add_bridge(BRIDGE))
            .map_err(at("a bridge (does the kernel have CONFIG_BRIDGE?)"))?;
        let bridge = process::interface_index(BRIDGE).map_err(at("the bridge's index"))?;
        rtnl_changes::change(&routes, &rtnl_changes::switch_on(bridge, None)).map_err(at("the bridge up"))?;
        Ok(Switch { network, routes, bridge, shaper: None, shaper_end: None, hosts: Vec::new() })
    }

    /// Connects the host that the process is in the network of, and gives its interface the address.
    pub fn connect(&mut self, host: &OwnedFd, routes: &RouteSocket, port: &EthernetPort) -> Result<(), Failure> {
        match &port.limits {
            None => self.connect_by_pair(routes, port),
            Some(_) => self.connect_by_taps(host, routes, port),
        }?;
        let join = rtnl_links::join_bridge(&port.port_name(), port.mtu, self.bridge);
        rtnl_changes::change(&self.routes, &join).map_err(at("the switch's port"))?;
        // Addresses on this switch are unique, so that none needs a second of duplicate address detection.
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{}/accept_dad", port.name), "0");
        let index = process::interface_index(&port.name).map_err(at("the interface's index"))?;
        rtnl_changes::change(routes, &rtnl_changes::switch_on(index, Some(port.mtu)))
            .map_err(at("the interface up"))?;
        let (ip, prefix) = port.address();
        rtnl_changes::change(routes, &rtnl_changes::add_address(index, ip, prefix))
            .map_err(at("the interface's address"))?;
        if port.has_daemon {
            self.hosts.push(host.try_clone().map_err(at("a descriptor of the host's network"))?);
        }
        Ok(())
    }

    /// Takes the descriptor that hangs up when the shaper ends, if the shaper is new.
    pub fn take_shaper_end(&mut self) -> Option<OwnedFd> {
        self.shaper_end.take()
    }

    fn connect_by_pair(&self, routes: &RouteSocket, port: &EthernetPort) -> Result<(), Failure> {
        let name = port.port_name();
        let (near, far) = (End { name: &port.name, mtu: port.mtu }, End { name: &name, mtu: port.mtu });
        let request = rtnl_links::add_pair(near, port.mac, far, self.network.as_fd());
        rtnl_changes::change(routes, &request)
            .map_err(at("a pair of veth interfaces (does the kernel have CONFIG_VETH?)"))
    }

    fn connect_by_taps(&mut self, host: &OwnedFd, routes: &RouteSocket, port: &EthernetPort) -> Result<(), Failure> {
        let Some(limits) = port.limits else { return Ok(()) };
        // The loss rate counts packets, so the kernel must cut segments.
        let defers = limits.loss_ppm == 0;
        let near = Tap::ethernet(&port.name, defers).map_err(at("/dev/net/tun"))?;
        rtnl_changes::change(routes, &rtnl_links::set_mac(&port.name, port.mac))
            .map_err(at("the interface's Ethernet address"))?;
        host_namespace::enter_network(&self.network).map_err(at("the switch's network"))?;
        let far = Tap::ethernet(&port.port_name(), defers).map_err(at("/dev/net/tun"));
        host_namespace::enter_network(host).map_err(at("the host's network"))?;
        if self.shaper.is_none() {
            let (shaper, end) = Shaper::start().map_err(at("the process that carries frames"))?;
            (self.shaper, self.shaper_end) = (Some(shaper), Some(end));
        }
        let shaper = self.shaper.as_ref().ok_or_else(|| (io::ErrorKind::NotFound.into(), "the carrying process"))?;
        shaper.add(&near, &far?, &limits).map_err(at("the process that carries frames"))
    }
}

impl Drop for Switch {
    /// Ends the hosts' daemons: programs that stay in a network without links need none.
    fn drop(&mut self) {
        let options = ConnectOptions {
            program: "weft".to_owned(),
            spawn: Spawn::Never,
            timeout: STOPS_WITHIN,
            host: String::new(),
            fault: String::new(),
            socket_name: SOCKET_NAME.to_owned(),
            ..ConnectOptions::default()
        };
        let stop = |host: &OwnedFd| {
            host_namespace::enter_network(host).ok()?;
            // There may be none.
            request_stop(&options).ok()?
        };
        // All of them stop at the same time.
        let stopping: Vec<_> = self.hosts.iter().filter_map(stop).collect();
        let deadline = Instant::now() + STOPS_WITHIN;
        for daemon in stopping {
            let _ = daemon.wait(deadline);
        }
    }
}

fn at(step: &'static str) -> impl Fn(io::Error) -> Failure {
    move |error| (error, step)
}
