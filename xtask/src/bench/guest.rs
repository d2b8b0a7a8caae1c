//! The guest as a place to measure: Linux's rxe or siw on both ends of a cable, and ours on both ends of a similar one.
//!
//! rxe and siw work only in the first network namespace, so their two ends are there, and routing rules lead packets from one to
//! the other over the cable instead of the loopback. Ours are in two namespaces, as on the host.

use super::cores::pinned;
use super::guest_pong::OURSELVES;
use super::perftest::Column;
use super::program::Program;
use super::room::Room;
use super::unit::Unit;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::time::Duration;
use weft_interop::guest::siw::Build;
use weft_interop::guest::{Additions, Driver, Guest, GuestProc, Place, image::Extra};
use weft_interop::pair::DEFAULT_PORT;
use weft_interop::{Lab, Shape, Who, device, product};

/// Directory of our product in the guest.
const PRODUCT: &str = "/weft";
/// MTU of the card that joins the guest to the host, which carries no traffic here.
const MTU: u32 = 1500;
/// MTU of both cables in the guest: room for RoCE's largest path MTU and its headers.
const CABLE_MTU: u32 = 4200;
/// Time limit of a run, which is short, although emulation is slow.
pub const LIMIT: Duration = Duration::from_secs(120);
/// Time limit for a server to start listening.
pub const LISTENS_WITHIN: Duration = Duration::from_secs(30);

/// The cable of the kernel, `va` to `vb`, with both ends in one namespace.
pub const SIDES_OF_A_CABLE: &str = "set -e
ip link set lo up
ip link add va mtu CABLE_MTU type veth peer name vb mtu CABLE_MTU
ip addr add 10.1.0.1/24 dev va
ip addr add 10.1.0.2/24 dev vb
for name in all va vb; do
    echo 1 > /proc/sys/net/ipv4/conf/$name/accept_local
    echo 0 > /proc/sys/net/ipv4/conf/$name/rp_filter
    echo 1 > /proc/sys/net/ipv4/conf/$name/arp_ignore
    echo 2 > /proc/sys/net/ipv4/conf/$name/arp_announce
done
ip link set va up
ip link set vb up
ip rule add pref 10 iif va lookup local
ip rule add pref 11 iif vb lookup local
ip rule add pref 20 from 10.1.0.1 to 10.1.0.2 lookup 101
ip rule add pref 21 from 10.1.0.2 to 10.1.0.1 lookup 102
ip rule add pref 30 oif va to 10.1.0.2 lookup 101
ip rule add pref 31 oif vb to 10.1.0.1 lookup 102
ip route add 10.1.0.2 dev va src 10.1.0.1 table 101
ip route add 10.1.0.1 dev vb src 10.1.0.2 table 102
ip rule add pref 100 lookup local
ip rule del pref 0
rdma link add KIND_a type KIND netdev va
rdma link add KIND_b type KIND netdev vb";

/// Both cables: the kernel's, and `wa` to `wb` in two namespaces for ours; both have the same addresses.
const SETUP: &str = "SIDES
ip netns add a
ip netns add b
ip link add wa netns a mtu CABLE_MTU type veth peer name wb netns b mtu CABLE_MTU
for side in a:10.1.0.1 b:10.1.0.2; do
    ip -n ${side%:*} link set lo up
    ip -n ${side%:*} addr add ${side#*:}/24 dev w${side%:*}
    ip -n ${side%:*} link set w${side%:*} up
done
";

/// Protocol of the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// RoCE v2, beside Linux's rxe.
    Roce,
    /// iWARP, beside Linux's siw.
    Iwarp,
}

impl Protocol {
    /// Returns the kernel's driver.
    pub fn driver(self) -> Driver {
        match self {
            Protocol::Roce => Driver::Rxe,
            Protocol::Iwarp => Driver::Siw(Build::Fixed),
        }
    }
}

/// A guest with both cables set up.
pub struct GuestRoom {
    // Dropped before the namespace that it runs in.
    guest: Guest,
    _lab: Lab,
    /// Index of the IPv4 address in the GID table of each rxe port; `None` for siw, which has no such tables.
    rxe_gids: Option<[usize; 2]>,
    /// The names of our devices.
    devices: [String; 2],
}

impl GuestRoom {
    /// Boots the guest with the built product.
    pub fn boot(protocol: Protocol) -> Result<GuestRoom> {
        let (guest, lab) = boot(protocol.driver(), &[], &[])?;
        let setup = SETUP
            .replace("SIDES", SIDES_OF_A_CABLE)
            .replace("CABLE_MTU", &CABLE_MTU.to_string())
            .replace("KIND", protocol.driver().kind());
        guest.run(&["sh", "-c", &setup])?.success().context("the cables in the guest")?;
        let (rxe_gids, devices) = match protocol {
            Protocol::Roce => {
                (Some(rxe_gids(&guest)?), [ours_in(&guest, "a", "10.1.0.1")?, ours_in(&guest, "b", "10.1.0.2")?])
            }
            Protocol::Iwarp => (None, [add_siw(&guest, "a", "wa")?, add_siw(&guest, "b", "wb")?]),
        };
        Ok(GuestRoom { guest, _lab: lab, rxe_gids, devices })
    }

    /// Returns the version of its kernel.
    pub fn kernel(&self) -> &str {
        &self.guest.package
    }

    /// Starts a program.
    pub fn start(&self, words: &[String]) -> GuestProc {
        self.guest.start(&words_of(words))
    }
}

/// Boots a guest with the built product, and further files and modules. The lab is the namespace that the guest runs in.
pub fn boot(driver: Driver, files: &[Extra], modules: &[&str]) -> Result<(Guest, Lab)> {
    let agent = product::target().join("debug/weft-guest");
    crate::cargo::run(&["build", "-q", "-p", "weft-interop", "--bin", "weft-guest"], &[])?;
    let lab = Lab::new(Shape::Tap { mtu: MTU })?;
    let side = lab.client();
    let place = Place { enter: lab.bare(side, Who::Root, &[]), tap: side.interface.to_owned() };
    let mut all = shipped()?;
    all.extend_from_slice(files);
    let guest = Guest::boot_with(&place, driver, &agent, Additions { files: &all, modules })?;
    Ok((guest, lab))
}

/// Returns the indices of the IPv4 addresses in the GID tables of both rxe devices.
fn rxe_gids(guest: &Guest) -> Result<[usize; 2]> {
    let rxe = guest.run(&["ibv_devinfo", "-v"])?.success()?.text;
    let gid = |address| Some(device::find(&rxe, address, "::")?.gid_v4);
    Ok(gid("10.1.0.1").zip(gid("10.1.0.2")).with_context(|| format!("no rxe devices: {rxe}"))?.into())
}

/// Adds our device of type siw in a namespace of the guest, and returns its name.
fn add_siw(guest: &Guest, netns: &str, netdev: &str) -> Result<String> {
    let name = "siw0";
    guest.run(&words_of(&ours(netns, &["rdma", "link", "add", name, "type", "siw", "netdev", netdev])))?.success()?;
    Ok(name.to_owned())
}

/// Returns the name of our device in a namespace of the guest.
fn ours_in(guest: &Guest, netns: &str, address: &str) -> Result<String> {
    let told = guest.run(&words_of(&ours(netns, &["ibv_devinfo", "-v"])))?.success()?.text;
    Ok(device::find(&told, address, "::").with_context(|| format!("no device of ours: {told}"))?.name)
}

/// Returns the files for the guest: the command, its libraries, the directory from which programs load them, and this
/// program, for its small peers.
fn shipped() -> Result<Vec<Extra>> {
    let weft = product::weft()?;
    let dir = weft.parent().context("the command has no directory")?;
    let mut extra = vec![(weft.clone(), format!("{PRODUCT}/weft"))];
    extra.push((std::env::current_exe()?, OURSELVES.to_owned()));
    for entry in std::fs::read_dir(dir)?.chain(std::fs::read_dir(dir.join("rdma"))?).flatten() {
        let path: PathBuf = entry.path();
        let name = path.strip_prefix(dir)?.display().to_string();
        if name.contains(".so") {
            extra.push((path.clone(), format!("{PRODUCT}/{name}")));
        }
    }
    Ok(extra)
}

pub fn words_of(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

fn ours(netns: &str, words: &[&str]) -> Vec<String> {
    let weft = format!("{PRODUCT}/weft");
    let before = ["ip", "netns", "exec", netns, &weft, "run", "--"];
    before.iter().chain(words).map(|word| (*word).to_owned()).collect()
}

/// The RDMA implementation that carries the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    Ours,
    /// Linux's driver of the protocol.
    Kernel,
}

/// A tool of perftest in the guest, over ours or over the kernel's driver.
#[derive(Clone, Copy, Debug)]
pub struct InGuest {
    pub carrier: Carrier,
    pub protocol: Protocol,
    pub tool: &'static str,
    pub size: u64,
    pub messages: u64,
    pub column: Column,
}

impl InGuest {
    fn words(&self, room: &GuestRoom, server: bool) -> Vec<String> {
        let mut line = format!("{} -s {} -n {}", self.tool, self.size, self.messages);
        let side = usize::from(server);
        match self.carrier {
            Carrier::Ours => line += &format!(" -d {}", room.devices[side]),
            Carrier::Kernel => line += &format!(" -d {}_{}", self.protocol.driver().kind(), ["a", "b"][side]),
        }
        if let (Carrier::Kernel, Some(gids)) = (self.carrier, room.rxe_gids) {
            line += &format!(" -x {}", gids[side]);
        }
        if self.protocol == Protocol::Iwarp {
            line += " -R -F";
        }
        if self.protocol == Protocol::Iwarp && !server {
            // The routing rules know the cable by this address.
            line += " --source_ip 10.1.0.1";
        }
        if !server {
            line += " 10.1.0.2";
        }
        let line = pinned(Some(usize::from(server)), &super::program::words(&line));
        match self.carrier {
            Carrier::Ours => ours(if server { "b" } else { "a" }, &words_of(&line)),
            Carrier::Kernel => line,
        }
    }

    /// Returns the command that lists the listening sockets on the server's side.
    fn ask(&self) -> Vec<String> {
        let ask = super::program::words("cat /proc/net/tcp /proc/net/tcp6");
        match self.carrier {
            Carrier::Ours => super::program::words("ip netns exec b").into_iter().chain(ask).collect(),
            Carrier::Kernel => ask,
        }
    }
}

impl Program for InGuest {
    fn name(&self) -> String {
        match self.carrier {
            Carrier::Ours => format!("{} -s {}", self.tool, self.size),
            Carrier::Kernel => format!("Linux {}", self.protocol.driver().kind()),
        }
    }

    fn command(&self, _seconds: u32) -> String {
        let run = if self.carrier == Carrier::Ours { "weft run -- " } else { "" };
        let cm = if self.protocol == Protocol::Iwarp { " -R" } else { "" };
        format!("{run}{} -s {} -n {}{cm} SERVER", self.tool, self.size, self.messages)
    }

    fn unit(&self) -> Unit {
        self.column.unit()
    }

    fn measure(&self, room: &Room) -> Result<f64> {
        let room = room.guest()?;
        let server = room.start(&self.words(room, true));
        let listening = format!(":{DEFAULT_PORT:04X} ");
        let ask = self.ask();
        if !server.wait_answer(LISTENS_WITHIN, &words_of(&ask), |text| text.contains(&listening)) {
            bail!("the server in the guest does not listen: {}", server.kill().report());
        }
        let client = room.start(&self.words(room, false)).wait(LIMIT);
        let server = server.wait(if client.ok() { LISTENS_WITHIN } else { Duration::ZERO });
        let client = client.success().with_context(|| format!("its server: {}", server.report()))?;
        self.column.read(&client.text).with_context(|| format!("no result: {}", client.report()))
    }
}
