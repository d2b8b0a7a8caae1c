//! Devices as the daemon describes them, and the effects of their changes on the objects on them.

use weft_verbs::{
    AsyncEvent, AsyncSubject, DeviceAttr, DeviceId, IbPortAttr, Mtu, PortAttr, PortState, QpId, VerbsError,
};

use crate::context::HcaContext;
use crate::counters::PortCounters;
use crate::{Hca, HostInterface};

/// A device.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) attr: DeviceAttr,
    /// The device was removed: its objects can only be destroyed.
    pub(crate) gone: bool,
    pub(crate) counters: PortCounters,
}

impl Device {
    /// Returns the MTU of a port.
    pub(crate) fn mtu(&self, port: u8) -> Mtu {
        self.attr.port(port).map_or(Mtu::Mtu256, |port| port.active_mtu)
    }
}

/// Devices in the order of their ids. They are few, and each completion looks one up.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    list: Vec<(DeviceId, Device)>,
}

impl Devices {
    #[inline]
    fn place(&self, id: DeviceId) -> Result<usize, usize> {
        self.list.binary_search_by_key(&id, |(id, _)| *id)
    }

    #[inline]
    pub(crate) fn get(&self, id: &DeviceId) -> Option<&Device> {
        self.place(*id).ok().and_then(|at| self.list.get(at)).map(|(_, device)| device)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: &DeviceId) -> Option<&mut Device> {
        self.place(*id).ok().and_then(|at| self.list.get_mut(at)).map(|(_, device)| device)
    }

    /// Inserts a new device.
    fn insert(&mut self, id: DeviceId, device: Device) {
        if let Err(at) = self.place(id) {
            self.list.insert(at, (id, device));
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (DeviceId, &Device)> {
        self.list.iter().map(|(id, device)| (*id, device))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Device> {
        self.list.iter().map(|(_, device)| device)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Device> {
        self.list.iter_mut().map(|(_, device)| device)
    }
}

impl<H: HostInterface> HcaContext<H> {
    /// Finds a device that has not been removed.
    pub(crate) fn present(&self, id: DeviceId) -> Result<&Device, VerbsError> {
        self.devices
            .get(&id)
            .filter(|device| !device.gone)
            .ok_or(VerbsError::NoDevice("the device does not exist or has gone"))
    }
}

/// Returns the events for changes made by subnet management.
fn fabric_changes(before: Option<&IbPortAttr>, now: Option<&IbPortAttr>) -> Vec<AsyncEvent> {
    let (Some(before), Some(now)) = (before, now) else { return Vec::new() };
    let changed = [
        (AsyncEvent::LidChange, (before.lid, before.lmc) != (now.lid, now.lmc)),
        (AsyncEvent::SmChange, (before.sm_lid, before.sm_sl) != (now.sm_lid, now.sm_sl)),
        (AsyncEvent::PkeyChange, before.pkeys != now.pkeys),
    ];
    changed.into_iter().filter(|(_, changed)| *changed).map(|(event, _)| event).collect()
}

impl<H: HostInterface> Hca<H> {
    /// Records a new or changed device. A change of the port's state or of its GID table raises an event.
    pub fn set_device(&mut self, id: DeviceId, attr: DeviceAttr) {
        self.context.datagrams.forget();
        let Some(device) = self.context.devices.get_mut(&id) else {
            let counters = PortCounters::default();
            self.context.devices.insert(id, Device { attr, gone: false, counters });
            return;
        };
        let before = std::mem::replace(&mut device.attr, attr);
        device.gone = false;
        let ports: Vec<PortAttr> = device.attr.ports.clone();
        for (number, (before, now)) in (1..).zip(before.ports.iter().zip(&ports)) {
            self.on_port_changed(id, number, before, now);
        }
    }

    /// Handles a changed port: queue pairs take its MTU, and events report the other changes to its owner.
    fn on_port_changed(&mut self, id: DeviceId, number: u8, before: &PortAttr, now: &PortAttr) {
        if before.active_mtu != now.active_mtu {
            for (_, entry) in self.qps.iter_mut().filter(|(_, entry)| entry.device == id) {
                if entry.qp.query().port_num.max(1) == number {
                    entry.qp.set_port_mtu(now.active_mtu);
                }
            }
        }
        let keys = |port: &PortAttr| port.infiniband.as_ref().map(|port| port.pkeys.clone());
        if keys(before) != keys(now) {
            self.resolve_pkeys(id);
        }
        let went_down = before.state == PortState::Active && now.state == PortState::Down;
        if let Some(device) = self.context.devices.get_mut(&id).filter(|_| went_down) {
            device.counters.link_downed += 1;
        }
        let mut events = Vec::new();
        if before.gids != now.gids {
            events.push(AsyncEvent::GidChange);
        }
        events.extend(fabric_changes(before.infiniband.as_deref(), now.infiniband.as_deref()));
        if before.state != now.state {
            events.push(match now.state {
                PortState::Active => AsyncEvent::PortActive,
                PortState::Down => AsyncEvent::PortErr,
            });
        }
        for event in events {
            self.context.raise(id, event, AsyncSubject::Port(number), 0);
        }
    }

    /// Removes a device: its queue pairs fail, and its owner gets an event.
    pub fn remove_device(&mut self, id: DeviceId) {
        self.context.datagrams.forget();
        let Some(device) = self.context.devices.get_mut(&id) else { return };
        if std::mem::replace(&mut device.gone, true) {
            return;
        }
        let on_it: Vec<QpId> = self.qps.iter().filter(|(_, entry)| entry.device == id).map(|(qp, _)| qp).collect();
        for qp in on_it {
            self.fail_qp(qp);
        }
        self.context.raise(id, AsyncEvent::DeviceFatal, AsyncSubject::Device, 0);
    }

    /// Returns a device's attributes.
    pub fn device(&self, id: DeviceId) -> Option<&DeviceAttr> {
        self.context.devices.get(&id).filter(|device| !device.gone).map(|device| &device.attr)
    }

    /// Returns all devices except removed ones.
    pub fn devices(&self) -> impl Iterator<Item = (DeviceId, &DeviceAttr)> {
        self.context.devices.iter().filter(|(_, d)| !d.gone).map(|(id, d)| (id, &d.attr))
    }
}
