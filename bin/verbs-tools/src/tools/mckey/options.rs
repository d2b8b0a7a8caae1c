//! The command line of mckey.

use std::ffi::OsString;

use weft_abi_types::{RDMA_PS_UDP, rdma_port_space};

use crate::cm_tools::{Letters, Messages, SYSTEM_HELP, atoi};
use crate::getopt::number;
use crate::outln;
use crate::output::print;
use weft_client::Which;

/// The parsed command line.
#[derive(Clone, Debug)]
pub struct Options {
    /// Weft's library or the system's.
    pub which: Which,
    /// The group.
    pub group: Option<String>,
    /// Whether the group is a literal GID.
    pub unmapped: bool,
    /// Local address.
    pub src: Option<String>,
    /// Whether to send; otherwise the tool receives.
    pub sender: bool,
    /// Number of members.
    pub connections: usize,
    /// The messages that each member sends or receives.
    pub messages: Messages,
    /// Port space.
    pub port_space: rdma_port_space,
    /// Whether to join as a send-only member.
    pub send_only: bool,
}

const USAGE: &str = "usage: mckey
\t-m multicast_address
\t[-M unmapped_multicast_address]
\t replaces -m and requires -b
\t[-s(ender)]
\t[-b bind_address]
\t[-c connections]
\t[-C message_count]
\t[-S message_size]
\t[-p port_space - 0x111 for UDP (default), 0x2 for IPOIB]
\t[-o join as a send-only full-member]
\t[-l join without multicast loopback]
";

/// Parses the command line; prints the error and returns `None` if it is invalid.
pub fn read(args: &[OsString]) -> Option<Options> {
    let (given, which) = match Letters("m:M:sb:c:C:S:p:ol").read(args) {
        Ok(read) => read,
        Err(error) => {
            crate::errln!("mckey: {error}");
            print(&format!("{USAGE}{SYSTEM_HELP}"));
            return None;
        }
    };
    let mut options = Options {
        which,
        group: None,
        unmapped: false,
        src: None,
        sender: false,
        connections: 1,
        messages: Messages { tool: "mckey", count: 10, size: 100, loopback: true },
        port_space: RDMA_PS_UDP,
        send_only: false,
    };
    let count = |text: &str| usize::try_from(atoi(text)).unwrap_or(0);
    for (letter, text) in given {
        match letter {
            'm' => options.group = Some(text),
            'M' => (options.group, options.unmapped) = (Some(text), true),
            's' => options.sender = true,
            'b' => options.src = Some(text),
            'c' => options.connections = count(&text),
            'C' => options.messages.count = count(&text),
            'S' => options.messages.size = count(&text),
            'p' => options.port_space = number(&text).unwrap_or(0) as u32,
            'o' => options.send_only = true,
            _ => options.messages.loopback = false,
        }
    }
    if options.unmapped && options.src.is_none() {
        outln!("unmapped multicast address requires binding to source address");
        return None;
    }
    if options.messages.size == 0 {
        options.messages.count = 0;
    }
    Some(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unmapped_group_needs_a_local_address() {
        let read = |line: &str| read(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(read("-M ff12::1").is_none());
        let options = read("-M ff12::1 -b 10.0.0.1 -s -l").unwrap();
        assert!(options.unmapped && options.sender && !options.messages.loopback);
    }
}
