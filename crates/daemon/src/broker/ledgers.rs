//! Requests about counters and objects of processes. Processes write them to their ledgers; the daemon reads them on
//! request and keeps the counters of ended processes. All of it is untrusted: the daemon shows it, and nothing depends
//! on it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use weft_ipc::fabric::HostAdapter;
use weft_ipc::stat::{DeviceCounters, DeviceObjects, DeviceStat, ProcessCounters, QpCursor, QpPage, StatReport};
use weft_ipc::{Event, LEDGER_QPS_MAX, QPS_PER_PAGE, Refusal, Request, Response, STAT_DEVICES_PER_PAGE};

use super::Attach;
use super::call::{Call, Outcome};
use super::route::{Routed, Rules};
use super::sessions::{Client, Sessions};
use super::shared::Shared;
use crate::host::Host;
use crate::left::Left;
use crate::refusal::{EALREADY, EINVAL, refuse};
use crate::slots::ClientId;
use crate::umad;

/// Minimum time between two requests to bring ledgers up to date, over all requesters: each one wakes every process.
const REFRESH_INTERVAL: Duration = Duration::from_millis(10);

/// Subject of the request to bring a ledger up to date, so that a newer request replaces one that still waits.
const ABOUT_LEDGER: u32 = u32::MAX;

/// The requests of this feature.
pub(super) fn route<H: Host>(request: Request) -> Routed<H> {
    Routed::Here(match request {
        Request::OpenLedger => Rules::PLAIN.to(|broker, call| open(&mut broker.shared.sessions, call)),
        Request::RefreshLedgers => {
            Rules::PLAIN.to(|broker, call| Ok(broker.ledgers.refresh(&mut broker.shared.sessions, call.now).into()))
        }
        Request::Stat { offset } => Rules::PLAIN
            .to(move |broker, call| Ok(broker.ledgers.stat(&broker.shared, call.id, offset, call.host).into())),
        Request::ListAdapters { offset } => Rules::PLAIN.to(move |broker, call| {
            Ok(broker.ledgers.list_adapters(&broker.shared, call.id, offset, call.host).into())
        }),
        Request::ListQps(from) => {
            Rules::PLAIN.to(move |broker, call| Ok(list_qps(&broker.shared.sessions, call.id, from, call.host).into()))
        }
        other => return Routed::Elsewhere(other),
    })
}

/// Counters of all ended processes.
#[derive(Debug, Default)]
pub(super) struct Ledgers {
    /// Of those on the machine.
    left: Left,
    /// Of those on the fabric's hosts, by host name. They end with the fabric.
    pub left_on_hosts: BTreeMap<String, Left>,
    /// When processes were last asked to bring their ledgers up to date.
    refreshed: Option<Instant>,
}

impl Ledgers {
    /// Takes over the counters that a predecessor saved.
    pub fn restore(&mut self, left: Left) {
        self.left = left;
    }

    /// Returns the counters that a successor needs.
    pub fn save(&self) -> Left {
        self.left.clone()
    }

    /// Forgets the processes of a fabric that has gone.
    pub fn end_hosts(&mut self) {
        self.left_on_hosts.clear();
    }

    /// Keeps the counters of an ending process: with the machine's devices, or with the adapters of its host.
    pub fn close(&mut self, shared: &Shared, id: ClientId, host: &mut impl Host) {
        if let Some(page) = host.counters(id) {
            let virtual_host = shared.sessions.host(id).unwrap_or_default().to_owned();
            let known: BTreeSet<u32> = indexes_of(shared, &virtual_host).into_iter().collect();
            // Counters of a device that does not exist would be kept forever.
            let devices: Vec<_> = page.devices.into_iter().filter(|(device, _)| known.contains(device)).collect();
            let left = match virtual_host.is_empty() {
                true => Some(&mut self.left),
                // A program of an earlier fabric has no adapter to add to.
                false if devices.is_empty() => None,
                false => Some(self.left_on_hosts.entry(virtual_host).or_default()),
            };
            if let Some(left) = left {
                for (device, counters) in devices {
                    left.devices.entry(device).or_default().add(&counters);
                }
                left.process.add(&page.process);
                left.devices.retain(|device, _| known.contains(device));
            }
        }
        host.close_ledger(id);
    }

    fn refresh(&mut self, sessions: &mut Sessions, now: Instant) -> Response {
        let recent = self.refreshed.is_some_and(|at| now.saturating_duration_since(at) < REFRESH_INTERVAL);
        if !recent {
            self.refreshed = Some(now);
            sessions.tell_all(&Event::RefreshLedger, Some(ABOUT_LEDGER), |client| client.ledger);
        }
        Response::Done
    }

    /// Returns a page of totals. A program that runs as a host sees its adapters and the processes of that host; a
    /// program of the machine sees everything.
    fn stat(&self, shared: &Shared, id: ClientId, offset: u32, host: &impl Host) -> Response {
        let virtual_host = shared.sessions.host(id).unwrap_or_default();
        let mut shown = indexes_of(shared, virtual_host);
        if virtual_host.is_empty() {
            shown.extend(self.adapters_in_use(shared, host).into_keys());
        }
        let rest = shown.get(offset as usize..).unwrap_or_default();
        let page = &rest[..rest.len().min(STAT_DEVICES_PER_PAGE)];
        let new = |index: &u32| {
            let objects = DeviceObjects { device: *index, ..DeviceObjects::default() };
            (*index, DeviceStat { device: *index, objects, ..DeviceStat::default() })
        };
        let mut devices: BTreeMap<u32, DeviceStat> = page.iter().map(new).collect();
        let (mut process, mut processes) = (ProcessCounters::default(), 0);
        for left in self.left_of(virtual_host) {
            process.add(&left.process);
            for (device, counters) in &left.devices {
                if let Some(stat) = devices.get_mut(device) {
                    stat.counters.add(counters);
                }
            }
        }
        for (id, _) in
            ledgers(&shared.sessions).filter(|(_, client)| virtual_host.is_empty() || client.host == virtual_host)
        {
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
        let devices = page.iter().filter_map(|index| devices.remove(index)).collect();
        Response::Stat(StatReport { devices, more: rest.len() > page.len(), process, processes })
    }

    /// Returns a page of the adapters that [`Ledgers::stat`] shows to programs of the machine. Each has long tables, so
    /// a page holds few.
    fn list_adapters(&self, shared: &Shared, id: ClientId, offset: u32, host: &impl Host) -> Response {
        let sees_all = shared.sessions.get(id).is_some_and(|client| !client.is_on_host());
        let in_use = if sees_all { self.adapters_in_use(shared, host) } else { BTreeMap::new() };
        let mut rest = in_use.into_iter().skip(offset as usize);
        let described = rest.next().and_then(|(index, host)| {
            let mut devices = (0u32..).zip(shared.devices_of_host(&host));
            let (number, device) = devices.find(|(_, device)| device.index == index)?;
            Some(HostAdapter { host, number, device })
        });
        Response::Adapters { adapters: described.into_iter().collect(), more: rest.next().is_some() }
    }

    /// Returns the adapters of the fabric's hosts on which a living process has objects or counters, or an ended one
    /// counted, with the names of their hosts.
    fn adapters_in_use(&self, shared: &Shared, host: &impl Host) -> BTreeMap<u32, String> {
        let mut in_use = BTreeMap::new();
        for (virtual_host, left) in &self.left_on_hosts {
            in_use.extend(left.devices.keys().map(|index| (*index, virtual_host.clone())));
        }
        for (id, client) in ledgers(&shared.sessions).filter(|(_, client)| client.is_on_host()) {
            let counted = host.counters(id).unwrap_or_default().devices.into_iter().map(|(index, _)| index);
            let held = host.objects(id).unwrap_or_default().devices.into_iter().map(|objects| objects.device);
            let own = indexes_of(shared, &client.host);
            in_use.extend(counted.chain(held).filter(|index| own.contains(index)).map(|i| (i, client.host.clone())));
        }
        in_use
    }

    /// Returns the counters of ended processes of this host; for the machine, of all hosts.
    fn left_of<'a>(&'a self, virtual_host: &'a str) -> impl Iterator<Item = &'a Left> {
        let own = virtual_host.is_empty().then_some(&self.left);
        let hosts = self.left_on_hosts.iter();
        let hosts = hosts.filter(move |(name, _)| virtual_host.is_empty() || *name == virtual_host);
        own.into_iter().chain(hosts.map(|(_, left)| left))
    }
}

fn open(sessions: &mut Sessions, call: Call<'_, impl Host>) -> Result<Outcome, Refusal> {
    let id = call.id;
    match sessions.get_mut(id) {
        Some(client) if client.ledger => Err(refuse(EALREADY, "this connection has a ledger already")),
        Some(client) if client.slot.is_some() => {
            call.host.open_ledger(id)?;
            client.ledger = true;
            Ok(Outcome::with(Response::Ledger, Attach { ledger_of: Some(id), ..Attach::default() }))
        }
        _ => Err(refuse(EINVAL, "a process without an open device has nothing to count")),
    }
}

/// Returns the devices of the programs that run as this host; the empty name is the machine.
fn indexes_of(shared: &Shared, virtual_host: &str) -> Vec<u32> {
    if virtual_host.is_empty() {
        return shared.devices.list().iter().map(|info| info.index).collect();
    }
    let adapters = shared.fabric.running().and_then(|running| running.adapters(virtual_host)).unwrap_or_default();
    umad::indexes(shared.fabric.generation(), adapters)
}

/// Returns a page of queue pairs. A program that runs as a host sees the processes of that host, a program of the machine
/// all of them.
fn list_qps(sessions: &Sessions, asker: ClientId, from: QpCursor, host: &impl Host) -> Response {
    let own = sessions.host(asker).unwrap_or_default();
    let seen = ledgers(sessions).filter(|(_, client)| own.is_empty() || client.host == own);
    let mut left = seen.map(|(id, _)| id).filter(|id| *id >= from.client);
    let Some(id) = left.next() else { return Response::Qps(Box::default()) };
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
    let mut totals = DeviceCounters::default();
    for (_, counters) in host.counters(id).unwrap_or_default().devices {
        totals.add(&counters);
    }
    let client = sessions.get(id);
    let (pid, comm) = client.map(|c| (c.credentials.pid, c.program.clone())).unwrap_or_default();
    let virtual_host = client.map(|c| c.host.clone()).unwrap_or_default();
    Response::Qps(Box::new(QpPage { client: id, host: virtual_host, totals, pid, comm, qps, untold, next }))
}

/// Returns the clients that have a ledger.
fn ledgers(sessions: &Sessions) -> impl Iterator<Item = (ClientId, &Client)> {
    sessions.iter().filter(|(_, client)| client.ledger && client.in_session())
}
