//! The command line of udaddy.

use std::ffi::OsString;

use weft_abi_types::{RDMA_PS_IPOIB, RDMA_PS_UDP};

use crate::cm_tools::{Letters, Messages, SYSTEM_HELP, address_format, atoi, octet};
use crate::getopt::number;
use crate::output::print;
use weft_client::Which;
use weft_client::rdmacm::Hints;

/// The parsed command line.
#[derive(Clone, Debug)]
pub struct Options {
    /// Weft's library or the system's.
    pub which: Which,
    /// The server to connect to; `None` on the server.
    pub dst: Option<String>,
    /// Local address.
    pub src: Option<String>,
    /// Address format and port space.
    pub hints: Hints,
    /// Number of connections.
    pub connections: usize,
    /// Messages each way.
    pub messages: Messages,
    /// Type of service.
    pub tos: Option<u8>,
}

/// The port, which no option changes: `-p` is the port space.
pub const PORT: &str = "7174";

const USAGE: &str = "usage: udaddy
\t[-s server_address]
\t[-b bind_address]
\t[-f address_format]
\t    name, ip, ipv6, or gid
\t[-P port_space]
\t    udp or ipoib
\t[-c connections]
\t[-C message_count]
\t[-S message_size]
\t[-t type_of_service]
\t[-p port_space - 0x111 for UDP (default), 0x2 for IPOIB]
";

/// Parses the command line; prints the error and returns `None` if it is invalid.
pub fn read(args: &[OsString]) -> Option<Options> {
    let (given, which) = match Letters("s:b:c:C:S:t:p:P:f:").read(args) {
        Ok(read) => read,
        Err(error) => {
            crate::errln!("udaddy: {error}");
            print(&format!("{USAGE}{SYSTEM_HELP}"));
            return None;
        }
    };
    let mut options = Options {
        which,
        dst: None,
        src: None,
        hints: Hints { port_space: RDMA_PS_UDP, ..Hints::default() },
        connections: 1,
        messages: Messages { tool: "udaddy", count: 10, size: 100, loopback: true },
        tos: None,
    };
    let count = |text: &str| usize::try_from(atoi(text)).unwrap_or(0);
    for (letter, text) in given {
        match letter {
            's' => options.dst = Some(text),
            'b' => options.src = Some(text),
            'f' => address_format(&text, &mut options.hints),
            'P' => port_space(&text, &mut options.hints),
            'p' => options.hints.port_space = number(&text).unwrap_or(0) as u32,
            'c' => options.connections = count(&text),
            'C' => options.messages.count = count(&text),
            'S' => options.messages.size = count(&text),
            _ => options.tos = Some(octet(&text)),
        }
    }
    if options.messages.size == 0 {
        options.messages.count = 0;
    }
    Some(options)
}

fn port_space(text: &str, hints: &mut Hints) {
    let text = text.to_ascii_lowercase();
    if text.starts_with("ipoib") {
        hints.port_space = RDMA_PS_IPOIB;
    } else if !text.starts_with("udp") {
        crate::errln!("Warning: unknown port space format");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_name_a_port_space_are_understood() {
        for line in ["-p 0x2", "-P ipoib"] {
            let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(read(&args).unwrap().hints.port_space, RDMA_PS_IPOIB);
        }
        assert_eq!(read(&[]).unwrap().hints.port_space, RDMA_PS_UDP);
    }
}
