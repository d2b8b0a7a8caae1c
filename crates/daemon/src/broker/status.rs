//! The daemon's status, and what programs report for it.

use weft_ipc::{CmStatus, PROCESSES_PER_PAGE, PortHealth, ProcessInfo, Response, StatusReport, Usage};

use super::Broker;
use super::call::{Call, Outcome};
use super::shared::Shared;
use crate::host::Host;
use crate::slots::ClientId;

/// Returns a page of the status.
pub(super) fn answer(broker: &mut Broker, call: &Call<'_, impl Host>, offset: u32) -> Response {
    let cm = broker.cms.status(call.now);
    status(&broker.shared, cm, call, offset)
}

fn status(shared: &Shared, mut cm: CmStatus, call: &Call<'_, impl Host>, offset: u32) -> Response {
    let host = &*call.host;
    (cm.gsi, cm.groups) = (host.gsi_status(), host.groups());
    let sessions = || shared.sessions.values().filter(|client| client.in_session());
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
        pid: shared.config.pid,
        uid: shared.config.uid,
        uptime_s: call.now.saturating_duration_since(shared.started).as_secs(),
        port: port_health(shared, host),
        pool_slots: shared.slots.len(),
        slots_in_use: shared.slots.in_use(),
        slots_per_user_max: shared.config.slots_per_user_max,
        devices: shared.devices.len() as u32,
        slot0_packets: host.slot0_packets(),
        cm,
        more: sessions().count() > shown,
        processes,
    })
}

fn port_health(shared: &Shared, host: &impl Host) -> PortHealth {
    if !shared.slots.is_empty() {
        return PortHealth::Held;
    }
    if shared.is_recovering() {
        return PortHealth::Recovering;
    }
    host.port_trouble().map_or(PortHealth::Unused, PortHealth::Taken)
}

pub(super) fn report_usage(shared: &mut Shared, id: ClientId, usage: Usage) -> Outcome {
    if let Some(client) = shared.sessions.get_mut(id) {
        client.usage = usage;
    }
    Outcome::NoReply
}
