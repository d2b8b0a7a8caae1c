//! The command line of cmtime.

use std::ffi::OsString;

use weft_abi_types::{IBV_QPT_RC, RAI_PASSIVE, RDMA_PS_TCP};

use crate::cm_tools::{Letters, SYSTEM_HELP, atoi};
use crate::outln;
use crate::output::print;
use weft_client::Which;
use weft_client::rdmacm::{AddrInfo, CmLibrary, Hints};

/// Send and receive queue depth of each queue pair; the tool posts no requests.
pub const DEPTH: u32 = 1;

/// The parsed command line.
#[derive(Clone, Debug)]
pub struct Options {
    /// Weft's library or the system's.
    pub which: Which,
    /// The server to connect to; `None` on the server.
    pub dst: Option<String>,
    /// Local address.
    pub src: Option<String>,
    /// Number of connections.
    pub connections: usize,
    /// Port or service.
    pub port: String,
    /// Number of retries of a failed query; also the connection's retry count.
    pub retries: i32,
    /// Timeout of a query in milliseconds.
    pub timeout_ms: i32,
}

const USAGE: &str = "usage: cmtime
\t[-s server_address]
\t[-b bind_address]
\t[-c connections]
\t[-p port_number]
\t[-r retries]
\t[-t timeout_ms]
";

/// Parses the command line; prints the error and returns `None` if it is invalid.
pub fn read(args: &[OsString]) -> Option<Options> {
    let (given, which) = match Letters("s:b:c:p:r:t:").read(args) {
        Ok(read) => read,
        Err(error) => {
            crate::errln!("cmtime: {error}");
            print(&format!("{USAGE}{SYSTEM_HELP}"));
            return None;
        }
    };
    let mut options = Options {
        which,
        dst: None,
        src: None,
        connections: 100,
        port: "7471".to_owned(),
        retries: 2,
        timeout_ms: 2000,
    };
    for (letter, text) in given {
        match letter {
            's' => options.dst = Some(text),
            'b' => options.src = Some(text),
            'c' => options.connections = usize::try_from(atoi(&text)).unwrap_or(0),
            'p' => options.port = text,
            'r' => options.retries = atoi(&text),
            _ => options.timeout_ms = atoi(&text),
        }
    }
    Some(options)
}

impl Options {
    /// Resolves the addresses.
    ///
    /// # Errors
    /// The exit status; the line has been printed.
    pub fn resolve(&self, library: CmLibrary) -> Result<AddrInfo, i32> {
        let flags = if self.dst.is_some() { 0 } else { RAI_PASSIVE };
        let hints = Hints { flags, family: 0, qp_type: IBV_QPT_RC, port_space: RDMA_PS_TCP };
        let found = AddrInfo::resolve(library, self.src.as_deref(), self.dst.as_deref(), &self.port, hints);
        found.map_err(|error| {
            let call = if self.dst.is_some() { "getaddrinfo" } else { "getrdmaaddr" };
            outln!("{call} error: {error}");
            error.0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_originals_defaults() {
        let options = read(&["-s".into(), "10.0.0.1".into(), "-c500".into()]).unwrap();
        assert_eq!((options.connections, options.retries, options.timeout_ms), (500, 2, 2000));
        assert!(read(&["-x".into()]).is_none());
    }
}
