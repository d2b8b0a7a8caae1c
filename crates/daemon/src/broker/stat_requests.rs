//! Requests about what processes count and hold. Processes write it to their ledgers; here it is read when somebody asks,
//! and what the dead counted is kept. All of it is what strangers say: it is shown, and nothing depends on it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weft_ipc::stat::{DeviceCounters, DeviceObjects, DeviceStat, ProcessCounters, QpCursor, QpPage, StatReport};
use weft_ipc::{DaemonFrame, Event, LEDGER_QPS_MAX, QPS_PER_PAGE, Refusal, Response, STAT_DEVICES_PER_PAGE, encode};

use super::session::Outcome;
use super::{Attach, Broker, Output, Standing};
use crate::host::Host;
use crate::refusal::{EALREADY, EINVAL, refuse};
use crate::slots::ClientId;

/// Processes are asked to bring their ledgers up to date no more often than this, whoever wants it: each wakes for it.
const REFRESH_INTERVAL: Duration = Duration::from_millis(10);

/// What the request to bring a ledger up to date is about, so that one that waits takes the next one's place.
const ABOUT_LEDGER: u32 = u32::MAX;

/// What processes that are no more have counted.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Left {
    devices: BTreeMap<u32, DeviceCounters>,
    process: ProcessCounters,
}

impl Broker {
    pub(super) fn open_ledger(&mut self, id: ClientId, host: &mut impl Host) -> Result<Outcome, Refusal> {
        match self.clients.get_mut(&id) {
            Some(client) if client.ledger => Err(refuse(EALREADY, "this connection has a ledger already")),
            Some(client) if client.slot.is_some() => {
                host.open_ledger(id)?;
                client.ledger = true;
                let attach = Attach { ledger_of: Some(id), ..Attach::default() };
                Ok(Outcome::Reply(Box::new(Response::Ledger), attach))
            }
            _ => Err(refuse(EINVAL, "a process without an open device has nothing to count")),
        }
    }

    /// A process leaves: what it counted is kept.
    pub(super) fn close_ledger(&mut self, id: ClientId, host: &mut impl Host) {
        if let Some(page) = host.counters(id) {
            for (device, counters) in page.devices {
                // What is no device of ours would be kept for ever.
                if self.devices.list().iter().any(|info| info.index == device) {
                    self.left.devices.entry(device).or_default().add(&counters);
                }
            }
            self.left.process.add(&page.process);
            let (left, devices) = (&mut self.left, &self.devices);
            left.devices.retain(|device, _| devices.list().iter().any(|info| info.index == *device));
        }
        host.close_ledger(id);
    }

    pub(super) fn refresh_ledgers(&mut self, now: Instant) -> Response {
        let recent = self.ledgers_refreshed.is_some_and(|at| now.saturating_duration_since(at) < REFRESH_INTERVAL);
        if !recent && let Ok(bytes) = encode(&DaemonFrame::Event(Event::RefreshLedger)) {
            self.ledgers_refreshed = Some(now);
            for (&client, _) in self.clients.iter().filter(|(_, client)| client.ledger) {
                let (bytes, attach) = (bytes.clone(), Attach::default());
                self.output.push_back(Output::Send { client, bytes, attach, about: Some(ABOUT_LEDGER) });
            }
        }
        Response::Done
    }

    pub(super) fn stat(&self, offset: u32, host: &impl Host) -> Response {
        let list = self.devices.list();
        let rest = list.get(offset as usize..).unwrap_or_default();
        let page = &rest[..rest.len().min(STAT_DEVICES_PER_PAGE)];
        let mut devices: BTreeMap<u32, DeviceStat> = page
            .iter()
            .map(|info| {
                let counters = self.left.devices.get(&info.index).copied().unwrap_or_default();
                let objects = DeviceObjects { device: info.index, ..DeviceObjects::default() };
                (info.index, DeviceStat { device: info.index, counters, objects })
            })
            .collect();
        let mut process = self.left.process;
        let mut processes = 0;
        for id in self.ledgers() {
            processes += 1;
            let counted = host.counters(id).unwrap_or_default();
            process.add(&counted.process);
            for (device, counters) in counted.devices {
                if let Some(stat) = devices.get_mut(&device) {
                    stat.counters.add(&counters);
                }
            }
            for objects in host.objects(id).unwrap_or_default().devices {
                if let Some(stat) = devices.get_mut(&objects.device) {
                    stat.objects.add(&objects);
                }
            }
        }
        let devices = page.iter().filter_map(|info| devices.remove(&info.index)).collect();
        Response::Stat(StatReport { devices, more: rest.len() > page.len(), process, processes })
    }

    pub(super) fn list_qps(&self, from: QpCursor, host: &impl Host) -> Response {
        let mut left = self.ledgers().filter(|id| *id >= from.client);
        let Some(id) = left.next() else { return Response::Qps(QpPage::default()) };
        let skip = if id == from.client { from.skip as usize } else { 0 };
        let objects = host.objects(id).unwrap_or_default();
        let told = objects.qps.len().min(LEDGER_QPS_MAX);
        let qps: Vec<_> = objects.qps.into_iter().take(told).skip(skip).take(QPS_PER_PAGE).collect();
        let shown = skip + qps.len();
        let more_here = shown < told;
        let next = match more_here {
            true => Some(QpCursor { client: id, skip: shown as u32 }),
            false => left.next().map(|client| QpCursor { client, skip: 0 }),
        };
        let held: u32 = objects.devices.iter().fold(0, |sum, device| sum.saturating_add(device.qp));
        let untold = if more_here { 0 } else { held.saturating_sub(told as u32) };
        let client = self.clients.get(&id);
        let (pid, comm) = client.map(|c| (c.credentials.pid, c.program.clone())).unwrap_or_default();
        Response::Qps(QpPage { pid, comm, qps, untold, next })
    }

    /// Processes that have a ledger.
    fn ledgers(&self) -> impl Iterator<Item = ClientId> {
        let has = |client: &super::Client| client.ledger && matches!(client.standing, Standing::Session);
        self.clients.iter().filter(move |(_, client)| has(client)).map(|(&id, _)| id)
    }
}
