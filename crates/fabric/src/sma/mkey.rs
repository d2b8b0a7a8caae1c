//! M_Keys (IBA 14.2.4) protect a port's settings. A request with a wrong key starts the lease period, so that a manager
//! that lost the key is not locked out for ever; a right key stops the lease timer.

use super::ask::Ask;
use crate::Fabric;
use crate::port::Port;
use crate::topology::NodeKind;
use weft_verbs::{Duration, Instant};
use weft_wire::mad::subn::Smp;
use weft_wire::mad::{AttrId, Method};

impl Port {
    /// Removes the protection of the M_Key once its lease period is over.
    pub(crate) fn expire_mkey(&mut self, now: Instant) {
        if self.lease_end.is_some_and(|end| end <= now) {
            self.lease_end = None;
            self.info.mkey_protect_bits = 0;
        }
    }

    /// Returns whether an SMP with this key may do this.
    fn admits_mkey(&mut self, mkey: u64, method: Method, now: Instant) -> bool {
        self.expire_mkey(now);
        let info = &self.info;
        if info.mkey == 0 || info.mkey == mkey {
            self.lease_end = None;
            return true;
        }
        let guarded = match method {
            Method::GET => info.mkey_protect_bits >= 2,
            _ => true,
        };
        if guarded && self.lease_end.is_none() && info.mkey_lease_period != 0 {
            self.lease_end = Some(now + Duration::from_secs(info.mkey_lease_period.into()));
        }
        !guarded
    }
}

impl Fabric {
    /// Returns whether an SMP passes the M_Key check. A Set of another port's PortInfo needs both ports' keys.
    pub(super) fn admits_mkey(&mut self, ask: &Ask, smp: &Smp) -> bool {
        let now = self.now;
        let (mkey, method) = (smp.mkey(), smp.header.method());
        if !self.ports[ask.agent as usize].admits_mkey(mkey, method, now) {
            return false;
        }
        if ask.kind == NodeKind::Switch || smp.header.attr_id() != AttrId::PORT_INFO {
            return true;
        }
        match self.named_port(ask, ask.modifier as u8) {
            Ok(place) if place != ask.at => self.ports[place as usize].admits_mkey(mkey, method, now),
            _ => true,
        }
    }
}
