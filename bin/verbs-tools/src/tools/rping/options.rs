//! The command line of rping.

use std::ffi::OsString;

use libc::{AI_ADDRCONFIG, AI_V4MAPPED, EINVAL};

use super::status::Status;
use crate::cm_tools::{Letters, SYSTEM_HELP, atoi};
use crate::outln;
use crate::output::print;
use weft_client::Which;
use weft_client::rdmacm::{SockAddr, lookup};

/// The parsed command line.
#[derive(Clone, Debug)]
pub struct Options {
    /// Weft's library or the system's.
    pub which: Which,
    /// Be the server.
    pub server: bool,
    /// Serve connections until killed.
    pub persistent: bool,
    /// The address and port to listen on or connect to.
    pub addr: SockAddr,
    /// The client's own address.
    pub source: Option<SockAddr>,
    /// Print the ping data.
    pub verbose: bool,
    /// Check the returned data.
    pub validate: bool,
    /// Print each step.
    pub debug: bool,
    /// Create the queue pair and modify its state in the tool, not in librdmacm.
    pub own_qp: bool,
    /// Number of pings; 0 means no limit.
    pub count: i32,
    /// Bytes of a ping, including the zero at its end.
    pub size: usize,
}

const USAGE: &str = "rping -s [-vVd] [-S size] [-C count] [-a addr] [-p port]
rping -c [-vVd] [-S size] [-C count] [-I addr] -a addr [-p port]
\t-c\t\tclient side
\t-I\t\tSource address to bind to for client.
\t-s\t\tserver side.  To bind to any address with IPv6 use -a ::0
\t-v\t\tdisplay ping data to stdout
\t-V\t\tvalidate ping data
\t-d\t\tdebug printfs
\t-S size \tping data size
\t-C count\tping count times
\t-a addr\t\taddress
\t-p port\t\tport
\t-P\t\tpersistent server mode allowing multiple connections
\t-q\t\tuse self-created, self-modified QP
";

/// Minimum size: room for a number before the text.
const SIZE_MIN: i32 = 23;
/// One more than the maximum size, as in the original's message.
const SIZE_LIMIT: i32 = 64 * 1024;
/// The default port.
const PORT: u16 = 7174;

/// Parses the command line; prints the error if it is invalid.
///
/// # Errors
/// The exit status.
pub fn read(args: &[OsString]) -> Result<Options, Status> {
    let usage = || {
        print(&format!("{USAGE}{SYSTEM_HELP}"));
        EINVAL
    };
    let (given, which) = Letters("a:I:Pp:C:S:t:scvVdq").read(args).map_err(|_| usage())?;
    let mut options = Options {
        which,
        server: false,
        persistent: false,
        addr: SockAddr::any_v4(),
        source: None,
        verbose: false,
        validate: false,
        debug: false,
        own_qp: false,
        count: 0,
        size: 64,
    };
    let (mut role, mut port, mut status) = (None, PORT, Ok(()));
    for (letter, text) in given {
        match letter {
            'a' => status = address(&text).map(|addr| options.addr = addr),
            'I' => status = address(&text).map(|addr| options.source = Some(addr)),
            'P' => options.persistent = true,
            'p' => port = atoi(&text) as u16,
            'C' => status = status.and(count(&text).map(|count| options.count = count)),
            'S' => status = status.and(size(&text).map(|size| options.size = size)),
            's' => role = Some(true),
            'c' => role = Some(false),
            'v' => options.verbose = true,
            'V' => options.validate = true,
            'd' => options.debug = true,
            'q' => options.own_qp = true,
            _ => return Err(usage()),
        }
    }
    status?;
    options.server = role.ok_or_else(usage)?;
    options.addr = options.addr.with_port(port);
    Ok(options)
}

fn address(name: &str) -> Result<SockAddr, Status> {
    lookup(Some(name), None, AI_V4MAPPED | AI_ADDRCONFIG).map_err(|error| {
        outln!("getaddrinfo failed ({error}) - invalid hostname or IP address");
        error.0
    })
}

fn count(text: &str) -> Result<i32, Status> {
    let count = atoi(text);
    if count < 0 {
        crate::errln!("Invalid count {count}");
        return Err(EINVAL);
    }
    Ok(count)
}

fn size(text: &str) -> Result<usize, Status> {
    let size = atoi(text);
    if !(SIZE_MIN..SIZE_LIMIT).contains(&size) {
        crate::errln!("Invalid size {size} (valid range is {SIZE_MIN} to {SIZE_LIMIT})");
        return Err(EINVAL);
    }
    Ok(size as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<Options, Status> {
        read(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn the_guides_command_lines_are_understood() {
        let server = run("-s -v -C 20").unwrap();
        assert!(server.server && server.verbose && !server.persistent);
        assert_eq!((server.count, format!("{:?}", server.addr)), (20, "0.0.0.0:7174".to_owned()));
        let client = run("-c -Vv -a 10.0.0.1 -C 20 -S 65535 -p 9999").unwrap();
        assert!(!client.server && client.verbose && client.validate);
        assert_eq!((client.size, format!("{:?}", client.addr)), (65535, "10.0.0.1:9999".to_owned()));
    }

    #[test]
    fn nonsense_is_refused_with_the_originals_status() {
        for line in ["-v", "-x", "-c -S 22", "-c -S 65536", "-c -C -1", "-c -t 1"] {
            assert_eq!(run(line).unwrap_err(), EINVAL, "{line}");
        }
        assert_eq!(run("-c -a no.such.name.invalid.").unwrap_err(), libc::EAI_NONAME);
    }
}
