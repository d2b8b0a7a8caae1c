//! Answers to requests about the fabric.

use std::collections::BTreeMap;
use std::time::Instant;

use weft_ipc::fabric::{FabricReply, FabricRequest, FabricStamp, FabricStatus, HostPrograms, pack};
use weft_ipc::{DecodeError, FABRIC_HOSTS_PER_PAGE, FABRIC_PART_BYTES_MAX, Refusal};

use super::{FabricHost, Modes, Running};
use crate::refusal::{EINVAL, ENOSPC, refuse};
use crate::slots::ClientId;

impl FabricHost {
    /// Executes a request of a client that has permission. `programs` says how many programs run as each host.
    pub fn answer(
        &mut self,
        now: Instant,
        client: ClientId,
        request: FabricRequest,
        programs: &BTreeMap<String, u32>,
    ) -> Result<FabricReply, Refusal> {
        let time = self.time(now);
        match request {
            FabricRequest::Describe(part) => self.describe(client, &part)?,
            FabricRequest::Up { length, seed, packets, ipoib_connected } => {
                let modes = Modes { packets, ipoib_connected };
                self.up(now, client, length, (seed, modes))?;
            }
            FabricRequest::Down => self.down()?,
            FabricRequest::Status => return Ok(FabricReply::Status(self.status(now, programs).map(Box::new))),
            FabricRequest::Hosts { offset } => return Ok(page_of_hosts(programs, offset as usize)),
            FabricRequest::Picture { offset } => {
                return self.part(client, offset as usize, |running| pack(&running.picture()));
            }
            FabricRequest::Stamp => return Ok(FabricReply::Stamp(self.stamp())),
            FabricRequest::LiveState { offset } => {
                return self.part(client, offset as usize, |running| pack(&running.live_state()));
            }
            FabricRequest::Traffic { offset } => {
                return self.part(client, offset as usize, |running| pack(&running.traffic()));
            }
            FabricRequest::Ports { from } => {
                let (ports, next) = self.required()?.ports(from);
                return Ok(FabricReply::Ports { ports, next });
            }
            FabricRequest::Cable { a, b, change } => self.required()?.change_cable(time, &a, b.as_ref(), &change)?,
            FabricRequest::Node { name, change } => self.required()?.change_node(time, &name, change)?,
            FabricRequest::Drop { ppm } => self.required()?.drop_datagrams(ppm)?,
        }
        Ok(FabricReply::Done)
    }

    fn status(&self, now: Instant, programs: &BTreeMap<String, u32>) -> Option<FabricStatus> {
        let running = self.running()?;
        let since = now.saturating_duration_since(self.instant(running.since()));
        let hosts_with_programs = programs.len() as u32;
        Some(FabricStatus { uptime_s: since.as_secs(), hosts_with_programs, ..running.status() })
    }

    fn stamp(&self) -> Option<FabricStamp> {
        Some(FabricStamp { fabric: self.generation(), changes: self.running()?.changes() })
    }

    /// Returns a part of a snapshot, which stays the same until the client has fetched all of it. `take` takes a new one.
    fn part(
        &mut self,
        client: ClientId,
        offset: usize,
        take: impl FnOnce(&Running) -> Result<Vec<u8>, DecodeError>,
    ) -> Result<FabricReply, Refusal> {
        if offset == 0 {
            let bytes = take(self.required()?);
            let bytes = bytes.map_err(|_| refuse(ENOSPC, "the fabric is too large for a picture of it"))?;
            self.pictures.insert(client, bytes);
        }
        let bytes = self.pictures.get(&client).map(Vec::as_slice).unwrap_or_default();
        let Some(rest) = bytes.get(offset..) else {
            return Err(refuse(EINVAL, "no such part of the picture: ask from its start"));
        };
        let part = rest[..rest.len().min(FABRIC_PART_BYTES_MAX)].to_vec();
        let more = rest.len() > part.len();
        if !more {
            self.pictures.remove(&client);
        }
        Ok(FabricReply::Part { bytes: part, more })
    }
}

fn page_of_hosts(programs: &BTreeMap<String, u32>, offset: usize) -> FabricReply {
    let page = programs.iter().skip(offset).take(FABRIC_HOSTS_PER_PAGE);
    let hosts: Vec<_> = page.map(|(host, count)| HostPrograms { host: host.clone(), programs: *count }).collect();
    FabricReply::Hosts { more: programs.len() > offset.saturating_add(hosts.len()), hosts }
}
