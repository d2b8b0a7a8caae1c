//! Outages of the hosts of a lab: addresses, links and routes that go and come back, and killed daemons.

use anyhow::Result;
use rustix::process::{Pid, Signal, kill_process};
use std::time::Duration;
use weft_interop::{Lab, Side};

/// Random numbers, the same for the same seed.
#[derive(Debug)]
pub struct Lots(pub u64);

impl Lots {
    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// Returns one of several values.
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// Kinds of outages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outage {
    /// An address is removed and added again.
    Address,
    /// A link goes down and up.
    Link,
    /// The route to the other host rejects packets.
    Route,
    /// A daemon is killed with SIGKILL.
    Daemon,
    /// One program of a pair is killed with SIGKILL.
    Peer,
}

/// Maximum pause between an outage's beginning and its end. The outage itself includes the commands, the carrier and
/// neighbour discovery: seconds on a busy machine, so it is measured.
const LONGEST_MS: u64 = 300;
/// Route types by which the kernel rejects packets: EHOSTUNREACH, EACCES, EINVAL.
const REFUSALS: [&str; 3] = ["unreachable", "prohibit", "blackhole"];

/// Causes an outage at one of the hosts, and ends it.
pub fn happen(lab: &Lab, lots: &mut Lots, outage: Outage) -> Result<()> {
    let (here, there) = if lots.below(2) == 0 { (lab.client(), lab.server()) } else { (lab.server(), lab.client()) };
    let pause = Duration::from_millis(lots.below(LONGEST_MS));
    let Side { netns, interface, v4, v6, .. } = here;
    let both = |end: &str, begin: &str| -> Result<()> {
        lab.ip(&format!("-n {netns} {begin}"))?;
        std::thread::sleep(pause);
        lab.ip(&format!("-n {netns} {end}"))
    };
    match outage {
        Outage::Address if lots.below(2) == 0 => {
            both(&format!("addr add {v4}/24 dev {interface}"), &format!("addr del {v4}/24 dev {interface}"))
        }
        Outage::Address => {
            both(&format!("addr add {v6}/64 dev {interface} nodad"), &format!("addr del {v6}/64 dev {interface}"))
        }
        Outage::Link => {
            both(&format!("link set {interface} up"), &format!("link set {interface} down"))?;
            // The kernel removes the IPv6 addresses of a link that goes down.
            lab.ip(&format!("-n {netns} addr replace {v6}/64 dev {interface} nodad"))?;
            lab.wait_ready(here)
        }
        Outage::Route => {
            let (how, to) = (lots.one(&REFUSALS), if lots.below(2) == 0 { there.v4 } else { there.v6 });
            both(&format!("route del {how} {to}"), &format!("route add {how} {to} metric 1"))
        }
        Outage::Daemon => {
            if let Some(pid) = lab.daemon(here).and_then(|pid| Pid::from_raw(pid.cast_signed())) {
                kill_process(pid, Signal::KILL)?;
            }
            Ok(())
        }
        Outage::Peer => Ok(()),
    }
}
