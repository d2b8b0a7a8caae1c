//! The network as the broker knows it: its hosts by name. Programs on them use the hosts' own daemons.

use std::fmt::Write as _;
use std::time::Instant;

use weft_ipc::Refusal;
use weft_ipc::ethernet::{
    ETHERNET_SOCKET_NAME, EthernetFailure, EthernetSpec, EthernetStatus, ethernet_address, ethernet_host_name,
};

use super::port::EthernetPort;
use crate::host::Host;
use crate::host_networks::HostSetup;
use crate::refusal::{EEXIST, EINVAL, ENODEV, refuse};

/// The refusal of another network or fabric while an Ethernet network is up.
pub fn is_up() -> Refusal {
    refuse(EEXIST, "an Ethernet network is up already: take it down first with `weft down`")
}

/// A network that is up.
#[derive(Debug)]
pub struct EthernetNetwork {
    spec: EthernetSpec,
    since: Instant,
    failure: Option<EthernetFailure>,
}

impl EthernetNetwork {
    /// Makes a network without hosts.
    ///
    /// # Errors
    /// A value of the description is out of its range.
    pub fn new(now: Instant, spec: EthernetSpec) -> Result<EthernetNetwork, Refusal> {
        spec.check().map_err(|text| refuse(EINVAL, text))?;
        Ok(EthernetNetwork { spec, since: now, failure: None })
    }

    /// Returns the state for users.
    pub fn status(&self, now: Instant) -> EthernetStatus {
        let uptime_s = now.saturating_duration_since(self.since).as_secs();
        EthernetStatus { spec: self.spec, uptime_s, failure: self.failure }
    }

    /// Notes a failure; the first one counts.
    pub fn fail(&mut self, failure: EthernetFailure) {
        self.failure.get_or_insert(failure);
    }

    /// Returns the full name of a host; else the message for the person.
    pub fn host_called(&self, host: &str) -> Result<String, String> {
        match self.number(host) {
            Some(number) => Ok(ethernet_host_name(number)),
            None => {
                let last = ethernet_host_name(self.spec.hosts - 1);
                Err(format!("unknown host `{host}`; hosts of the Ethernet network are node1 to {last}"))
            }
        }
    }

    fn number(&self, host: &str) -> Option<u32> {
        (0..self.spec.hosts).find(|number| ethernet_host_name(*number) == host)
    }

    /// Makes a host, unless it is there. Returns its number, and whether a user namespace owns it.
    pub fn open_host(&self, outside: &mut impl Host, host: &str) -> Result<(u32, bool), Refusal> {
        let number =
            self.number(host).ok_or_else(|| refuse(ENODEV, "the program does not run as a host of the network"))?;
        let setup = HostSetup {
            name: ethernet_host_name(number),
            socket_name: ETHERNET_SOCKET_NAME.to_owned(),
            interfaces: Vec::new(),
            ethernet: vec![EthernetPort::of(&self.spec, number)],
        };
        Ok((number, outside.open_network(number, &setup)?))
    }

    /// Makes the file of all hosts' names, for the programs on them.
    pub fn make_hosts_file(&self, outside: &mut impl Host) -> Result<(), Refusal> {
        outside.set_hosts_file(&self.hosts_file())
    }

    /// Makes the next hosts from number `from` on, at most `count`: each host answers pings before a program runs on it.
    /// Returns the number of the host after them; `None` if there is none.
    pub fn open_hosts(&self, outside: &mut impl Host, from: u32, count: u32) -> Result<Option<u32>, Refusal> {
        let end = self.spec.hosts.min(from + count);
        (from..end).try_for_each(|number| self.open_host(outside, &ethernet_host_name(number)).map(drop))?;
        Ok((end < self.spec.hosts).then_some(end))
    }

    /// The names of all hosts and their addresses, as hosts(5) has them.
    fn hosts_file(&self) -> String {
        (0..self.spec.hosts).fold(String::new(), |mut text, number| {
            let (ip, name) = (ethernet_address(number), ethernet_host_name(number));
            let _ = writeln!(text, "{ip}\t{name}\t{name}-eth0");
            text
        })
    }
}
