//! Requests about the IPoIB interfaces of a virtual host: what they are, their neighbours, children, which are
//! interfaces of other partitions of a port, and their kernel module.

use std::collections::BTreeSet;
use std::net::IpAddr;

use weft_ipc::{
    IPOIB_INTERFACES_MAX, IPOIB_NEIGHBOURS_PER_MESSAGE_MAX, IpoibInterface, IpoibNeighbour, IpoibNeighbourState,
    Refusal, Request, Response, valid_netdev_name,
};
use weft_ipoib::NeighbourState;
use weft_sys::tun::NAME_BYTES_MAX;
use weft_wire::ipoib::{LinkAddress, broadcast_group};

use super::call::Call;
use super::host_networks::{MTU_FIRST, Networks};
use super::modules::IPOIB;
use super::route::{Routed, Rules};
use super::shared::Shared;
use crate::host::Host;
use crate::host_networks::InterfaceSetup;
use crate::ipoib::InterfaceId;
use crate::refusal::{EEXIST, EINVAL, ENODEV, ENOSPC, ENOTUNIQ, refuse};

/// Scope of the broadcast group: link-local.
const SCOPE: u8 = 2;

/// The requests of this feature.
pub(super) fn route<H: Host>(request: Request) -> Routed<H> {
    let change = Rules::PLAIN.trusted("change the interfaces of a fabric's hosts");
    Routed::Here(match request {
        Request::IpoibInterfaces => {
            Rules::PLAIN.to(|broker, call| broker.networks.describe(&mut broker.shared, &call).map(Into::into))
        }
        Request::IpoibNeighbours { ifindex, after } => Rules::PLAIN.to(move |broker, call| {
            broker.networks.neighbours(&mut broker.shared, &call, ifindex, after).map(Into::into)
        }),
        Request::AddIpoibChild { parent, pkey, name } => change.to(move |broker, call| {
            broker.networks.add_child(&mut broker.shared, call, &parent, pkey, name).map(Into::into)
        }),
        Request::DeleteIpoibChild { parent, pkey } => change.to(move |broker, call| {
            broker.networks.delete_child(&mut broker.shared, call, &parent, pkey).map(Into::into)
        }),
        Request::Modules => Rules::PLAIN.to(|broker, call| {
            let host = broker.shared.sessions.host(call.id).unwrap_or_default();
            Ok(Response::Modules(broker.modules.of_host(host)).into())
        }),
        Request::SetModule { name, loaded } => {
            Rules::PLAIN.trusted("load or remove kernel modules").to(move |broker, mut call| {
                let host = broker.shared.sessions.host(call.id).unwrap_or_default().to_owned();
                if loaded {
                    broker.modules.check(&host, &name)?;
                }
                if name == IPOIB && !host.is_empty() {
                    broker.networks.set_ipoib(&mut broker.shared, &mut call, loaded)?;
                    broker.take_packets_of_interfaces();
                }
                broker.modules.set(host, name, loaded);
                Ok(Response::Done.into())
            })
        }
        other => return Routed::Elsewhere(other),
    })
}

fn no_network() -> Refusal {
    refuse(ENODEV, "the program's host has no network: `weft run --host HOST` makes one")
}

impl Networks {
    /// Returns the number of the network of a program's host.
    pub(super) fn network_of(&self, shared: &mut Shared, call: &Call<'_, impl Host>) -> Result<u32, Refusal> {
        let host = shared.sessions.host(call.id).ok_or_else(no_network)?.to_owned();
        let network = shared.fabric.required()?.adapters(&host).and_then(|adapters| adapters.first().copied());
        network.filter(|network| self.of.contains_key(network)).ok_or_else(no_network)
    }

    fn describe(&self, shared: &mut Shared, call: &Call<'_, impl Host>) -> Result<Response, Refusal> {
        let network = self.network_of(shared, call)?;
        let running = shared.fabric.required()?;
        let index = |id: InterfaceId| {
            let (network, place) = self.places.get(&id)?;
            call.host.interface_index(*network, *place)
        };
        let describe = |id: InterfaceId| {
            let pkey = self.interfaces.link_pkey(id)?;
            Some(IpoibInterface {
                name: self.names.get(&id)?.clone(),
                ifindex: index(id)?,
                device: running.topology().nodes.get(id.port.node as usize)?.adapter.clone(),
                port: id.port.port,
                pkey,
                parent: id.child.and_then(|_| index(id.port.into())),
                address: self.interfaces.link_address(running.fabric(), id)?.encode(),
                broadcast: LinkAddress { flags: 0, qpn: LinkAddress::GROUP_QPN, gid: broadcast_group(pkey, SCOPE) }
                    .encode(),
            })
        };
        let all = self.of.get(&network).into_iter().flat_map(|places| places.values());
        Ok(Response::IpoibInterfaces(all.filter_map(|id| describe(*id)).take(IPOIB_INTERFACES_MAX).collect()))
    }

    fn neighbours(
        &self,
        shared: &mut Shared,
        call: &Call<'_, impl Host>,
        ifindex: u32,
        after: Option<IpAddr>,
    ) -> Result<Response, Refusal> {
        let network = self.network_of(shared, call)?;
        let is_meant = |place: &usize| call.host.interface_index(network, *place) == Some(ifindex);
        let mut places = self.of.get(&network).into_iter().flatten();
        let (_, id) = places
            .find(|(place, _)| is_meant(place))
            .ok_or_else(|| refuse(ENODEV, format!("interface {ifindex} is not an IPoIB interface")))?;
        let all = self.interfaces.neighbours(shared.fabric.time(call.now), *id);
        let page = all.filter(|(ip, ..)| after.is_none_or(|after| *ip > after)).map(|(ip, address, state)| {
            let state = match state {
                NeighbourState::Reachable => IpoibNeighbourState::Reachable,
                NeighbourState::Stale => IpoibNeighbourState::Stale,
                NeighbourState::Probe => IpoibNeighbourState::Probe,
                NeighbourState::Incomplete => IpoibNeighbourState::Incomplete,
            };
            IpoibNeighbour { ip, address: address.map(|address| address.encode()), state }
        });
        Ok(Response::IpoibNeighbours(page.take(IPOIB_NEIGHBOURS_PER_MESSAGE_MAX).collect()))
    }

    /// Returns the interface that a child is made from, and the child.
    fn child(&self, network: u32, parent: &str, pkey: u16) -> Result<(InterfaceId, InterfaceId), Refusal> {
        let mut all = self.of.get(&network).into_iter().flat_map(|places| places.values());
        let named = all.find(|id| self.names.get(id).is_some_and(|name| name == parent));
        let parent =
            *named.ok_or_else(|| refuse(ENODEV, format!("{parent} is not an IPoIB interface of this host")))?;
        let child = InterfaceId::child_of(parent.port, pkey).filter(|_| parent.child.is_none());
        let child = child.ok_or_else(|| {
            refuse(
                EINVAL,
                format!("{pkey:#06x} is not a P_Key of a child: take 1 to 0x7fff, and the interface of the port"),
            )
        })?;
        Ok((parent, child))
    }

    fn add_child(
        &mut self,
        shared: &mut Shared,
        call: Call<'_, impl Host>,
        parent: &str,
        pkey: u16,
        name: Option<String>,
    ) -> Result<Response, Refusal> {
        let network = self.network_of(shared, &call)?;
        let (_, id) = self.child(network, parent, pkey)?;
        let time = shared.fabric.time(call.now);
        let fabric = shared.fabric.required()?.fabric_mut();
        if self.interfaces.contains(fabric, id) {
            return Err(refuse(ENOTUNIQ, format!("{parent}'s port has an interface with P_Key {pkey:#06x} already")));
        }
        let name = name.unwrap_or_else(|| format!("{parent}.{:04x}", id.child.unwrap_or(pkey)));
        if !valid_netdev_name(&name) || name.len() > NAME_BYTES_MAX {
            return Err(refuse(
                EINVAL,
                format!("{name:?} is not a name of an interface: at most {NAME_BYTES_MAX} bytes"),
            ));
        }
        let places = self.of.get(&network).ok_or_else(no_network)?;
        if places.values().any(|id| self.names.get(id) == Some(&name)) {
            return Err(refuse(EEXIST, format!("there is an interface {name} already")));
        }
        let place = (0..IPOIB_INTERFACES_MAX).find(|place| !places.contains_key(place));
        let place = place.ok_or_else(|| {
            refuse(ENOSPC, format!("a host has at most {IPOIB_INTERFACES_MAX} IPoIB interfaces: delete another one"))
        })?;
        let link_local = fabric.gid(id.port, 0).map(|gid| LinkAddress::link_local(&gid).into());
        let setup =
            InterfaceSetup { name: name.clone(), addresses: Vec::new(), link_local, mtu: MTU_FIRST, is_up: false };
        call.host.add_interface(network, place, &setup)?;
        self.adopt(network, place, id, name, BTreeSet::new());
        self.interfaces.add(time, fabric, id, weft_sys::random::u64());
        self.set_addresses(time, fabric, id);
        Ok(Response::Done)
    }

    fn delete_child(
        &mut self,
        shared: &mut Shared,
        call: Call<'_, impl Host>,
        parent: &str,
        pkey: u16,
    ) -> Result<Response, Refusal> {
        let network = self.network_of(shared, &call)?;
        let (_, id) = self.child(network, parent, pkey)?;
        let missing = || refuse(ENODEV, format!("{parent} has no child with P_Key {pkey:#06x}"));
        let (network, place) = self.places.remove(&id).ok_or_else(missing)?;
        let time = shared.fabric.time(call.now);
        self.interfaces.remove(time, shared.fabric.required()?.fabric_mut(), id);
        self.of.entry(network).or_default().remove(&place);
        self.names.remove(&id);
        self.addresses.remove(&id);
        call.host.remove_interface(network, place);
        Ok(Response::Done)
    }
}
