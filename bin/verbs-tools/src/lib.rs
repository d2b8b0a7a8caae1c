//! Verbs and connection manager tools: the example programs of rdma-core and qperf, for machines without Debian's
//! packages, and `weft perf`.
//!
//! - [`tools`] has a file for each tool and the table of them;
//! - [`perf`] measures bandwidth, latency and message rate;
//! - [`replay`] is `weft replay`, which posts a recorded program's requests again;
//! - `pingpong` is shared by the `ibv_*_pingpong` tools, `cm_tools` by those of the connection manager;
//! - [`ud_echo`] is the datagram part of `weft up --test pingall`;
//! - [`devinfo`] has the attributes that `ibv_devinfo` prints.

mod cm_tools;
pub mod devinfo;
pub mod perf;
mod pingpong;
pub mod replay;
pub mod tools;
pub mod ud_echo;

// The modules name these `crate::output`, `crate::errln!` and so on.
use weft_tool::{errln, errno, getopt, outln, output, spin};

/// Address of a server on the same machine. Minimal images have no /etc/hosts, so `localhost` may not resolve there.
pub const THIS_MACHINE: &str = "127.0.0.1";
