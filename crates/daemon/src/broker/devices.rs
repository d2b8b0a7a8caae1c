//! Devices: the list of them, subscriptions to their changes, and `rdma link` and `rdma dev`.

use std::collections::BTreeSet;

use weft_ipc::{DEVICES_PER_PAGE, Event, Request, Response};

use super::call::Outcome;
use super::route::{Routed, Rules};
use super::shared::Shared;
use crate::host::Host;
use crate::slots::ClientId;

/// The requests of this feature.
pub(super) fn route<H: Host>(request: Request) -> Routed<H> {
    Routed::Here(match request {
        Request::ListDevices { offset } => {
            Rules::PLAIN.to(move |broker, call| Ok(list(&broker.shared, call.id, offset).into()))
        }
        Request::Subscribe => Rules::PLAIN.to(|broker, call| Ok(subscribe(&mut broker.shared, call.id))),
        Request::LinkAdd { name, kind, netdev } => {
            Rules::PLAIN.saved().trusted("add devices").to(move |broker, call| {
                let gone = broker.shared.devices.add(&name, &kind, &netdev)?;
                broker
                    .shared
                    .sessions
                    .broadcast(&gone.map(|index| Event::DeviceRemoved { index }).into_iter().collect::<Vec<_>>());
                broker.refresh(call.now);
                Ok(Response::Done.into())
            })
        }
        Request::LinkDel { name } => Rules::PLAIN.saved().trusted("remove devices").to(move |broker, call| {
            let index = broker.shared.devices.remove(&name)?;
            broker.shared.sessions.broadcast(&[Event::DeviceRemoved { index }]);
            broker.refresh(call.now);
            Ok(Response::Done.into())
        }),
        Request::DevRename { old, new } => Rules::PLAIN.saved().trusted("rename devices").to(move |broker, call| {
            match broker.shared.sessions.host(call.id).map(str::to_owned) {
                Some(host) => {
                    let node = broker.shared.fabric.required()?.rename_adapter(&host, &old, &new)?;
                    let nodes = BTreeSet::from([node]);
                    broker.cms.hosts.follow_nodes(&mut broker.shared, call.now, &nodes);
                    super::fabric::tell_ports(&mut broker.shared, &nodes);
                }
                None => {
                    broker.shared.devices.rename(&old, &new)?;
                    broker.refresh(call.now);
                }
            }
            Ok(Response::Done.into())
        }),
        other => return Routed::Elsewhere(other),
    })
}

fn list(shared: &Shared, id: ClientId, offset: u32) -> Response {
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

fn subscribe(shared: &mut Shared, id: ClientId) -> Outcome {
    if let Some(client) = shared.sessions.get_mut(id) {
        client.subscribed = true;
    }
    Response::Done.into()
}
