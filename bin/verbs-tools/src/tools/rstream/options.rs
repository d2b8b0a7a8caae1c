//! The command line of rstream.

use std::ffi::OsString;

use libc::{AI_NUMERICHOST, MSG_DONTWAIT, MSG_WAITALL, c_int};
use weft_abi_types::{AF_IB, RAI_FAMILY, RAI_NUMERICHOST, RDMA_PS_TCP};

use crate::cm_tools::{Letters, SYSTEM_HELP, atoi};
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
    /// Port or service.
    pub port: String,
    /// Address format for `getaddrinfo`.
    pub ai_flags: c_int,
    /// Address format for `rdma_getaddrinfo`.
    pub hints: Hints,
    /// Use sockets over RDMA.
    pub rdma: bool,
    /// Resolve addresses with `rdma_getaddrinfo`.
    pub resolve_by_cm: bool,
    /// Poll before each call.
    pub poll: bool,
    /// Serve in a child process.
    pub fork: bool,
    /// Check the received data.
    pub verify: bool,
    /// Flags of `send` and `recv`.
    pub flags: c_int,
    /// Size of send and receive buffers, if not the default.
    pub buffer_size: Option<c_int>,
    /// Bytes that latency tests send inline.
    pub inline_size: c_int,
    /// Keepalive time in seconds.
    pub keepalive: Option<c_int>,
    /// One test of this shape instead of the series.
    pub custom: Option<Shape>,
    /// Whether the series includes all sizes.
    pub all_sizes: bool,
}

/// Size and number of transfers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Bytes of a transfer.
    pub size: usize,
    /// Transfers in one direction before the other direction begins.
    pub count: u32,
    /// Number of iterations of both directions.
    pub iterations: u32,
}

const USAGE: &str = "usage: rstream
\t[-s server_address]
\t[-b bind_address]
\t[-f address_format]
\t    name, ip, ipv6, or gid
\t[-B buffer_size]
\t[-i inline_size]
\t[-I iterations]
\t[-C transfer_count]
\t[-S transfer_size or all]
\t[-p port_number]
\t[-k keepalive_time]
\t[-T test_option]
\t    s|sockets - use standard tcp/ip sockets
\t    a|async - asynchronous operation (use poll)
\t    b|blocking - use blocking calls
\t    f|fork - fork server processing
\t    n|nonblocking - use nonblocking calls
\t    r|resolve - use rdma cm to resolve address
\t    v|verify - verify data
";

/// Parses the command line; prints the error and returns `None` if it is invalid.
pub fn read(args: &[OsString]) -> Option<Options> {
    let usage = || {
        print(&format!("{USAGE}{SYSTEM_HELP}"));
        None
    };
    let (given, which) = match Letters("s:b:f:B:i:I:C:S:p:k:T:").read(args) {
        Ok(read) => read,
        Err(error) => {
            crate::errln!("rstream: {error}");
            return usage();
        }
    };
    let mut options = defaults(which);
    let mut shape = Shape { size: 1000, count: 1000, iterations: 1 };
    let mut custom = false;
    let number = |text: &str| u32::try_from(atoi(text)).unwrap_or(0);
    for (letter, text) in given {
        match letter {
            's' => options.dst = Some(text),
            'b' => options.src = Some(text),
            'f' => address_format(&text, &mut options),
            'B' => options.buffer_size = Some(atoi(&text)).filter(|size| *size != 0),
            'i' => options.inline_size = atoi(&text),
            'I' => (shape.iterations, custom) = (number(&text), true),
            'C' => (shape.count, custom) = (number(&text), true),
            'S' if text.to_ascii_lowercase().starts_with("all") => options.all_sizes = true,
            'S' => (shape.size, custom) = (number(&text) as usize, true),
            'p' => options.port = text,
            'k' => options.keepalive = Some(atoi(&text)).filter(|seconds| *seconds != 0),
            _ => {
                if !test_option(&text, &mut options) {
                    return usage();
                }
            }
        }
    }
    options.custom = custom.then_some(shape);
    Some(options)
}

fn defaults(which: Which) -> Options {
    Options {
        which,
        dst: None,
        src: None,
        port: "7471".to_owned(),
        ai_flags: 0,
        hints: Hints { port_space: RDMA_PS_TCP, ..Hints::default() },
        rdma: true,
        resolve_by_cm: false,
        poll: false,
        fork: false,
        verify: false,
        flags: MSG_DONTWAIT,
        buffer_size: None,
        inline_size: 64,
        keepalive: None,
        custom: None,
        all_sizes: false,
    }
}

fn address_format(text: &str, options: &mut Options) {
    let text = text.to_ascii_lowercase();
    if text.starts_with("ip") {
        options.ai_flags = AI_NUMERICHOST;
    } else if text.starts_with("gid") {
        options.hints.flags = RAI_NUMERICHOST | RAI_FAMILY;
        options.hints.family = AF_IB;
        options.resolve_by_cm = true;
    } else {
        crate::errln!("Warning: unknown address format");
    }
}

/// Applies `-T`: a letter, or text that begins with the option's word.
fn test_option(text: &str, options: &mut Options) -> bool {
    let lower = text.to_ascii_lowercase();
    let words = [
        ("s", "socket"),
        ("a", "async"),
        ("b", "block"),
        ("f", "fork"),
        ("n", "nonblock"),
        ("r", "resolve"),
        ("v", "verify"),
    ];
    let found = words.iter().find(|(letter, word)| match text.len() {
        1 => text == *letter,
        _ => lower.starts_with(word),
    });
    match found.map(|(letter, _)| *letter) {
        Some("s") => options.rdma = false,
        Some("a") => options.poll = true,
        Some("b") => options.flags = options.flags & !MSG_DONTWAIT | MSG_WAITALL,
        Some("f") => (options.fork, options.rdma) = (true, false),
        Some("n") => options.flags |= MSG_DONTWAIT,
        Some("r") => options.resolve_by_cm = true,
        Some("v") => options.verify = true,
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Option<Options> {
        read(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn test_options_are_letters_or_words() {
        let options = run("-T blocking -T v -Ta -S all -s 10.0.0.1").unwrap();
        assert!(options.rdma && options.verify && options.poll && options.all_sizes && options.custom.is_none());
        assert_eq!(options.flags, MSG_WAITALL);
        assert!(!run("-T sockets").unwrap().rdma);
        assert!(run("-T f").unwrap().fork);
        assert!(run("-T x").is_none() && run("-x").is_none());
    }

    #[test]
    fn a_number_makes_one_test() {
        let shape = Shape { size: 5000, count: 1000, iterations: 3 };
        assert_eq!(run("-S 5000 -I 3").unwrap().custom, Some(shape));
    }
}
