//! Devices as the daemon describes them.

use weft_verbs::{DeviceAttr, DeviceId, Mtu};

use crate::counters::PortCounters;

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
    pub(crate) fn insert(&mut self, id: DeviceId, device: Device) {
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
