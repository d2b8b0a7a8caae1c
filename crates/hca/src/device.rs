//! Changes of devices, and their effects on the objects on them.

use weft_verbs::{AsyncEvent, AsyncSubject, DeviceAttr, DeviceId, IbPortAttr, PortAttr, PortState, QpId, VerbsError};

use crate::context::HcaContext;
use crate::counters::PortCounters;
use crate::objects::Device;
use crate::{Hca, HostInterface};

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
        (AsyncEvent::ClientReregister, before.reregistrations != now.reregistrations),
    ];
    changed.into_iter().filter(|(_, changed)| *changed).map(|(event, _)| event).collect()
}

impl<H: HostInterface> Hca<H> {
    /// Records a new or changed device. A change of the port's state or of its GID table raises an event.
    pub fn set_device(&mut self, id: DeviceId, mut attr: DeviceAttr) {
        self.context.datagrams.forget();
        let injector = self.context.injector.as_mut();
        let stays_gone = injector.is_some_and(|injector| injector.outages.apply_to(id, &mut attr));
        let Some(device) = self.context.devices.get_mut(&id) else {
            let counters = PortCounters::default();
            self.context.devices.insert(id, Device { attr, gone: false, counters });
            return;
        };
        let before = std::mem::replace(&mut device.attr, attr);
        device.gone = stays_gone;
        let ports: Vec<PortAttr> = device.attr.ports.clone();
        for (number, (before, now)) in (1..).zip(before.ports.iter().zip(&ports)) {
            self.on_port_changed(id, number, before, now);
        }
    }

    /// Handles a changed port: queue pairs take its MTU, and events report the other changes to its owner.
    pub(crate) fn on_port_changed(&mut self, id: DeviceId, number: u8, before: &PortAttr, now: &PortAttr) {
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

    /// Removes a device: its queue pairs fail, and its owner gets an event. Injected outages do not bring it back.
    pub fn remove_device(&mut self, id: DeviceId) {
        if let Some(injector) = &mut self.context.injector {
            injector.outages.forget(id);
        }
        self.fail_device(id);
    }

    /// Marks a device as gone: its queue pairs fail, and its owner gets an event.
    pub(crate) fn fail_device(&mut self, id: DeviceId) {
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

    /// Returns a device's counters: those of its existing queue pairs and of destroyed ones.
    pub fn counters(&self, device: DeviceId) -> PortCounters {
        let Some(found) = self.context.devices.get(&device) else { return PortCounters::default() };
        let mut counters = found.counters;
        for (_, entry) in self.qps.iter().filter(|(_, entry)| entry.device == device) {
            counters.qps.add(&entry.qp.stats());
        }
        counters.derive_hw();
        counters
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
