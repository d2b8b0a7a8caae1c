//! The InfiniBand fabric of this network namespace, if one is up: permission to bring it up, descriptions received so
//! far, and conversion of its time. [`Running`] is the fabric itself with its names.

mod answers;
mod faults;
mod live;
mod ports;
mod running;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weft_fabric::topology::Topology;
use weft_ipc::fabric::unpack;
use weft_ipc::{FABRIC_BYTES_MAX, Refusal};
use weft_verbs::Instant as FabricInstant;

use crate::refusal::{EEXIST, EINVAL, ENODEV, ENOSPC, refuse};
use crate::slots::ClientId;

pub use running::{Modes, Running};

/// Message for requests that need a fabric while none is up.
const NONE: &str = "no fabric is up in this network namespace: bring one up with `weft up`";

/// The fabric, and the parts of descriptions received so far.
#[derive(Debug)]
pub struct FabricHost {
    started: Instant,
    running: Option<Running>,
    /// Number of fabrics so far: programs of one must not be mistaken for programs of the next.
    generation: u64,
    /// Parts of descriptions, and snapshots being fetched, by client.
    parts: BTreeMap<ClientId, Vec<u8>>,
    pictures: BTreeMap<ClientId, Vec<u8>>,
}

impl FabricHost {
    /// Makes one without a fabric.
    pub fn new(now: Instant) -> FabricHost {
        let (parts, pictures) = (BTreeMap::new(), BTreeMap::new());
        FabricHost { started: now, running: None, generation: 0, parts, pictures }
    }

    /// Converts to the fabric's time.
    pub fn time(&self, now: Instant) -> FabricInstant {
        let since = now.saturating_duration_since(self.started);
        FabricInstant(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Converts the fabric's time to the daemon's.
    pub fn instant(&self, at: FabricInstant) -> Instant {
        self.started + Duration::from_nanos(at.0)
    }

    /// Returns the fabric, if one is up.
    pub fn running(&self) -> Option<&Running> {
        self.running.as_ref()
    }

    /// Returns the fabric, if one is up.
    pub fn running_mut(&mut self) -> Option<&mut Running> {
        self.running.as_mut()
    }

    /// Returns the fabric, or the refusal for a request without one.
    pub fn required(&mut self) -> Result<&mut Running, Refusal> {
        self.running.as_mut().ok_or_else(|| refuse(ENODEV, NONE))
    }

    /// Returns the full name of the host that a program names; else the message for the person.
    pub fn host_called(&self, host: &str) -> Result<String, String> {
        let Some(running) = &self.running else { return Err(format!("no host {host}, for {NONE}")) };
        match running.host_called(host) {
            Some(name) => Ok(name.to_owned()),
            None => Err(format!("unknown host `{host}`; `weft topology` shows the names of all")),
        }
    }

    /// Returns the number of the current fabric; each fabric has its own.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns when [`FabricHost::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.running.as_ref().and_then(Running::poll_timeout).map(|at| self.instant(at))
    }

    /// Does what is due by `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        let time = self.time(now);
        if let Some(running) = &mut self.running {
            running.handle_timeout(time);
        }
    }

    /// Removes the parts of a client.
    pub fn forget(&mut self, client: ClientId) {
        self.parts.remove(&client);
        self.pictures.remove(&client);
    }

    /// Adds the next part of a description.
    fn describe(&mut self, client: ClientId, part: &[u8]) -> Result<(), Refusal> {
        let all: usize = self.parts.values().map(Vec::len).sum();
        if all + part.len() > FABRIC_BYTES_MAX {
            return Err(refuse(ENOSPC, "the description is too long: describe a smaller fabric"));
        }
        self.parts.entry(client).or_default().extend_from_slice(part);
        Ok(())
    }

    /// Brings up the described fabric.
    fn up(&mut self, now: Instant, client: ClientId, length: u32, how: (u64, Modes)) -> Result<(), Refusal> {
        let (seed, modes) = how;
        let bytes = self.parts.remove(&client).unwrap_or_default();
        if let Some(running) = &self.running {
            let text = format!("a fabric is up already ({}): take it down first with `weft down`", running.title());
            return Err(refuse(EEXIST, text));
        }
        if bytes.len() != length as usize {
            return Err(refuse(EINVAL, "the description arrived incomplete: try again"));
        }
        let topology: Topology =
            unpack(&bytes).map_err(|_| refuse(EINVAL, "the description is malformed: is weft of another version?"))?;
        drop(bytes);
        topology.check().map_err(|error| refuse(EINVAL, error.to_string()))?;
        let seed = if seed == 0 { weft_sys::random::u64() } else { seed };
        self.running = Some(Running::new(self.time(now), topology, seed, modes));
        self.generation += 1;
        Ok(())
    }

    /// Takes the fabric down.
    fn down(&mut self) -> Result<(), Refusal> {
        self.pictures.clear();
        self.running.take().map(drop).ok_or_else(|| refuse(ENODEV, NONE))
    }
}

#[cfg(test)]
mod tests;
