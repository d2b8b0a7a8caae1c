//! Access to the engine: every other file reaches the adapter through here. Errors are returned as errno values.
//!
//! Objects remember the engine that they were created in. A forked child has its own engine, and must not look up the
//! parent's objects there.

use libc::c_int;
use std::sync::Arc;
pub(crate) use weft_engine::Adapter;
use weft_engine::{Awaited, ContextId, Engine, EventSink, Waited};
use weft_hca::MrKeys;
use weft_verbs::injection::{Call, CmFailure};
use weft_verbs::{
    Access, CqId, DeviceAttr, DeviceId, Gid, Instant, MrId, PdId, QpAttr, QpAttrMask, QpId, QpState, SendWr,
    VerbsError, Wc,
};

use crate::errors::of_verbs;
use crate::owned::Owned;

/// The engine of the process that made an object.
#[derive(Clone, Copy)]
pub(crate) struct Process(&'static Engine);

/// Posts to one send queue while the adapter is locked.
pub(crate) struct Poster<'a> {
    hca: &'a mut Adapter,
    now: Instant,
    qp: QpId,
}

impl Poster<'_> {
    /// Checks that a request could be posted after `ahead` others.
    pub(crate) fn would_post(&self, wr: &SendWr<'_>, ahead: usize) -> Result<(), VerbsError> {
        self.hca.would_post_send(self.qp, wr, ahead)
    }

    /// Posts one request.
    #[inline]
    pub(crate) fn post(&mut self, wr: &SendWr<'_>) -> Result<(), VerbsError> {
        self.hca.post_send(self.now, self.qp, wr)
    }
}

impl Process {
    /// Returns the engine of the calling process.
    pub(crate) fn this() -> Result<Process, c_int> {
        weft_engine::engine().map(Process).map_err(|e| e.errno())
    }

    /// Whether the calling process is a forked child of the engine's process.
    pub(crate) fn is_dead(self) -> bool {
        self.0.is_dead()
    }

    /// Refuses a call of the connection manager if an injected failure strikes it, or returns the event by which its work fails.
    pub(crate) fn may_connect(self, device: Option<DeviceId>, call: Call) -> Result<Option<CmFailure>, c_int> {
        match self.0.query(|hca, _| hca.may_connect(device, call)) {
            Err(VerbsError::Injected(errno)) => Err(errno),
            // Before the first device is open there are no failures.
            Err(_) => Ok(None),
            Ok(failure) => Ok(failure),
        }
    }

    /// Returns the available devices.
    pub(crate) fn devices(self) -> Result<Vec<(DeviceId, DeviceAttr)>, c_int> {
        let list = self.0.list_devices().map_err(|e| e.errno())?;
        Ok(list.into_iter().map(|device| (device.id, device.attr)).collect())
    }

    /// Returns a device's current attributes; ENODEV if it is gone.
    pub(crate) fn device(self, id: DeviceId) -> Result<DeviceAttr, c_int> {
        const GONE: VerbsError = VerbsError::NoDevice("the device has gone");
        self.0.query(|hca, _| hca.device(id).cloned().ok_or(GONE)).map_err(of_verbs)
    }

    /// Opens a device for a context, whose sink receives the events of the device's port and of the context's objects.
    pub(crate) fn open(self, device: DeviceId, sink: Arc<dyn EventSink>) -> Result<ContextId, c_int> {
        self.0.open(device, sink).map_err(|e| e.errno())
    }

    /// Destroys the remaining objects of a context, in their order, and closes it. Afterwards no event names it.
    pub(crate) fn close(self, id: ContextId, left: impl IntoIterator<Item = (Owned, u32)>) {
        for (object, count) in left {
            if let Owned::Qp(id) = object {
                self.flush(id);
                self.0.detach_all_mcast(id);
            }
            for _ in 0..count {
                // Objects that are busy or already gone are not our concern any more.
                let _: Result<(), c_int> = match object {
                    Owned::Qp(id) => self.control(|hca, _| hca.destroy_qp(id)),
                    Owned::Srq(id) => self.control(|hca, _| hca.destroy_srq(id)),
                    Owned::Mw(id) => self.control(|hca, _| hca.dealloc_mw(id)),
                    Owned::Mr(id) => self.dereg_mr(id),
                    Owned::Xrcd(id) => self.control(|hca, _| hca.close_xrcd(id)),
                    Owned::Cq(id) => self.control(|hca, _| hca.destroy_cq(id)),
                    Owned::Pd(id) => self.control(|hca, _| hca.dealloc_pd(id)),
                };
            }
        }
        self.0.close(id);
        self.quiesce();
    }

    /// Runs a closure with the adapter, and sends the resulting packets.
    pub(crate) fn control<T>(self, f: impl FnOnce(&mut Adapter, Instant) -> Result<T, VerbsError>) -> Result<T, c_int> {
        self.0.with(f).map_err(of_verbs)
    }

    /// Moves a queue pair from state to state, and sets its attributes; returns its state.
    pub(crate) fn modify_qp(self, id: QpId, attr: &QpAttr, mask: QpAttrMask) -> Result<QpState, c_int> {
        self.0.modify_qp(id, attr, mask).map_err(of_verbs)?;
        self.0.query(|hca, _| Ok(hca.query_qp(id)?.0.qp_state)).map_err(of_verbs)
    }

    /// Sends delayed packets: acknowledgements must not die with their queue pair.
    pub(crate) fn flush(self, qp: QpId) {
        self.0.flush(Some(qp));
    }

    /// Lets a queue pair answer its peer's retransmissions before it is destroyed, if packets were lost.
    pub(crate) fn time_wait(self, qp: QpId) {
        self.0.time_wait(qp);
    }

    /// Waits until no event in progress names an object that the adapter has just forgotten.
    pub(crate) fn quiesce(self) {
        self.0.quiesce_events();
    }

    /// Registers memory.
    pub(crate) fn reg_mr(self, pd: PdId, addr: u64, len: u64, iova: u64, access: Access) -> Result<MrKeys, c_int> {
        self.0.reg_mr(pd, addr, len, iova, access).map_err(of_verbs)
    }

    /// Deregisters memory.
    pub(crate) fn dereg_mr(self, id: MrId) -> Result<(), c_int> {
        self.0.dereg_mr(id).map_err(of_verbs)
    }

    /// Changes a region's domain, range (`addr`, `len`, `iova`) or access.
    pub(crate) fn rereg_mr(
        self,
        id: MrId,
        pd: Option<PdId>,
        range: Option<(u64, u64, u64)>,
        access: Option<Access>,
    ) -> Result<MrKeys, c_int> {
        self.0.rereg_mr(id, pd, range, access).map_err(of_verbs)
    }

    /// Posts a list of requests, and sends all packets that may go now. `f` runs a second time if the queue pair was not
    /// connected and is meanwhile; an injected failure counts that as one call.
    #[inline]
    pub(crate) fn post_sends(
        self,
        qp: QpId,
        mut f: impl FnMut(&mut Poster<'_>) -> Result<(), VerbsError>,
    ) -> Result<(), VerbsError> {
        let mut is_allowed = false;
        let mut post = |hca: &mut Adapter, now| {
            if !is_allowed {
                hca.may_call_for_qp(qp, Call::PostSend)?;
                is_allowed = true;
            }
            f(&mut Poster { hca, now, qp })
        };
        let posted = self.0.post(&mut post);
        if posted == Err(VerbsError::NOT_IN_RTS) && self.find_stream(qp) {
            return self.0.post(&mut post);
        }
        posted
    }

    /// Handles the daemon's messages that wait, if an iWARP queue pair awaits its stream; returns `false` if it still does.
    pub(crate) fn find_stream(self, qp: QpId) -> bool {
        self.0.find_stream(qp)
    }

    /// Posts receives.
    #[inline]
    pub(crate) fn post_recvs(self, f: impl FnOnce(&mut Adapter) -> Result<(), VerbsError>) -> Result<(), VerbsError> {
        self.0.post_recv(f)
    }

    /// Takes completions; if there are none, first processes received packets.
    #[inline]
    pub(crate) fn poll_cq(self, id: CqId, out: &mut [Wc]) -> Result<usize, VerbsError> {
        self.0.poll_cq(id, out)
    }

    /// Arms a completion queue.
    pub(crate) fn arm_cq(self, id: CqId, solicited_only: bool) -> Result<(), c_int> {
        self.0.arm_cq(id, solicited_only).map_err(of_verbs)
    }

    /// Waits for an event and serves the engine meanwhile; EINTR if a signal interrupts it, `false` if the thread
    /// cannot serve and must sleep on the descriptor.
    pub(crate) fn wait_for(self, awaited: Awaited<'_>, has_come: &dyn Fn() -> bool) -> Result<bool, c_int> {
        match self.0.wait_for(awaited, has_come) {
            Waited::Come => Ok(true),
            Waited::Interrupted => Err(libc::EINTR),
            Waited::Unable => Ok(false),
        }
    }

    /// Attaches a queue pair to a group.
    pub(crate) fn attach_mcast(self, id: QpId, group: Gid, lid: u16) -> Result<(), c_int> {
        self.0.attach_mcast(id, group, lid).map_err(of_verbs)
    }

    /// Detaches a queue pair from a group.
    pub(crate) fn detach_mcast(self, id: QpId, group: Gid, lid: u16) -> Result<(), c_int> {
        self.0.detach_mcast(id, group, lid).map_err(of_verbs)
    }
}

/// Returns the device's clock: nanoseconds of CLOCK_MONOTONIC, as in completions.
pub(crate) fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Returns the time of day, in nanoseconds since 1970, at which the device's clock showed `timestamp`.
pub(crate) fn wallclock_ns(timestamp: u64) -> u64 {
    let age = now_ns().saturating_sub(timestamp);
    clock_ns(libc::CLOCK_REALTIME).saturating_sub(age)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for the answer; both clocks exist everywhere.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
