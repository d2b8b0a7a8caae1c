//! Creation and destruction of objects, and objects that nothing destroyed.

use super::ids::{CURRENT_STACK, Handle, Site, StackId};
use super::limits::{LEAKS_MAX, OBJECTS_MAX, TOMBSTONES_MAX};
use super::objects::{Ah, Channel, Context, Cq, Kind, Mr, Mw, Pd, Qp, QpKind, Srq};
use super::state::Model;
use super::tombstone::Tombstone;
use crate::rules;

/// An object that a call is destroying. It is out of the model, because another thread may create one at its address as soon
/// as the library has freed it.
#[derive(Debug)]
pub enum Removed {
    /// Address handle.
    Ah(Ah),
    /// Queue pair.
    Qp(Box<Qp>),
    /// Shared receive queue.
    Srq(Box<Srq>),
    /// Completion queue.
    Cq(Cq),
    /// Completion channel.
    Channel(Channel),
    /// Memory window.
    Mw(Mw),
    /// Memory region.
    Mr(Mr),
    /// Protection domain.
    Pd(Pd),
    /// Open device.
    Context(Context),
}

/// Defines the calls that add objects with a place of creation and a number.
macro_rules! adders {
    ($($(#[$doc:meta])* $name:ident($field:ident: $type:ty, $kind:ident);)*) => {$(
        $(#[$doc])*
        pub fn $name(&mut self, handle: Handle, mut object: $type, site: Site) {
            object.created = site.stack;
            object.serial = self.admit(Kind::$kind, handle);
            self.insert_limited(|model| model.$field.len(), |model| { model.$field.insert(handle, object); });
        }
    )*};
}

impl Model {
    adders! {
        /// A protection domain was allocated.
        add_pd(pds: Pd, Pd);
        /// A memory window was allocated.
        add_mw(mws: Mw, Mw);
        /// A completion channel was created.
        add_channel(channels: Channel, Channel);
        /// A completion queue was created.
        add_cq(cqs: Cq, Cq);
        /// A shared receive queue was created.
        add_srq(srqs: Srq, Srq);
        /// An address handle was created.
        add_ah(ahs: Ah, Ah);
    }

    /// A device was opened.
    pub fn add_context(&mut self, handle: Handle, mut context: Context, site: Site) {
        context.created = site.stack;
        self.admit(Kind::Context, handle);
        self.insert_limited(
            |model| model.contexts.len(),
            |model| {
                model.contexts.insert(handle, context);
            },
        );
    }

    /// A queue pair was created or opened.
    pub fn add_qp(&mut self, handle: Handle, mut qp: Qp, site: Site) {
        qp.created = site.stack;
        self.admit(Kind::Qp, handle);
        if self.completes_unseen(qp.receive_cq)
            && let Some(srq) = qp.srq.and_then(|srq| self.srqs.get_mut(&srq))
        {
            srq.is_untracked = true;
        }
        self.insert_limited(
            |model| model.qps.len(),
            |model| {
                model.qp_numbers.insert((qp.context, qp.number), handle);
                model.qps.insert(handle, qp);
            },
        );
    }

    /// Clears what was at the address before, and returns a number for the object's name.
    pub(super) fn admit(&mut self, kind: Kind, handle: Handle) -> u32 {
        self.tombstones.remove(&(kind, handle));
        self.destroying.remove(&(kind, handle));
        self.unowned.remove(&(kind, handle));
        self.serial += 1;
        self.serial
    }

    pub(super) fn insert_limited(&mut self, count: impl Fn(&Model) -> usize, insert: impl FnOnce(&mut Model)) {
        if count(self) < OBJECTS_MAX { insert(self) } else { self.counters.untracked += 1 }
    }

    /// A library made the object for itself: it may keep it until the process ends, and try to destroy it while it shares it.
    pub fn set_unowned(&mut self, kind: Kind, handle: Handle) {
        if self.unowned.len() < OBJECTS_MAX {
            self.unowned.insert((kind, handle));
        }
    }

    /// The program destroys an address handle. Reports outstanding requests that go there.
    pub fn check_ah_unused(&mut self, handle: Handle, site: Site) {
        // Libraries with a reliable protocol on datagrams learn from the peer that a datagram was sent.
        if self.ahs.get(&handle).is_none_or(|ah| ah.is_cached) {
            return;
        }
        let users = self.qps.iter().filter(|(_, qp)| qp.kind == QpKind::Ud && qp.is_active());
        let found = users.filter_map(|(user, qp)| {
            let request = qp.sends.iter().find(|request| request.ah == handle)?;
            Some((qp.number, *user, request))
        });
        let Some((_, user, request)) = found.min_by_key(|(number, ..)| *number) else { return };
        let history = vec![(request.description(), request.stack)];
        let message =
            format!("the program destroys the address handle while {} has a request for it", self.qp_name(user));
        self.find_with(&rules::AH_IN_USE, site, self.name(Kind::Ah, handle), message, history);
    }

    /// A call destroys the object. Reports destroyed objects, and events that make the call block.
    pub fn begin_destroy(&mut self, kind: Kind, handle: Handle, site: Site) -> Option<Removed> {
        self.check_events_acknowledged(kind, handle, site);
        let name = self.name(kind, handle);
        let (removed, created) = self.remove(kind, handle, site);
        match &removed {
            Some(_) => {
                self.destroying.insert((kind, handle));
                self.bury(kind, handle, Tombstone { name, created, destroyed: site.stack });
            }
            None => self.check_not_destroyed(kind, handle, site, true),
        }
        removed
    }

    fn remove(&mut self, kind: Kind, handle: Handle, site: Site) -> (Option<Removed>, StackId) {
        macro_rules! take {
            ($field:ident, $wrap:expr) => {
                match self.$field.remove(&handle) {
                    Some(object) => {
                        let created = object.created;
                        (Some($wrap(object)), created)
                    }
                    None => (None, CURRENT_STACK),
                }
            };
        }
        match kind {
            Kind::Ah => take!(ahs, Removed::Ah),
            Kind::Qp => {
                self.release_queues(handle);
                take!(qps, |qp| Removed::Qp(Box::new(qp)))
            }
            Kind::Srq => take!(srqs, |srq| Removed::Srq(Box::new(srq))),
            Kind::Cq => take!(cqs, Removed::Cq),
            Kind::Channel => take!(channels, Removed::Channel),
            Kind::Mw => take!(mws, Removed::Mw),
            Kind::Mr => {
                self.retire_key(handle, site);
                take!(mrs, Removed::Mr)
            }
            Kind::Pd => take!(pds, Removed::Pd),
            Kind::Context => take!(contexts, Removed::Context),
        }
    }

    /// The requests of a queue pair that goes away take no more room in completion queues.
    fn release_queues(&mut self, handle: Handle) {
        if let Some(qp) = self.qps.get(&handle) {
            let key = (qp.context, qp.number);
            if self.qp_numbers.get(&key) == Some(&handle) {
                self.qp_numbers.remove(&key);
            }
        }
        self.drop_requests(handle);
    }

    /// The call succeeded.
    pub fn destroyed(&mut self, kind: Kind, handle: Handle) {
        self.destroying.remove(&(kind, handle));
    }

    /// The call failed with this error: the object is still there.
    pub fn destroy_failed(&mut self, handle: Handle, removed: Removed, is_busy: bool, site: Site) {
        let kind = match removed {
            Removed::Ah(object) => self.ahs.insert(handle, object).map_or(Kind::Ah, |_| Kind::Ah),
            Removed::Qp(object) => {
                self.qp_numbers.insert((object.context, object.number), handle);
                self.qps.insert(handle, *object);
                Kind::Qp
            }
            Removed::Srq(object) => self.srqs.insert(handle, *object).map_or(Kind::Srq, |_| Kind::Srq),
            Removed::Cq(object) => self.cqs.insert(handle, object).map_or(Kind::Cq, |_| Kind::Cq),
            Removed::Channel(object) => self.channels.insert(handle, object).map_or(Kind::Channel, |_| Kind::Channel),
            Removed::Mw(object) => self.mws.insert(handle, object).map_or(Kind::Mw, |_| Kind::Mw),
            Removed::Mr(object) => {
                self.enter_key(handle, &object);
                self.mrs.insert(handle, object);
                Kind::Mr
            }
            Removed::Pd(object) => self.pds.insert(handle, object).map_or(Kind::Pd, |_| Kind::Pd),
            Removed::Context(object) => self.contexts.insert(handle, object).map_or(Kind::Context, |_| Kind::Context),
        };
        self.tombstones.remove(&(kind, handle));
        self.destroying.remove(&(kind, handle));
        if is_busy && !self.unowned.contains(&(kind, handle)) {
            let name = self.name(kind, handle);
            let users = self.users(kind, handle);
            let verb = if users.len() > 1 { "use" } else { "uses" };
            let message = format!("the program destroys {} that {} still {verb}", kind.with_article(), list(&users));
            let history = self.users_created(kind, handle);
            self.find_with(&rules::DESTROY_BUSY, site, name, message, history);
        }
    }

    fn bury(&mut self, kind: Kind, handle: Handle, tombstone: Tombstone) {
        // Direct verbs create objects unseen, perhaps at this address.
        if self.contexts.values().any(|context| !context.is_complete) {
            return;
        }
        if self.tombstone_order.len() == TOMBSTONES_MAX
            && let Some(oldest) = self.tombstone_order.pop_front()
        {
            self.tombstones.remove(&oldest);
        }
        self.tombstone_order.push_back((kind, handle));
        self.tombstones.insert((kind, handle), tombstone);
    }

    /// Reports a call on a destroyed object.
    pub fn check_alive(&mut self, kind: Kind, handle: Handle, site: Site) {
        self.check_not_destroyed(kind, handle, site, false);
    }

    fn check_not_destroyed(&mut self, kind: Kind, handle: Handle, site: Site, destroys: bool) {
        let Some(tombstone) = self.tombstones.get(&(kind, handle)).cloned() else { return };
        let rule = if destroys { &rules::DESTROYED_TWICE } else { &rules::USE_AFTER_DESTROY };
        let verb = if destroys { "destroys" } else { "uses" };
        let message = format!("the program {verb} {} that is already destroyed", kind.with_article());
        let history = vec![("created".to_owned(), tombstone.created), ("destroyed".to_owned(), tombstone.destroyed)];
        self.find_with(rule, site, tombstone.name, message, history);
    }

    /// Reports the objects that are left when the process ends, users before what they use.
    pub fn check_leaks(&mut self, site: Site) {
        let all = self.living();
        for kind in
            [Kind::Ah, Kind::Qp, Kind::Srq, Kind::Cq, Kind::Channel, Kind::Mw, Kind::Mr, Kind::Pd, Kind::Context]
        {
            let mut of_kind: Vec<_> = all.iter().filter(|leak| leak.kind == kind).collect();
            of_kind.sort_by_key(|leak| (leak.serial, leak.handle));
            for leak in of_kind.iter().take(LEAKS_MAX) {
                let more = of_kind.len().saturating_sub(LEAKS_MAX);
                let is_last_shown = more > 0 && std::ptr::eq(*leak, of_kind[LEAKS_MAX - 1]);
                let others = if is_last_shown { format!(", nor {more} more") } else { String::new() };
                let message = format!("the program ends and has not destroyed this {}{others}", kind.as_str());
                let history = vec![("created".to_owned(), leak.created)];
                let leak_site = Site { call: site.call, stack: leak.created };
                self.find_with(&rules::OBJECT_LEAKED, leak_site, self.name(kind, leak.handle), message, history);
            }
        }
    }

    fn living(&self) -> Vec<Leak> {
        let mut leaks = Vec::new();
        macro_rules! collect {
            ($field:ident, $kind:ident, $serial:expr) => {
                leaks.extend(self.$field.iter().map(|(handle, object)| Leak {
                    kind: Kind::$kind,
                    handle: *handle,
                    serial: $serial(object),
                    created: object.created,
                }));
            };
        }
        collect!(ahs, Ah, |o: &Ah| o.serial);
        collect!(qps, Qp, |o: &Qp| o.number);
        collect!(srqs, Srq, |o: &Srq| o.serial);
        collect!(cqs, Cq, |o: &Cq| o.serial);
        collect!(channels, Channel, |o: &Channel| o.serial);
        collect!(mws, Mw, |o: &Mw| o.serial);
        collect!(mrs, Mr, |o: &Mr| o.lkey);
        collect!(pds, Pd, |o: &Pd| o.serial);
        collect!(contexts, Context, |_: &Context| 0);
        leaks.retain(|leak| !self.unowned.contains(&(leak.kind, leak.handle)));
        leaks
    }
}

/// An object that is left at the end.
struct Leak {
    kind: Kind,
    handle: Handle,
    serial: u32,
    created: StackId,
}

fn list(users: &[String]) -> String {
    match users {
        [] => "another object".to_owned(),
        [one] => one.clone(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    }
}
