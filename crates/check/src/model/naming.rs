//! Names of objects in reports, and the objects that use another.

use super::ids::{Handle, StackId};
use super::objects::Kind;
use super::state::Model;

impl Model {
    /// The object's name.
    pub fn name(&self, kind: Kind, handle: Handle) -> String {
        let known = match kind {
            Kind::Qp => self
                .qps
                .get(&handle)
                .map(|qp| format!("qp {:#08x} ({}, {})", qp.number, qp.kind.as_str(), self.device_of(qp.context))),
            Kind::Mr => self.mrs.get(&handle).map(|mr| {
                let place = mr.address.map_or("device memory".to_owned(), |address| format!("at {address:#x}"));
                format!("mr lkey {:#x} ({} bytes {place}, {})", mr.lkey, mr.length, self.device_of(mr.context))
            }),
            Kind::Cq => self
                .cqs
                .get(&handle)
                .map(|cq| format!("cq #{} ({} entries, {})", cq.serial, cq.capacity, self.device_of(cq.context))),
            Kind::Srq => self
                .srqs
                .get(&handle)
                .map(|srq| format!("srq #{} ({} receives, {})", srq.serial, srq.wr_max, self.device_of(srq.context))),
            Kind::Pd => self.pds.get(&handle).map(|pd| format!("pd #{} ({})", pd.serial, self.device_of(pd.context))),
            Kind::Mw => self.mws.get(&handle).map(|mw| format!("mw #{} ({})", mw.serial, self.device_of(mw.context))),
            Kind::Ah => self.ahs.get(&handle).map(|ah| format!("ah #{} ({})", ah.serial, self.device_of(ah.context))),
            Kind::Channel => self
                .channels
                .get(&handle)
                .map(|channel| format!("channel #{} ({})", channel.serial, self.device_of(channel.context))),
            Kind::Context => self.contexts.get(&handle).map(|context| format!("device {}", context.device)),
        };
        known.unwrap_or_else(|| format!("{} at {handle:#x}", kind.as_str()))
    }

    pub(super) fn qp_name(&self, handle: Handle) -> String {
        self.name(Kind::Qp, handle)
    }

    /// Objects that use this one.
    fn user_handles(&self, kind: Kind, handle: Handle) -> Vec<(Kind, Handle, StackId)> {
        let mut users = Vec::new();
        macro_rules! users_in {
            ($field:ident, $kind:ident, |$object:ident| $uses:expr) => {
                users.extend(self.$field.iter().filter(|(_, $object)| $uses).map(|(h, o)| (Kind::$kind, *h, o.created)))
            };
        }
        match kind {
            Kind::Pd => {
                users_in!(qps, Qp, |o| o.pd == handle);
                users_in!(srqs, Srq, |o| o.pd == handle);
                users_in!(mrs, Mr, |o| o.pd == handle);
                users_in!(mws, Mw, |o| o.pd == handle);
                users_in!(ahs, Ah, |o| o.pd == handle);
                users_in!(pds, Pd, |o| o.parent == Some(handle));
            }
            Kind::Cq => users_in!(qps, Qp, |o| o.send_cq == Some(handle) || o.receive_cq == Some(handle)),
            Kind::Srq => users_in!(qps, Qp, |o| o.srq == Some(handle)),
            Kind::Channel => users_in!(cqs, Cq, |o| o.channel == Some(handle)),
            Kind::Context => {
                users_in!(pds, Pd, |o| o.context == handle);
                users_in!(cqs, Cq, |o| o.context == handle);
            }
            Kind::Ah | Kind::Qp | Kind::Mw | Kind::Mr => {}
        }
        users.sort();
        users
    }

    pub(super) fn users(&self, kind: Kind, handle: Handle) -> Vec<String> {
        self.user_handles(kind, handle).into_iter().map(|(kind, handle, _)| self.name(kind, handle)).collect()
    }

    /// The places that created the users, for a report's history.
    pub(super) fn users_created(&self, kind: Kind, handle: Handle) -> Vec<(String, StackId)> {
        let users = self.user_handles(kind, handle).into_iter();
        users.map(|(kind, handle, stack)| (format!("created {}", self.name(kind, handle)), stack)).collect()
    }

    /// The protection domain that keys are compared in: a parent domain stands for another.
    pub(super) fn base_pd(&self, pd: Handle) -> Handle {
        let mut base = pd;
        // Parent domains have no parent domains; the bound keeps damaged input from looping.
        for _ in 0..4 {
            match self.pds.get(&base).and_then(|pd| pd.parent) {
                Some(parent) => base = parent,
                None => break,
            }
        }
        base
    }
}
