//! Read-only requests: devices, subscriptions, the status.

use std::time::Instant;

use weft_ipc::{DEVICES_PER_PAGE, PROCESSES_PER_PAGE, PortHealth, ProcessInfo, Refusal, Response, StatusReport};

use super::session::Outcome;
use super::{Broker, Standing};
use crate::host::Host;
use crate::slots::ClientId;

impl Broker {
    pub(super) fn list_devices(&self, id: ClientId, offset: u32) -> Response {
        if let Some(client) = self.clients.get(&id).filter(|client| !client.host.is_empty()) {
            // One on a page: its tables are long.
            let mut list = self.devices_of_host(&client.host).into_iter().skip(offset as usize);
            return Response::Devices { devices: list.next().into_iter().collect(), more: list.next().is_some() };
        }
        let list = self.devices.list();
        let rest = list.get(offset as usize..).unwrap_or_default();
        Response::Devices {
            devices: rest.iter().take(DEVICES_PER_PAGE).map(|&info| info.clone()).collect(),
            more: rest.len() > DEVICES_PER_PAGE,
        }
    }

    pub(super) fn subscribe(&mut self, id: ClientId) -> Result<Outcome, Refusal> {
        if let Some(client) = self.clients.get_mut(&id) {
            client.subscribed = true;
        }
        Ok(Response::Done.into())
    }

    pub(super) fn status(&mut self, now: Instant, offset: u32, host: &impl Host) -> Response {
        let mut cm = self.cm.status(now);
        (cm.gsi, cm.groups) = (host.gsi_status(), host.groups());
        let sessions = || self.clients.values().filter(|client| matches!(client.standing, Standing::Session));
        let page = sessions().skip(offset as usize).take(PROCESSES_PER_PAGE);
        let processes: Vec<ProcessInfo> = page
            .map(|client| ProcessInfo {
                pid: client.credentials.pid,
                uid: client.credentials.uid,
                program: client.program.clone(),
                slot: client.slot,
                usage: client.usage,
                fault: client.fault_text.clone(),
            })
            .collect();
        let shown = offset as usize + processes.len();
        Response::Status(StatusReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: self.config.pid,
            uid: self.config.uid,
            uptime_s: now.saturating_duration_since(self.started).as_secs(),
            port: self.port_health(host),
            pool_slots: self.slots.len(),
            slots_in_use: self.slots.in_use(),
            slots_per_user_max: self.config.slots_per_user_max,
            devices: self.devices.len() as u32,
            slot0_packets: host.slot0_packets(),
            cm,
            more: sessions().count() > shown,
            processes,
        })
    }

    fn port_health(&self, host: &impl Host) -> PortHealth {
        if !self.slots.is_empty() {
            return PortHealth::Held;
        }
        if self.is_recovering() {
            return PortHealth::Recovering;
        }
        host.port_trouble().map_or(PortHealth::Unused, PortHealth::Taken)
    }
}
