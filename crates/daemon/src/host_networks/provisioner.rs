//! Makes the namespaces of virtual hosts, and interfaces in them, in a process of its own (the provisioner): it moves from one
//! to the next, and the daemon stays where it is. It ends with the daemon.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weft_sys::host_namespace::{self, HostNamespaces};
use weft_sys::netlink::RouteSocket;
use weft_sys::tun::Tun;
use weft_sys::unix::{self, Wait};
use weft_sys::{process, spawn};

use crate::ethernet::{EthernetPort, Switch};
use crate::{rtnl, rtnl_changes, rtnl_routes};

/// Time limit for one host.
const MAKES_WITHIN: Duration = Duration::from_secs(5);
const MESSAGE_BYTES_MAX: usize = 4096;
const BACKLOG: i32 = 128;
/// Index of the loopback in every network namespace.
const LOOPBACK: u32 = 1;
/// Interfaces of a host at most: one for each port.
pub const INTERFACES_MAX: usize = 32;
/// Length of the prefix of link-local addresses.
pub(super) const LINK_LOCAL_PREFIX: u8 = 64;
/// Descriptors of a host besides its interfaces: user, network and UTS namespace, route socket, listener, end of the
/// shaper.
const OTHER_DESCRIPTORS: usize = 6;

/// An interface to make.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InterfaceSetup {
    /// Name, such as `ib0`.
    pub name: String,
    /// Its first addresses, each with the length of its prefix.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Its link-local address. The kernel makes none for it, since it does not know its link-layer address.
    pub link_local: Option<IpAddr>,
    /// MTU in bytes.
    pub mtu: u32,
    /// Whether it is switched on.
    pub is_up: bool,
}

/// A request to the process.
#[derive(Serialize, Deserialize)]
enum Job {
    /// A host.
    Host(HostSetup),
    /// An interface, in the network namespace whose descriptor comes along.
    Interface(InterfaceSetup),
}

/// A host to make.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HostSetup {
    /// Its host name.
    pub name: String,
    /// Abstract name at which the daemon listens there.
    pub socket_name: String,
    /// Its IPoIB interfaces.
    pub interfaces: Vec<InterfaceSetup>,
    /// Its Ethernet interfaces.
    pub ethernet: Vec<EthernetPort>,
}

/// Everything of a host that the daemon keeps.
#[derive(Debug)]
pub struct Made {
    /// Its namespaces.
    pub namespaces: HostNamespaces,
    /// Its routes, addresses and links.
    pub routes: RouteSocket,
    /// Listens for the programs there.
    pub listener: OwnedFd,
    /// Its interfaces by their places, those of the setup first.
    pub interfaces: BTreeMap<usize, MadeInterface>,
    /// Hangs up when the process that carries the frames of cables with limits ends; only the first host has it.
    pub shaper: Option<OwnedFd>,
}

/// An interface.
#[derive(Debug)]
pub struct MadeInterface {
    /// Its index in its network.
    pub index: u32,
    /// Its other end.
    pub tun: Tun,
    /// Its link-local address.
    pub link_local: Option<IpAddr>,
}

#[derive(Serialize, Deserialize)]
struct Answer {
    /// An errno value and the step that failed.
    failed: Option<(i32, String)>,
    has_user: bool,
    indexes: Vec<u32>,
}

/// The provisioner, as the daemon sees it.
#[derive(Debug)]
pub struct Provisioner {
    socket: OwnedFd,
    /// An exchange failed: a late answer to it would pass for that to the next.
    is_broken: Cell<bool>,
}

impl Provisioner {
    /// Starts it.
    pub fn start() -> io::Result<Provisioner> {
        let (ours, theirs) = unix::pair()?;
        spawn::fork_apart(vec![theirs], |mut keep| {
            spawn::silence();
            if let Some(socket) = keep.pop() {
                serve(&socket);
            }
        })?;
        unix::set_receive_timeout(&ours, MAKES_WITHIN)?;
        Ok(Provisioner { socket: ours, is_broken: Cell::new(false) })
    }

    /// Returns whether another process must make further hosts.
    pub fn is_broken(&self) -> bool {
        self.is_broken.get()
    }

    /// Returns a descriptor that is readable when the process ends.
    pub fn end(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Makes a host.
    ///
    /// # Errors
    /// The text says which step the system refused.
    pub fn make(&self, setup: &HostSetup) -> io::Result<Made> {
        let (answer, fds) = self.exchange(&Job::Host(setup.clone()), &[])?;
        let mut fds = fds.into_iter();
        let user = if answer.has_user { Some(fds.next().ok_or_else(has_ended)?) } else { None };
        let mut next = || fds.next().ok_or_else(has_ended);
        let namespaces = HostNamespaces { user, net: next()?, uts: next()? };
        let (routes, listener) = (RouteSocket::of(next()?), next()?);
        let tuns: Vec<Tun> = fds.by_ref().take(answer.indexes.len()).map(Tun::of).collect::<io::Result<_>>()?;
        let parts = answer.indexes.into_iter().zip(tuns).zip(&setup.interfaces);
        let made =
            parts.map(|((index, tun), setup)| MadeInterface { index, tun, link_local: setup.link_local }).enumerate();
        Ok(Made { namespaces, routes, listener, interfaces: made.collect(), shaper: fds.next() })
    }

    /// Makes an interface in a host's network.
    ///
    /// # Errors
    /// The text says which step the system refused.
    pub fn add(&self, network: BorrowedFd<'_>, setup: &InterfaceSetup) -> io::Result<MadeInterface> {
        let (answer, fds) = self.exchange(&Job::Interface(setup.clone()), &[network])?;
        let (index, fd) = answer.indexes.first().zip(fds.into_iter().next()).ok_or_else(has_ended)?;
        Ok(MadeInterface { index: *index, tun: Tun::of(fd)?, link_local: setup.link_local })
    }

    fn exchange(&self, job: &Job, fds: &[BorrowedFd<'_>]) -> io::Result<(Answer, Vec<OwnedFd>)> {
        let (answer, fds) = self.talk(job, fds).inspect_err(|_| self.is_broken.set(true))?;
        match answer.failed {
            Some((errno, step)) => {
                let error = io::Error::from_raw_os_error(errno);
                Err(io::Error::new(error.kind(), format!("{step}: {error}")))
            }
            None => Ok((answer, fds)),
        }
    }

    fn talk(&self, job: &Job, fds: &[BorrowedFd<'_>]) -> io::Result<(Answer, Vec<OwnedFd>)> {
        let request = postcard::to_allocvec(job).map_err(io::Error::other)?;
        unix::send(&self.socket, &request, fds, Wait::Block)?;
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        let received = unix::recv(&self.socket, &mut buffer, OTHER_DESCRIPTORS + INTERFACES_MAX, Wait::Block)?;
        let answer = postcard::from_bytes(buffer.get(..received.len).unwrap_or_default()).map_err(|_| has_ended())?;
        Ok((answer, received.fds))
    }
}

/// The error of a request to a process that has ended.
pub(super) fn has_ended() -> io::Error {
    io::Error::other("the process that makes hosts has ended")
}

fn serve(socket: &OwnedFd) {
    let mut owner: Option<io::Result<Option<OwnedFd>>> = None;
    let mut switch = None;
    let mut buffer = vec![0; MESSAGE_BYTES_MAX];
    loop {
        // The end of the connection is the end of the daemon, or of the networks.
        let Ok(received) = unix::recv(socket, &mut buffer, 1, Wait::Block) else { return };
        let Some(bytes) = buffer.get(..received.len).filter(|bytes| !bytes.is_empty()) else { return };
        let answered = match postcard::from_bytes::<Job>(bytes) {
            Ok(Job::Host(setup)) => {
                let owner = owner.get_or_insert_with(host_namespace::become_owner);
                serve_host(socket, owner, &mut switch, &setup)
            }
            Ok(Job::Interface(setup)) => serve_interface(socket, received.fds.first(), &setup),
            Err(_) => return,
        };
        if answered.is_err() {
            return;
        }
    }
}

fn serve_host(
    socket: &OwnedFd,
    owner: &io::Result<Option<OwnedFd>>,
    switch: &mut Option<Switch>,
    setup: &HostSetup,
) -> io::Result<()> {
    let made = match owner {
        Ok(user) => make(setup, switch).map(|made| (user.as_ref(), made)),
        Err(error) => Err((copy(error), "a user namespace")),
    };
    match &made {
        Ok((user, parts)) => {
            let indexes = parts.interfaces.iter().map(|(index, _)| *index).collect();
            let mut fds: Vec<BorrowedFd<'_>> = user.iter().map(|user| user.as_fd()).collect();
            fds.extend([parts.net.as_fd(), parts.uts.as_fd(), parts.routes.as_fd(), parts.listener.as_fd()]);
            fds.extend(parts.interfaces.iter().map(|(_, tun)| tun.as_fd()));
            fds.extend(parts.shaper.iter().map(AsFd::as_fd));
            answer(socket, &Answer { failed: None, has_user: user.is_some(), indexes }, &fds)
        }
        Err(failure) => refuse(socket, failure),
    }
}

fn serve_interface(socket: &OwnedFd, network: Option<&OwnedFd>, setup: &InterfaceSetup) -> io::Result<()> {
    let enter = || {
        host_namespace::enter_network(network.ok_or(io::ErrorKind::InvalidInput)?)?;
        RouteSocket::open(0)
    };
    let made = enter().map_err(|error| (error, "the host's network namespace"));
    match made.and_then(|routes| make_interface(&routes, setup)) {
        Ok((index, tun)) => {
            answer(socket, &Answer { failed: None, has_user: false, indexes: vec![index] }, &[tun.as_fd()])
        }
        Err(failure) => refuse(socket, &failure),
    }
}

fn refuse(socket: &OwnedFd, (error, step): &(io::Error, &'static str)) -> io::Result<()> {
    let failed = Some((error.raw_os_error().unwrap_or(libc::EPERM), (*step).to_owned()));
    answer(socket, &Answer { failed, has_user: false, indexes: Vec::new() }, &[])
}

fn copy(error: &io::Error) -> io::Error {
    io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EPERM))
}

fn answer(socket: &OwnedFd, answer: &Answer, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = postcard::to_allocvec(answer).map_err(io::Error::other)?;
    unix::send(socket, &bytes, fds, Wait::Block).map(drop)
}

/// The descriptors of a new host, except for the user namespace.
struct Parts {
    net: OwnedFd,
    uts: OwnedFd,
    routes: RouteSocket,
    listener: OwnedFd,
    interfaces: Vec<(u32, Tun)>,
    shaper: Option<OwnedFd>,
}

fn make(setup: &HostSetup, switch: &mut Option<Switch>) -> Result<Parts, (io::Error, &'static str)> {
    let at = |step: &'static str| move |error: io::Error| (error, step);
    if !setup.ethernet.is_empty() && switch.is_none() {
        *switch = Some(Switch::new()?);
    }
    let (net, uts) = host_namespace::enter_new(&setup.name).map_err(at("a network namespace"))?;
    let routes = RouteSocket::open(0).map_err(at("a route netlink socket"))?;
    rtnl_changes::change(&routes, &rtnl_changes::switch_on(LOOPBACK, None)).map_err(at("lo up"))?;
    let mut interfaces = Vec::new();
    for wanted in &setup.interfaces {
        interfaces.push(make_interface(&routes, wanted)?);
    }
    let mut shaper = None;
    if let Some(switch) = switch {
        setup.ethernet.iter().try_for_each(|port| switch.connect(&net, &routes, port))?;
        shaper = switch.take_shaper_end();
    }
    let listener = unix::listen_abstract(&setup.socket_name, BACKLOG).map_err(at("the daemon's socket"))?;
    // One that follows changes: the first has only had the answers to its own.
    let routes = RouteSocket::open(rtnl::GROUPS | rtnl_routes::GROUPS).map_err(at("a route netlink socket"))?;
    Ok(Parts { net, uts, routes, listener, interfaces, shaper })
}

fn make_interface(routes: &RouteSocket, wanted: &InterfaceSetup) -> Result<(u32, Tun), (io::Error, &'static str)> {
    let at = |step: &'static str| move |error: io::Error| (error, step);
    let tun = Tun::infiniband(&wanted.name).map_err(at("/dev/net/tun"))?;
    // It has a link once it is a member of its broadcast group.
    tun.set_carrier(false).map_err(at("the interface's link"))?;
    let index = process::interface_index(&wanted.name).map_err(at("the interface's index"))?;
    if wanted.is_up {
        rtnl_changes::change(routes, &rtnl_changes::switch_on(index, Some(wanted.mtu)))
            .map_err(at("the interface up"))?;
    } else {
        rtnl_changes::change(routes, &rtnl_changes::set_mtu(index, wanted.mtu)).map_err(at("the interface's MTU"))?;
    }
    let link_local = wanted.link_local.filter(|_| wanted.is_up).map(|ip| (ip, LINK_LOCAL_PREFIX));
    for (ip, prefix) in wanted.addresses.iter().copied().chain(link_local) {
        // Without IPv6 in the kernel there are only the others.
        match rtnl_changes::change(routes, &rtnl_changes::add_address(index, ip, prefix)) {
            Err(_) if ip.is_ipv6() => {}
            added => added.map_err(at("the interface's address"))?,
        }
    }
    Ok((index, tun))
}
