//! perftest over iWARP, in namespaces: connections of the RDMA connection manager on devices of type siw.

use super::perftest::Perftest;
use super::program::Program;
use super::room::Room;
use super::unit::Unit;
use anyhow::{Context, Result};
use std::cell::RefCell;
use weft_interop::early::{FREED, REFUSED, until_late_enough};
use weft_interop::ends::Ends;
use weft_interop::{Lab, Who};

/// The device of each side.
const DEVICE: &str = "siw0";
/// Maximum number of runs of a client that comes before its server listens.
const TRIES_MAX: u32 = 5;

/// A tool of perftest over iWARP.
#[derive(Clone, Copy, Debug)]
pub struct OverIwarp {
    pub of: Perftest,
}

impl OverIwarp {
    fn arguments(&self, seconds: u32) -> String {
        format!("-R -F -d {DEVICE} {}", self.of.arguments(seconds))
    }
}

impl Program for OverIwarp {
    fn name(&self) -> String {
        format!("{} over iWARP", self.of.name())
    }

    fn command(&self, seconds: u32) -> String {
        format!("weft run -- {} {} SERVER", self.of.tool, self.arguments(seconds))
    }

    fn unit(&self) -> Unit {
        self.of.unit()
    }

    fn missing(&self) -> Option<&'static str> {
        self.of.missing()
    }

    fn measure(&self, room: &Room) -> Result<f64> {
        let lab = room.lab()?;
        add_devices(lab)?;
        let ends = Ends::new(self.of.tool, &self.arguments(room.seconds)).each("", lab.server().v4);
        let ends = ends.under(|words| room.on_server_core(words), |words| room.on_client_core(words));
        let ends = ends.named(self.of.tool);
        until_late_enough(TRIES_MAX, &[REFUSED, FREED], |_| {
            let figure = RefCell::new(None);
            ends.judged(lab, |client, _| {
                *figure.borrow_mut() = Some(self.of.column.read(client).context("no result")?);
                Ok(())
            })?;
            figure.into_inner().context("no result")
        })
    }
}

/// Adds the devices that are not there yet.
fn add_devices(lab: &Lab) -> Result<()> {
    for side in lab.sides() {
        let links = lab.run(side, Who::Root, &[], &["rdma", "link", "show"])?.success()?.text;
        if !links.contains(DEVICE) {
            let words = ["rdma", "link", "add", DEVICE, "type", "siw", "netdev", side.interface];
            lab.run(side, Who::Root, &[], &words)?.success()?;
        }
    }
    Ok(())
}
