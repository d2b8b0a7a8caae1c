//! The command line of ucmatose.

use std::ffi::OsString;

use weft_abi_types::{RDMA_PS_IB, RDMA_PS_TCP};

use crate::cm_tools::{Letters, SYSTEM_HELP, address_format, atoi, octet};
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
    pub message_count: usize,
    /// Bytes of each message.
    pub message_size: usize,
    /// Type of service.
    pub tos: Option<u8>,
    /// Local ACK timeout.
    pub ack_timeout: Option<u8>,
    /// Port or service.
    pub port: String,
    /// Whether to migrate to another event channel before disconnecting.
    pub migrate: bool,
}

const USAGE: &str = "usage: ucmatose
\t[-s server_address]
\t[-b bind_address]
\t[-f address_format]
\t    name, ip, ipv6, or gid
\t[-P port_space]
\t    tcp or ib
\t[-c connections]
\t[-C message_count]
\t[-S message_size]
\t[-t type_of_service]
\t[-p port_number]
\t[-m(igrate)]
\t[-a ack_timeout]
";

/// Parses the command line; prints the error and returns `None` if it is invalid.
pub fn read(args: &[OsString]) -> Option<Options> {
    let (given, which) = match Letters("s:b:f:P:c:C:S:t:p:a:m").read(args) {
        Ok(read) => read,
        Err(error) => {
            crate::errln!("ucmatose: {error}");
            print(&format!("{USAGE}{SYSTEM_HELP}"));
            return None;
        }
    };
    let mut options = Options {
        which,
        dst: None,
        src: None,
        hints: Hints { port_space: RDMA_PS_TCP, ..Hints::default() },
        connections: 1,
        message_count: 10,
        message_size: 100,
        tos: None,
        ack_timeout: None,
        port: "7471".to_owned(),
        migrate: false,
    };
    let count = |text: &str| usize::try_from(atoi(text)).unwrap_or(0);
    for (letter, text) in given {
        match letter {
            's' => options.dst = Some(text),
            'b' => options.src = Some(text),
            'f' => address_format(&text, &mut options.hints),
            'P' => port_space(&text, &mut options.hints),
            'c' => options.connections = count(&text),
            'C' => options.message_count = count(&text),
            'S' => options.message_size = count(&text),
            't' => options.tos = Some(octet(&text)),
            'p' => options.port = text,
            'a' => options.ack_timeout = Some(octet(&text)),
            _ => options.migrate = true,
        }
    }
    if options.message_size == 0 {
        options.message_count = 0;
    }
    Some(options)
}

fn port_space(text: &str, hints: &mut Hints) {
    let text = text.to_ascii_lowercase();
    if text.starts_with("ib") {
        hints.port_space = RDMA_PS_IB;
    } else if !text.starts_with("tcp") {
        crate::errln!("Warning: unknown port space format");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guides_command_lines_are_understood() {
        let args: Vec<OsString> = "-s 10.0.0.1 -c 200 -S 0 -P ib -t 0x20".split(' ').map(OsString::from).collect();
        let options = read(&args).unwrap();
        assert_eq!((options.connections, options.message_count, options.tos), (200, 0, Some(0x20)));
        assert_eq!((options.dst.as_deref(), options.hints.port_space), (Some("10.0.0.1"), RDMA_PS_IB));
        assert!(read(&["-x".into()]).is_none());
    }
}
