//! A queue pair's attributes and counters, as its adapter reads and sets them.

use weft_verbs::{DeviceId, Duration, Mtu, QpAttr, QpId, QpInit, QpState, QpType, Qpn};

use crate::core::Passed;
use crate::stats::QpStats;

use super::{Qp, Service};

impl Qp {
    /// Returns its number.
    pub fn qpn(&self) -> Qpn {
        self.core.qpn
    }

    /// Returns its handle.
    pub fn id(&self) -> QpId {
        self.core.id
    }

    /// Returns its state.
    pub fn state(&self) -> QpState {
        self.core.state()
    }

    /// Returns its type.
    pub fn qp_type(&self) -> QpType {
        self.core.qp_type()
    }

    /// Returns the device it belongs to.
    pub fn device(&self) -> DeviceId {
        self.core.device
    }

    /// Returns the P_Key of its packets; 0 if its row of the port's table is empty.
    pub fn pkey(&self) -> u16 {
        self.core.pkey
    }

    /// Sets that P_Key, after a change of the queue pair's attributes or of the port's table.
    pub fn set_pkey(&mut self, pkey: u16) {
        self.core.pkey = pkey;
    }

    /// Returns its present attributes.
    pub fn query(&self) -> QpAttr {
        QpAttr { sq_draining: self.state() == QpState::Sqd && !self.drained(), ..self.core.attr }
    }

    /// Returns the parameters of its creation.
    pub fn init(&self) -> &QpInit {
        &self.core.init
    }

    /// Starts to count the traffic with the peer.
    pub fn count_passed(&mut self) {
        self.core.passed.get_or_insert_default();
    }

    /// Returns the traffic since the last call.
    pub fn take_passed(&mut self) -> Option<Passed> {
        let passed = self.core.passed.as_deref_mut()?;
        let told = std::mem::take(passed);
        (told != Passed::default()).then_some(told)
    }

    /// Returns how many packets it has sent, including datagrams that left without one.
    #[inline]
    pub fn packets_sent(&self) -> u64 {
        self.core.stats.tx_packets
    }

    /// Returns its counters.
    pub fn stats(&self) -> QpStats {
        self.core.stats
    }

    /// Returns the smoothed round trip of a reliable queue pair over a network; `None` before the first measurement, and
    /// for every other queue pair.
    pub fn round_trip(&self) -> Option<Duration> {
        match &self.service {
            Service::Rc(rc) => rc.round_trip(),
            _ => None,
        }
    }

    /// Sets the port's MTU, which limits datagrams: at creation, and when the port changes.
    pub fn set_port_mtu(&mut self, mtu: Mtu) {
        self.core.port_mtu = mtu;
    }
}
