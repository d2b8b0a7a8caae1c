//! Identifiers: the public structure, and the library's private state of each.

use libc::{c_int, c_void};
use parking_lot::{Condvar, Mutex};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::Arc;
use weft_abi_types::{
    IBV_QPT_UD, ibv_ece, ibv_qp_init_attr, ibv_qp_type, rdma_addrinfo, rdma_cm_id, rdma_event_channel, rdma_port_space,
};
use weft_cm::rdma_cm::{Command, IdNumber, Reply, RouteInfo};

use crate::addrinfo::rdma_freeaddrinfo;
use crate::channel::{self, Channel};
use crate::daemon::Events;
use crate::device::{self, Device};
use crate::group::Group;
use crate::{address, paths};

/// An identifier: the public structure followed by our private part.
#[repr(C)]
pub(crate) struct Id {
    public: UnsafeCell<rdma_cm_id>,
    /// The daemon's number for it.
    pub(crate) number: IdNumber,
    /// The cookie in its events.
    pub(crate) cookie: u64,
    pub(crate) state: Mutex<State>,
    /// Notified when an event is acknowledged.
    pub(crate) acknowledged: Condvar,
}

/// The part of an identifier that its lock guards.
pub(crate) struct State {
    /// The daemon's end of the channel.
    pub(crate) events: Arc<Events>,
    pub(crate) device: Option<Arc<Device>>,
    /// Events reported to the program, and how many of those it acknowledged.
    pub(crate) events_reported: u32,
    pub(crate) events_completed: u32,
    /// The program gave no channel: calls wait for the event that completes them.
    pub(crate) sync: bool,
    /// The queue pair could not follow the peer's reply; later events of the peer are ignored.
    pub(crate) connect_error: bool,
    /// DEVICE_REMOVAL was reported after the daemon's end.
    pub(crate) orphaned: bool,
    /// The daemon and the registry have forgotten it.
    pub(crate) retired: bool,
    pub(crate) initiator_depth: u8,
    pub(crate) responder_resources: u8,
    pub(crate) local_ece: ibv_ece,
    pub(crate) remote_ece: ibv_ece,
    /// Private data from `rdma_getaddrinfo` that precedes the program's.
    pub(crate) connect: Vec<u8>,
    /// Attributes for the connections of a listening endpoint.
    pub(crate) qp_init_attr: Option<ibv_qp_init_attr>,
    /// Number of the queue pair that `rdma_create_qp` made; 0 for none. The program may have destroyed the structure that
    /// the public part points to.
    pub(crate) qp_num: u32,
    pub(crate) groups: Vec<Arc<Group>>,
    pub(crate) resolving_addrinfo: bool,
    pub(crate) resolved_addrinfo: *mut rdma_addrinfo,
}

/// No options.
pub(crate) const NO_ECE: ibv_ece = ibv_ece { vendor_id: 0, options: 0, comp_mask: 0 };

impl Id {
    /// Creates an identifier. `sync`: the channel is its own.
    pub(crate) fn new(
        number: IdNumber,
        cookie: u64,
        channel: Channel,
        sync: bool,
        context: *mut c_void,
        ps: rdma_port_space,
        qp_type: ibv_qp_type,
    ) -> Box<Id> {
        // SAFETY: the structure consists of pointers and numbers, for all of which zero is a value.
        let mut public: rdma_cm_id = unsafe { std::mem::zeroed() };
        public.channel = channel.public;
        public.context = context;
        public.ps = ps;
        public.qp_type = qp_type;
        let state = State {
            events: channel.events,
            device: None,
            events_reported: 0,
            events_completed: 0,
            sync,
            connect_error: false,
            orphaned: false,
            retired: false,
            initiator_depth: 0,
            responder_resources: 0,
            local_ece: NO_ECE,
            remote_ece: NO_ECE,
            connect: Vec::new(),
            qp_init_attr: None,
            qp_num: 0,
            groups: Vec::new(),
            resolving_addrinfo: false,
            resolved_addrinfo: null_mut(),
        };
        let public = UnsafeCell::new(public);
        Box::new(Id { public, number, cookie, state: Mutex::new(state), acknowledged: Condvar::new() })
    }

    /// Returns the identifier behind a public structure.
    pub(crate) unsafe fn of<'a>(id: *mut rdma_cm_id) -> &'a Id {
        // SAFETY: the caller passes an identifier of ours that is not destroyed yet.
        unsafe { &*id.cast::<Id>() }
    }

    /// As [`Id::of`], but null is EINVAL.
    pub(crate) unsafe fn of_argument<'a>(id: *mut rdma_cm_id) -> Result<&'a Id, c_int> {
        // SAFETY: as for [`Id::of`]; null is excluded.
        if id.is_null() { Err(libc::EINVAL) } else { Ok(unsafe { Id::of(id) }) }
    }

    /// Returns the public structure. Programs write to it too, so there is never a reference to it.
    pub(crate) fn public(&self) -> *mut rdma_cm_id {
        self.public.get()
    }

    /// Returns the channel of its events, with the daemon's end.
    pub(crate) fn open_channel(&self) -> Channel {
        let state = self.state.lock();
        Channel { public: self.channel(), events: state.events.clone() }
    }

    /// Returns the program's pointer to the channel of its events.
    pub(crate) fn channel(&self) -> *mut rdma_event_channel {
        // SAFETY: read under the identifier's lock wherever another thread may migrate it.
        unsafe { (*self.public()).channel }
    }

    /// Whether its queue pair type is UD.
    pub(crate) fn is_ud(&self) -> bool {
        // SAFETY: a plain read; the type is set once.
        unsafe { (*self.public()).qp_type == IBV_QPT_UD }
    }

    /// Sends the daemon a command and returns the reply.
    pub(crate) fn ask(&self, command: Command) -> Result<Reply, c_int> {
        let events = self.state.lock().events.clone();
        events.ask(command)
    }

    /// Sends the daemon a command whose reply carries no data.
    pub(crate) fn order(&self, command: Command) -> Result<(), c_int> {
        self.ask(command).map(|_| ())
    }

    /// Returns the daemon's current addresses and route.
    pub(crate) fn query(&self) -> Result<RouteInfo, c_int> {
        let events = self.state.lock().events.clone();
        events.query(self.number)
    }

    /// Returns the device, once it has one.
    pub(crate) fn device(&self) -> Result<Arc<Device>, c_int> {
        self.state.lock().device.clone().ok_or(libc::EINVAL)
    }

    /// Counts an event that the program acknowledged, or never received.
    pub(crate) fn complete_event(&self) {
        let mut state = self.state.lock();
        state.events_completed += 1;
        // Under the lock: the waiting thread may free the identifier once it has the lock.
        self.acknowledged.notify_all();
    }

    /// Counts an acknowledged event of a membership, and wakes the thread that leaves the group.
    pub(crate) fn complete_group_event(&self, group: &Group) {
        let _state = self.state.lock();
        group.count_acknowledgement();
        self.acknowledged.notify_all();
    }

    /// Shows the program the daemon's current addresses, and the device once there is one.
    pub(crate) fn show(&self, info: &RouteInfo) -> Result<(), c_int> {
        let id = self.public();
        // SAFETY: the structure is alive; the program does not touch its addresses during a call.
        unsafe {
            if let Some(src) = &info.src {
                address::write(&raw mut (*id).route.addr.src, src);
            }
            if let Some(dst) = &info.dst {
                address::write(&raw mut (*id).route.addr.dst, dst);
            }
            (*id).route.addr.ibaddr.sgid.raw = info.sgid;
            (*id).route.addr.ibaddr.dgid.raw = info.dgid;
        }
        let Some(found) = &info.device else { return Ok(()) };
        let mut state = self.state.lock();
        if state.device.is_some() {
            return Ok(());
        }
        let device = device::acquire(found)?;
        // SAFETY: as above.
        unsafe {
            (*id).verbs = device.verbs;
            (*id).pd = device.pd();
            (*id).port_num = found.port_num;
            (*id).route.addr.ibaddr.pkey = info.pkey.to_be();
        }
        state.device = Some(device);
        Ok(())
    }

    /// Queries the daemon for the addresses, and shows them.
    pub(crate) fn refresh(&self) -> Result<(), c_int> {
        self.show(&self.query()?)
    }

    /// Queries the daemon for the route, and shows its paths.
    pub(crate) fn show_paths(&self) -> Result<(), c_int> {
        self.put_paths(&self.query()?)
    }

    /// Queries the daemon for everything, and shows it.
    pub(crate) fn show_all(&self) -> Result<(), c_int> {
        let info = self.query()?;
        self.show(&info)?;
        self.put_paths(&info)
    }

    fn put_paths(&self, info: &RouteInfo) -> Result<(), c_int> {
        // SAFETY: our own identifier, which the program does not touch during a call.
        unsafe { paths::put(self.public(), &info.paths) }
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        let id = self.public.get_mut();
        let state = self.state.get_mut();
        if let Some(device) = state.device.take() {
            device.release();
        }
        // SAFETY: objects that the identifier owns; no code uses them after this.
        unsafe {
            paths::clear(id);
            if state.sync {
                channel::close(id.channel);
            }
            rdma_freeaddrinfo(state.resolved_addrinfo);
        }
    }
}
