//! Devices: the list of them, subscriptions to their changes, and `rdma link` and `rdma dev`.

use std::time::Instant;

use weft_ipc::{DEVICES_PER_PAGE, Event, Refusal, Response};

use super::Broker;
use super::call::{Call, Outcome};
use super::shared::Shared;
use crate::host::Host;
use crate::refusal::{ENODEV, EOPNOTSUPP, refuse};
use crate::slots::ClientId;

pub(super) fn list(shared: &Shared, id: ClientId, offset: u32) -> Response {
    if let Some(host) = shared.sessions.host(id) {
        // One on a page: its tables are long.
        let mut list = shared.devices_of_host(host).into_iter().skip(offset as usize);
        return Response::Devices { devices: list.next().into_iter().collect(), more: list.next().is_some() };
    }
    let list = shared.devices.list();
    let rest = list.get(offset as usize..).unwrap_or_default();
    Response::Devices {
        devices: rest.iter().take(DEVICES_PER_PAGE).map(|&info| info.clone()).collect(),
        more: rest.len() > DEVICES_PER_PAGE,
    }
}

pub(super) fn subscribe(shared: &mut Shared, id: ClientId) -> Outcome {
    if let Some(client) = shared.sessions.get_mut(id) {
        client.subscribed = true;
    }
    Response::Done.into()
}

/// Adds a device.
pub(super) fn add(broker: &mut Broker, now: Instant, name: &str, kind: &str, netdev: &str) -> Result<Outcome, Refusal> {
    broker.shared.devices.add(name, kind, netdev)?;
    broker.refresh(now);
    Ok(Response::Done.into())
}

/// Removes a device.
pub(super) fn remove(broker: &mut Broker, now: Instant, name: &str) -> Result<Outcome, Refusal> {
    let index = broker.shared.devices.remove(name)?;
    broker.shared.sessions.broadcast(&[Event::DeviceRemoved { index }]);
    broker.refresh(now);
    Ok(Response::Done.into())
}

/// Renames a device.
pub(super) fn rename(
    broker: &mut Broker,
    call: &Call<'_, impl Host>,
    old: &str,
    new: &str,
) -> Result<Outcome, Refusal> {
    must_be_renamable(&broker.shared, call.id, old)?;
    broker.shared.devices.rename(old, new)?;
    broker.refresh(call.now);
    Ok(Response::Done.into())
}

/// Refuses to rename devices that a program of a virtual host sees: its adapters, which the fabric names.
fn must_be_renamable(shared: &Shared, id: ClientId, name: &str) -> Result<(), Refusal> {
    let Some(host) = shared.sessions.host(id) else { return Ok(()) };
    let devices = shared.devices_of_host(host);
    if devices.iter().any(|device| device.name == name) {
        let text = format!(
            "{name} keeps its name: it is an adapter of host {host} of the fabric; only devices on interfaces can be renamed"
        );
        return Err(refuse(EOPNOTSUPP, text));
    }
    let names: Vec<String> = devices.into_iter().map(|device| device.name).collect();
    Err(refuse(ENODEV, format!("host {host} has no device {name}; it has {}", names.join(", "))))
}
