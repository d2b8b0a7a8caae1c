//! The transport between processes of one namespace. Between namespaces there is only one: packets.

use crate::lab::{Lab, Side};
use crate::user::Who;
use anyhow::{Context, Result};

/// A transport, as a program's environment selects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Path {
    /// Weft's default: rings, and copies into and out of each other's memory.
    SameHost,
    /// The default, but without shared pages: the kernel copies.
    Copies,
    /// Packets.
    Wire,
}

impl Path {
    /// The two that differ most.
    pub const BOTH: [Path; 2] = [Path::SameHost, Path::Wire];

    /// All of them.
    pub const ALL: [Path; 3] = [Path::SameHost, Path::Copies, Path::Wire];

    /// Returns the variable that forces it.
    pub fn env(self) -> Option<(&'static str, &'static str)> {
        match self {
            Path::SameHost => None,
            Path::Copies => Some(("WEFT_SHARE", "off")),
            Path::Wire => Some(("WEFT_LOOPBACK", "wire")),
        }
    }

    /// Returns its name for labels.
    pub fn name(self) -> &'static str {
        match self {
            Path::SameHost => "same host",
            Path::Copies => "same host, pages not shared",
            Path::Wire => "by packets",
        }
    }
}

impl Lab {
    /// Returns the number of UDP datagrams that the side has received so far.
    pub fn datagrams(&self, side: &Side) -> Result<u64> {
        let text = |file: &str| -> Result<String> {
            let line = self.bare(side, Who::Root, &["cat", file]);
            Ok(self.start_line(&line, &[])?.wait(std::time::Duration::from_secs(10)).success()?.text)
        };
        let v4 =
            field(&text("/proc/net/snmp")?, "Udp:", "InDatagrams").context("no Udp InDatagrams in /proc/net/snmp")?;
        let v6 = text("/proc/net/snmp6")?;
        let v6 = v6.lines().find_map(|line| line.strip_prefix("Udp6InDatagrams")?.trim().parse::<u64>().ok());
        Ok(v4 + v6.unwrap_or(0))
    }

    /// Returns the number of TCP segments that the side has sent so far.
    pub fn segments(&self, side: &Side) -> Result<u64> {
        let line = self.bare(side, Who::Root, &["cat", "/proc/net/snmp"]);
        let text = self.start_line(&line, &[])?.wait(std::time::Duration::from_secs(10)).success()?.text;
        field(&text, "Tcp:", "OutSegs").context("no Tcp OutSegs in /proc/net/snmp")
    }
}

/// Returns a field of a protocol in the format of `/proc/net/snmp`: a line of names, then a line of values.
fn field(text: &str, protocol: &str, name: &str) -> Option<u64> {
    let mut rows = text.lines().filter_map(|line| line.strip_prefix(protocol));
    let at = rows.next()?.split_whitespace().position(|word| word == name)?;
    rows.next()?.split_whitespace().nth(at)?.parse().ok()
}

#[test]
fn a_field_is_found_below_its_name() {
    let text = "Tcp: A B\nTcp: 1 2\nUdp: InDatagrams NoPorts\nUdp: 77 3\nUdpLite: InDatagrams\nUdpLite: 5\n";
    assert_eq!(field(text, "Udp:", "InDatagrams"), Some(77));
    assert_eq!(field(text, "Udp:", "NoPorts"), Some(3));
    assert_eq!(field(text, "Sctp:", "InDatagrams"), None);
}
