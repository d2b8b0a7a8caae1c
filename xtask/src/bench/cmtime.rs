//! Connections: the time that rdma-core's `cmtime` takes for many of them in parallel, from creating their IDs to
//! destroying them.

use super::program::{Program, unless_installed};
use super::room::Room;
use super::unit::Unit;
use anyhow::Result;
use weft_interop::ends::{self, Ends};

/// Number of connections.
#[derive(Clone, Copy, Debug)]
pub struct Cmtime {
    pub count: u32,
}

impl Program for Cmtime {
    fn name(&self) -> String {
        format!("cmtime -c {}", self.count)
    }

    fn command(&self, _: u32) -> String {
        format!("weft run -- cmtime -c {} -s SERVER", self.count)
    }

    fn unit(&self) -> Unit {
        Unit::Seconds
    }

    fn missing(&self) -> Option<&'static str> {
        unless_installed("cmtime", "rdmacm-utils")
    }

    fn measure(&self, room: &Room) -> Result<f64> {
        let lab = room.lab()?;
        let ends = Ends::cmtime(self.count, lab.server().v4);
        let pinned = ends.under(|words| room.on_server_core(words), |words| room.on_client_core(words));
        Ok(ends::cmtime(lab, &pinned)?.as_secs_f64())
    }
}
