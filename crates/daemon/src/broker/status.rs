//! The daemon's status, and what programs report for it.

use weft_ipc::{CmStatus, PROCESSES_PER_PAGE, PortHealth, ProcessInfo, Request, Response, StatusReport, Usage};

use super::call::{Call, Outcome};
use super::route::{Routed, Rules};
use super::shared::Shared;
use crate::host::Host;
use crate::slots::ClientId;

/// The requests of this feature.
pub(super) fn route<H: Host>(request: Request) -> Routed<H> {
    Routed::Here(match request {
        Request::Status { offset } => Rules::PLAIN.during_recovery().to(move |broker, call| {
            let cm = broker.cms.status(call.now);
            Ok(status(&broker.shared, cm, &call, offset).into())
        }),
        Request::ReportUsage(usage) => Rules::PLAIN.during_recovery().to(move |broker, call| {
            report_usage(&mut broker.shared, call.id, usage);
            Ok(Outcome::NoReply)
        }),
        other => return Routed::Elsewhere(other),
    })
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

fn report_usage(shared: &mut Shared, id: ClientId, usage: Usage) {
    if let Some(client) = shared.sessions.get_mut(id) {
        client.usage = usage;
    }
}
