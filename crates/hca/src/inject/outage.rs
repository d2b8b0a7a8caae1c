//! Outages that injected events began: ports that are down, and devices that are gone, until their end.

use weft_verbs::{DeviceAttr, DeviceId, Instant, PortState};

/// The subject of an outage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OutOfService {
    /// A port, by its number, and its state without the outage.
    Port(u8, PortState),
    /// The whole device.
    Device,
}

/// An outage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Outage {
    /// Number of the failure that caused it.
    pub(crate) number: u32,
    /// Its end; `None` is the removal of the failure.
    pub(crate) until: Option<Instant>,
    pub(crate) device: DeviceId,
    pub(crate) subject: OutOfService,
}

/// The outages of a process.
#[derive(Debug, Default)]
pub(crate) struct Outages {
    list: Vec<Outage>,
}

impl Outages {
    /// Adds an outage.
    pub(crate) fn begin(&mut self, outage: Outage) {
        self.list.push(outage);
    }

    /// Returns when the next one ends.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.list.iter().filter_map(|outage| outage.until).min()
    }

    /// Takes the first one that ends by `now`.
    pub(crate) fn take_ended(&mut self, now: Instant) -> Option<Outage> {
        let ends = self.list.iter().enumerate().filter_map(|(place, outage)| Some((outage.until?, place)));
        let (_, place) = ends.filter(|(until, _)| *until <= now).min()?;
        Some(self.list.remove(place))
    }

    /// Takes those of a failure.
    pub(crate) fn take_of(&mut self, number: u32) -> Vec<Outage> {
        self.list.extract_if(.., |outage| outage.number == number).collect()
    }

    /// Takes the one of a port.
    pub(crate) fn take_of_port(&mut self, device: DeviceId, port: u8) -> Option<Outage> {
        let is_its = |outage: &Outage| matches!(outage.subject, OutOfService::Port(number, _) if number == port);
        let place = self.list.iter().position(|outage| outage.device == device && is_its(outage))?;
        Some(self.list.remove(place))
    }

    /// Drops those of a device that is removed.
    pub(crate) fn forget(&mut self, device: DeviceId) {
        self.list.retain(|outage| outage.device != device);
    }

    /// Whether a port or its device is out of service.
    pub(crate) fn has(&self, device: DeviceId, port: u8) -> bool {
        self.list.iter().any(|outage| {
            let concerns = match outage.subject {
                OutOfService::Port(number, _) => number == port,
                OutOfService::Device => true,
            };
            outage.device == device && concerns
        })
    }

    /// Applies the outages to a device as the daemon describes it. Returns whether the device stays gone.
    pub(crate) fn apply_to(&mut self, device: DeviceId, attr: &mut DeviceAttr) -> bool {
        let mut is_gone = false;
        for outage in self.list.iter_mut().filter(|outage| outage.device == device) {
            match &mut outage.subject {
                OutOfService::Device => is_gone = true,
                OutOfService::Port(number, state) => {
                    let port = usize::from(*number).checked_sub(1).and_then(|place| attr.ports.get_mut(place));
                    if let Some(port) = port {
                        *state = std::mem::replace(&mut port.state, PortState::Down);
                    }
                }
            }
        }
        is_gone
    }
}
