//! Weft on the host and Linux's rxe or siw in a guest, joined by a tap: runs programs on both sides and judges them together.

mod capture;
mod dissection;

pub use capture::{Capture, Captured};
pub use dissection::{Dissection, Negotiated};

use crate::device::{self, Device};
use crate::guest::siw::Build;
use crate::guest::{self, Additions, Driver, Guest, GuestProc, Place};
use crate::lab::{Lab, Shape};
use crate::multicast;
use crate::pair::{Outcome, TRIES_MAX};
use crate::proc::{Ended, Proc};
use crate::table;
use crate::user::Who;
use anyhow::{Context, Result, bail, ensure};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The guest's addresses; the host's are the lab's.
pub const GUEST_V4: &str = "10.77.0.2";
/// The guest's IPv6 address.
pub const GUEST_V6: &str = "fd77::2";

/// Time limit for a server to listen.
const LISTENS_WITHIN: Duration = Duration::from_secs(20);
/// Time limit for a server to end after its client.
const SERVER_ENDS_WITHIN: Duration = Duration::from_secs(15);
/// Interval of checks whether the server listens.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// The serving side; the other side connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// Weft's libraries, on the host.
    Us,
    /// The kernel, in the guest.
    Kernel,
}

impl Server {
    /// Both choices.
    pub const BOTH: [Server; 2] = [Server::Us, Server::Kernel];
}

/// Sign that a server listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listens {
    /// On a TCP port.
    Tcp(u16),
    /// By the RDMA connection manager, on a port.
    Cm(u16),
    /// To this multicast group.
    Group(&'static str),
}

/// Time in which a group's receiver ends that has got everything.
const RECEIVER_ENDS_WITHIN: Duration = Duration::from_millis(500);

/// Messages that mean failure even with exit status 0.
const COMPLAINTS: &[&str] = &["wrong ICRC", "retry exceeded", "invalid data", "Failed status", "data mismatch"];

/// The two sides.
#[derive(Debug)]
pub struct Peer {
    // Dropped before the namespace that it runs in.
    guest: Guest,
    lab: Lab,
    theirs: Device,
    /// Weft's device of type siw; RoCE devices need no command.
    ours: Option<Device>,
    captures: AtomicU32,
}

/// Programs for both sides.
#[derive(Clone, Debug)]
pub struct Match {
    /// The serving side.
    pub server: Server,
    /// The server's command line.
    pub serve: String,
    /// The client's command line.
    pub connect: String,
    /// Sign that the server listens.
    pub listens: Listens,
    /// Environment of Weft's side.
    pub env: Vec<(&'static str, String)>,
    /// Time limit of the client.
    pub limit: Duration,
    /// The server keeps running after its client ended; the test then kills it.
    pub stays: bool,
}

/// A program on either side.
#[derive(Debug)]
enum Side {
    Ours(Proc),
    Theirs(GuestProc),
}

impl Side {
    fn wait(self, limit: Duration) -> Ended {
        match self {
            Side::Ours(program) => program.wait(limit),
            Side::Theirs(program) => program.wait(limit),
        }
    }

    fn running(&mut self) -> bool {
        match self {
            Side::Ours(program) => program.running(),
            Side::Theirs(program) => program.running(),
        }
    }
}

impl Match {
    /// Whether Weft's side loses packets on purpose.
    fn loses(&self) -> bool {
        self.env.iter().any(|(name, value)| *name == "WEFT_FAULT" && value.contains("loss="))
    }

    /// Whether the network lost the last acknowledgement of a program in the guest that has all it waits for and exits:
    /// rxe forgets the queue pair, and nobody answers when our end repeats its last request. No adapter can do better.
    fn the_kernel_left(&self, outcome: &Outcome) -> bool {
        let (ours, theirs) = match self.server {
            Server::Us => (&outcome.server, &outcome.client),
            Server::Kernel => (&outcome.client, &outcome.server),
        };
        self.loses() && theirs.ok() && ours.text.contains("transport retry counter exceeded")
    }
}

/// Both ends of a run.
struct Run {
    outcome: Outcome,
    /// The server kept running.
    stayed: bool,
    /// At the time limit, rxe had stopped ([`Peer::rxe_stopped`]).
    rxe_stopped: bool,
}

/// Whether a PSN is not after another.
fn is_up_to(psn: u32, last: u32) -> bool {
    const BITS: u32 = 24;
    last.wrapping_sub(psn) << (32 - BITS) < 1 << 31
}

/// Returns the number behind the first occurrence of `name`.
fn number_after(line: &str, name: &str) -> Option<u32> {
    let (_, rest) = line.split_once(name)?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Boots a guest with its addresses and a device, and returns both.
fn with_device(place: &Place, driver: Driver, agent: &Path, extra: Additions<'_>, mtu: u32) -> Result<(Guest, Device)> {
    let guest = Guest::boot_with(place, driver, agent, extra)?;
    guest.configure(&[&format!("{GUEST_V4}/24"), &format!("{GUEST_V6}/64")], mtu)?;
    let devices = guest.run(&["ibv_devinfo", "-v"])?.success()?;
    let theirs = match driver {
        Driver::Rxe => device::find(&devices.text, GUEST_V4, GUEST_V6),
        Driver::Siw(_) => device::named(&devices.text, driver.device()),
    };
    let theirs = theirs.with_context(|| devices.report())?;
    Ok((guest, theirs))
}

/// Replaces Weft's RoCE device on the lab's interface by one of type siw.
fn add_siw(lab: &Lab) -> Result<Device> {
    let side = lab.client();
    let name = Driver::Siw(Build::Fixed).device();
    let words = ["rdma", "link", "add", name, "type", "siw", "netdev", side.interface];
    lab.run(side, Who::Root, &[], &words)?.success()?;
    let devices = lab.run(side, Who::Root, &[], &["ibv_devinfo", "-v"])?.success()?;
    device::named(&devices.text, name).with_context(|| devices.report())
}

impl Peer {
    /// Boots the guest on a tap; both sides have addresses and a device of the driver's type.
    pub fn boot(agent: &Path, driver: Driver, mtu: u32) -> Result<Peer> {
        Peer::boot_with(agent, driver, Additions::default(), mtu)
    }

    /// Boots the guest with additions to its image.
    pub fn boot_with(agent: &Path, driver: Driver, extra: Additions<'_>, mtu: u32) -> Result<Peer> {
        let lab = Lab::new(Shape::Tap { mtu })?;
        let side = lab.client();
        let place = Place { enter: lab.bare(side, Who::Root, &[]), tap: side.interface.to_owned() };
        let mut tries = 1;
        let (guest, theirs) = loop {
            match with_device(&place, driver, agent, extra, mtu) {
                Ok(up) => break up,
                // Loading modules patches the kernel too: see `BOOTS_MAX`.
                Err(error) if tries < guest::BOOTS_MAX => table::note(&format!("a guest without a device: {error:#}")),
                Err(error) => return Err(error),
            }
            tries += 1;
        };
        lab.wait_ready(side)?;
        let ours = match driver {
            Driver::Rxe => None,
            Driver::Siw(_) => Some(add_siw(&lab)?),
        };
        Ok(Peer { guest, lab, theirs, ours, captures: AtomicU32::new(0) })
    }

    /// The guest.
    pub fn guest(&self) -> &Guest {
        &self.guest
    }

    /// The host's namespace.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// Returns Weft's device.
    pub fn ours(&self) -> Result<&Device> {
        self.ours.as_ref().map_or_else(|| self.lab.device(self.lab.client()), Ok)
    }

    /// Returns the guest kernel's device.
    pub fn theirs(&self) -> &Device {
        &self.theirs
    }

    /// Returns the devices of the server's and the client's side.
    pub fn devices(&self, server: Server) -> Result<(&Device, &Device)> {
        Ok(match server {
            Server::Us => (self.ours()?, self.theirs()),
            Server::Kernel => (self.theirs(), self.ours()?),
        })
    }

    /// Returns the server's address.
    pub fn address(&self, server: Server, v6: bool) -> &'static str {
        match (server, v6) {
            (Server::Us, false) => self.lab.client().v4,
            (Server::Us, true) => self.lab.client().v6,
            (Server::Kernel, false) => GUEST_V4,
            (Server::Kernel, true) => GUEST_V6,
        }
    }

    /// Changes the MTU of both ends of the cable.
    pub fn set_mtu(&self, mtu: u32) -> Result<()> {
        let side = self.lab.client();
        self.lab.ip(&format!("-n {} link set {} mtu {mtu}", side.netns, side.interface))?;
        self.guest.run(&["ip", "link", "set", guest::INTERFACE, "mtu", &mtu.to_string()])?.success().map(drop)
    }

    /// Runs both sides; both must end with exit status 0, or the server must keep running.
    pub fn succeed(&self, case: &Match) -> Result<Outcome> {
        let mut tries = 1;
        let Run { outcome, stayed, .. } = loop {
            let run = self.run_once(case)?;
            let excused = run.outcome.lacks_clock() || run.rxe_stopped || case.the_kernel_left(&run.outcome);
            if tries == TRIES_MAX || !excused {
                break run;
            }
            tries += 1;
        };
        if !(outcome.client.ok() && (outcome.server.ok() || stayed)) {
            bail!("{}", outcome.report());
        }
        for line in outcome.client.text.lines().chain(outcome.server.text.lines()) {
            let bad = COMPLAINTS.iter().any(|bad| line.contains(bad));
            ensure!(!bad || self.excused(case, line), "{line}\n{}", outcome.report());
        }
        Ok(outcome)
    }

    /// Runs both sides to their end.
    fn run_once(&self, case: &Match) -> Result<Run> {
        let trace = case.loses().then(|| self.lab.file("packets"));
        let mut case = case.clone();
        if let Some(file) = &trace {
            let own = case.env.extract_if(.., |(name, _)| *name == "WEFT_TRACE").map(|(_, value)| value);
            let traces: Vec<String> = own.chain([format!("{},packet", file.display())]).collect();
            case.env.push(("WEFT_TRACE", traces.join(";")));
        }
        let mut server = self.serve(&case)?;
        let mut client = self.connect(&case)?;
        let until = Instant::now() + case.limit;
        while client.running() && Instant::now() < until {
            std::thread::sleep(ASK_EVERY);
        }
        if let Listens::Group(_) = case.listens {
            client = self.send_again(&case, client, &mut server, until)?;
        }
        let rxe_stopped = match trace.filter(|_| client.running()) {
            Some(trace) => self.rxe_stopped(&trace)?,
            None => false,
        };
        let client = client.wait(Duration::ZERO);
        let stayed = case.stays && server.running();
        let patience =
            if client.ok() && !stayed { SERVER_ENDS_WITHIN } else { Duration::from_secs(u64::from(!stayed)) };
        Ok(Run { outcome: Outcome { server: server.wait(patience), client }, stayed, rxe_stopped })
    }

    /// Runs a group's sender again until the receiver has what it waits for: nobody acknowledges a group's packets, and
    /// a sender does not learn of lost ones. Linux 6.12's rxe completes ten sends of mckey's and often counts none or one
    /// of them as sent (`sent_pkts`), with no receiver in reach.
    fn send_again(&self, case: &Match, mut client: Side, server: &mut Side, until: Instant) -> Result<Side> {
        loop {
            let grace = Instant::now() + RECEIVER_ENDS_WITHIN;
            while server.running() && Instant::now() < grace {
                std::thread::sleep(ASK_EVERY);
            }
            if client.running() || !server.running() || Instant::now() >= until {
                return Ok(client);
            }
            let ended = client.wait(Duration::ZERO);
            ensure!(ended.ok(), "{}", ended.report());
            client = self.connect(case)?;
            while client.running() && Instant::now() < until {
                std::thread::sleep(ASK_EVERY);
            }
        }
    }

    /// Whether rxe has stopped in the middle of repeating what our end has acknowledged. Linux 6.1's completer takes an
    /// acknowledgement that arrives while the requester repeats, and then no timer is left that would go on: about one
    /// of two hundred runs of long messages with 1% loss. `trace` has our end's packets.
    pub fn rxe_stopped(&self, trace: &Path) -> Result<bool> {
        let theirs = self.guest.run(&["rdma", "resource", "show", "qp"])?.text;
        let next =
            theirs.lines().filter(|line| line.contains("type RC")).find_map(|line| number_after(line, "sq-psn "));
        let ours = std::fs::read_to_string(trace)?;
        let is_ack = |line: &&str| line.contains("way=out") && line.contains("opcode=Rc:Acknowledge");
        let acknowledged = ours.lines().rev().filter(is_ack).find_map(|line| number_after(line, "psn="));
        table::note(&format!("kernel peer: rxe sends PSN {next:?} next, of {acknowledged:?} acknowledged"));
        Ok(next.zip(acknowledged).is_some_and(|(next, acknowledged)| is_up_to(next, acknowledged)))
    }

    /// Returns whether a complaint is expected: packets damaged on purpose have a wrong ICRC.
    fn excused(&self, case: &Match, line: &str) -> bool {
        line.contains("wrong ICRC") && case.env.iter().any(|(_, value)| value.contains("corrupt"))
    }

    fn serve(&self, case: &Match) -> Result<Side> {
        let mut server = self.start(case, case.server, &case.serve)?;
        if !self.listens(&mut server, case.listens) {
            let state = if server.running() { "does not listen" } else { "ended at once" };
            bail!("the server {state}:\n      {}", server.wait(Duration::ZERO).report());
        }
        Ok(server)
    }

    fn listens(&self, server: &mut Side, how: Listens) -> bool {
        match (how, &mut *server) {
            (Listens::Tcp(port), Side::Ours(program)) => program.wait_listening(port, LISTENS_WITHIN),
            (Listens::Tcp(port), Side::Theirs(program)) => program.wait_listening(port, LISTENS_WITHIN),
            (Listens::Cm(port), _) => self.has_id(server, &format!(":{port} "), "state LISTEN"),
            (Listens::Group(group), Side::Ours(_)) => {
                multicast::wait_for_member(&self.lab, self.lab.client(), group).is_ok() && server.running()
            }
            (Listens::Group(group), Side::Theirs(_)) => self.guest_joins(group) && server.running(),
        }
    }

    /// Waits until a program of the guest has joined a group.
    fn guest_joins(&self, group: &str) -> bool {
        let Ok(group) = group.parse() else { return false };
        let until = Instant::now() + multicast::JOINS_WITHIN;
        while Instant::now() < until {
            let addresses = self.guest.run(&["cat", multicast::ADDRESSES]);
            if addresses.is_ok_and(|addresses| multicast::has_member(&addresses.text, group)) {
                return true;
            }
            std::thread::sleep(ASK_EVERY);
        }
        false
    }

    /// Waits until the server's side has an id whose line contains both words.
    fn has_id(&self, server: &mut Side, one: &str, two: &str) -> bool {
        let ask = ["resource", "show", "cm_id"];
        let until = Instant::now() + LISTENS_WITHIN;
        while server.running() && Instant::now() < until {
            let ids = match server {
                Side::Ours(_) => self.lab.weft(self.lab.client(), Who::Root, &[], &ask),
                Side::Theirs(_) => self.guest.run(&[&["rdma"], &ask[..]].concat()),
            };
            let has = |line: &str| format!("{line} ").contains(one) && line.contains(two);
            if ids.is_ok_and(|ids| ids.text.lines().any(has)) {
                return true;
            }
            std::thread::sleep(ASK_EVERY);
        }
        false
    }

    fn connect(&self, case: &Match) -> Result<Side> {
        let who = if case.server == Server::Us { Server::Kernel } else { Server::Us };
        self.start(case, who, &case.connect)
    }

    fn start(&self, case: &Match, who: Server, line: &str) -> Result<Side> {
        let words: Vec<_> = line.split_whitespace().collect();
        Ok(match who {
            Server::Us => {
                let env: Vec<_> = case.env.iter().map(|(key, value)| (*key, value.as_str())).collect();
                Side::Ours(self.lab.start(self.lab.client(), Who::Root, &env, &words)?)
            }
            Server::Kernel => Side::Theirs(self.guest.start(&words)),
        })
    }

    /// Starts capturing the tap's traffic.
    pub fn capture(&self) -> Result<Capture> {
        Capture::start(&self.lab, self.captures.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the kernel's complaints: damaged packets, bugs.
    pub fn complaints(&self) -> Result<Vec<String>> {
        let log = self.guest.run(&["dmesg"])?.success()?.text;
        let bad = ["ICRC", "icrc", "WARNING", "BUG", "Oops", "Call Trace"];
        Ok(log.lines().filter(|line| bad.iter().any(|b| line.contains(b))).map(str::to_owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_wrap_at_24_bits() {
        assert!(is_up_to(14_087_576, 14_087_587) && is_up_to(7, 7) && is_up_to(0xff_fff0, 3));
        assert!(!is_up_to(14_087_588, 14_087_587) && !is_up_to(3, 0xff_fff0));
        assert_eq!(number_after("state RTS rq-psn 5 sq-psn 67 path-mig-state", "sq-psn "), Some(67));
        assert_eq!(number_after("opcode=Rc:Acknowledge psn=14087587 bytes=0", "psn="), Some(14_087_587));
    }
}
