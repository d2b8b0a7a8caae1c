//! Names in the specification of a failure: those of `verbs.h` and `errno.h`, with or without their prefixes.

use crate::{AsyncEvent, Errno, Op, WcStatus};

/// Statuses with which requests can fail.
const STATUSES: [(&str, WcStatus); 16] = [
    ("LOC_LEN_ERR", WcStatus::LocLenErr),
    ("LOC_QP_OP_ERR", WcStatus::LocQpOpErr),
    ("LOC_PROT_ERR", WcStatus::LocProtErr),
    ("WR_FLUSH_ERR", WcStatus::WrFlushErr),
    ("MW_BIND_ERR", WcStatus::MwBindErr),
    ("BAD_RESP_ERR", WcStatus::BadRespErr),
    ("LOC_ACCESS_ERR", WcStatus::LocAccessErr),
    ("REM_INV_REQ_ERR", WcStatus::RemInvReqErr),
    ("REM_ACCESS_ERR", WcStatus::RemAccessErr),
    ("REM_OP_ERR", WcStatus::RemOpErr),
    ("RETRY_EXC_ERR", WcStatus::RetryExcErr),
    ("RNR_RETRY_EXC_ERR", WcStatus::RnrRetryExcErr),
    ("REM_ABORT_ERR", WcStatus::RemAbortErr),
    ("FATAL_ERR", WcStatus::FatalErr),
    ("RESP_TIMEOUT_ERR", WcStatus::RespTimeoutErr),
    ("GENERAL_ERR", WcStatus::GeneralErr),
];

/// Events that report failures and changes.
const EVENTS: [(&str, AsyncEvent); 15] = [
    ("CQ_ERR", AsyncEvent::CqErr),
    ("QP_FATAL", AsyncEvent::QpFatal),
    ("QP_REQ_ERR", AsyncEvent::QpReqErr),
    ("QP_ACCESS_ERR", AsyncEvent::QpAccessErr),
    ("SRQ_ERR", AsyncEvent::SrqErr),
    ("PATH_MIG", AsyncEvent::PathMig),
    ("PATH_MIG_ERR", AsyncEvent::PathMigErr),
    ("DEVICE_FATAL", AsyncEvent::DeviceFatal),
    ("PORT_ACTIVE", AsyncEvent::PortActive),
    ("PORT_ERR", AsyncEvent::PortErr),
    ("LID_CHANGE", AsyncEvent::LidChange),
    ("PKEY_CHANGE", AsyncEvent::PkeyChange),
    ("SM_CHANGE", AsyncEvent::SmChange),
    ("CLIENT_REREGISTER", AsyncEvent::ClientReregister),
    ("GID_CHANGE", AsyncEvent::GidChange),
];

/// Errnos that verbs and the connection manager report, as Linux numbers them on every processor.
const ERRNOS: [(&str, Errno); 24] = [
    ("EPERM", 1),
    ("ENOENT", 2),
    ("EINTR", 4),
    ("EIO", 5),
    ("EAGAIN", 11),
    ("ENOMEM", 12),
    ("EACCES", 13),
    ("EFAULT", 14),
    ("EBUSY", 16),
    ("ENODEV", 19),
    ("EINVAL", 22),
    ("ENFILE", 23),
    ("EMFILE", 24),
    ("ENOSPC", 28),
    ("EPROTO", 71),
    ("EOPNOTSUPP", 95),
    ("EADDRINUSE", 98),
    ("EADDRNOTAVAIL", 99),
    ("ENETDOWN", 100),
    ("ENETUNREACH", 101),
    ("ENOBUFS", 105),
    ("ETIMEDOUT", 110),
    ("ECONNREFUSED", 111),
    ("EHOSTUNREACH", 113),
];

/// Those with which receives can fail.
const STATUSES_OF_RECEIVES: [WcStatus; 8] = [
    WcStatus::LocLenErr,
    WcStatus::LocQpOpErr,
    WcStatus::LocProtErr,
    WcStatus::WrFlushErr,
    WcStatus::LocAccessErr,
    WcStatus::RemInvReqErr,
    WcStatus::FatalErr,
    WcStatus::GeneralErr,
];

/// Checks that receives can fail with a status.
pub(super) fn status_of_receives(status: WcStatus) -> Result<(), String> {
    if STATUSES_OF_RECEIVES.contains(&status) {
        return Ok(());
    }
    let names = STATUSES_OF_RECEIVES.map(status_name).join(", ");
    Err(format!("no receive fails with {}: with only=recv there are {names}", status_name(status)))
}

fn find<T: Copy + PartialEq>(table: &[(&'static str, T)], name: &str, prefix: &str, noun: &str) -> Result<T, String> {
    let short = name.strip_prefix(prefix).unwrap_or(name);
    let found = table.iter().find(|(known, _)| *known == short);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
        format!("no such {noun}; there are {}", names.join(", "))
    })
}

fn name_of<T: PartialEq>(table: &[(&'static str, T)], value: &T) -> &'static str {
    table.iter().find(|(_, known)| known == value).map_or("?", |(name, _)| name)
}

/// Finds a completion status, `RETRY_EXC_ERR` or `IBV_WC_RETRY_EXC_ERR`.
pub(super) fn status(name: &str) -> Result<WcStatus, String> {
    find(&STATUSES, name, "IBV_WC_", "status of a failed request")
}

/// Finds an event, `PORT_ERR` or `IBV_EVENT_PORT_ERR`.
pub(super) fn event(name: &str) -> Result<AsyncEvent, String> {
    find(&EVENTS, name, "IBV_EVENT_", "event")
}

/// Finds an errno.
pub(super) fn errno(name: &str) -> Result<Errno, String> {
    find(&ERRNOS, name, "", "errno")
}

/// Returns the name of a status that can be injected.
pub fn status_name(status: WcStatus) -> &'static str {
    name_of(&STATUSES, &status)
}

/// Returns the name of an event that can be injected.
pub fn event_name(event: AsyncEvent) -> &'static str {
    name_of(&EVENTS, &event)
}

/// Returns the name of an errno that can be injected.
pub fn errno_name(errno: Errno) -> &'static str {
    name_of(&ERRNOS, &errno)
}

/// A call that can fail. Each stands for all its forms: [`Call::CreateQp`] for `ibv_create_qp_ex` and `rdma_create_qp`, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[allow(missing_docs)] // The names are those of verbs.h and rdma_cma.h.
pub enum Call {
    OpenDevice,
    AllocPd,
    RegMr,
    CreateCq,
    ResizeCq,
    ReqNotifyCq,
    CreateQp,
    ModifyQp,
    CreateSrq,
    AllocMw,
    OpenXrcd,
    AttachMcast,
    PostSend,
    PostRecv,
    PostSrqRecv,
    CmCreateId,
    CmBindAddr,
    CmResolveAddr,
    CmResolveRoute,
    CmConnect,
    CmListen,
    CmAccept,
    CmJoinMulticast,
}

/// The calls in the order of their numbers.
const CALLS: [(&str, Call); 23] = [
    ("ibv_open_device", Call::OpenDevice),
    ("ibv_alloc_pd", Call::AllocPd),
    ("ibv_reg_mr", Call::RegMr),
    ("ibv_create_cq", Call::CreateCq),
    ("ibv_resize_cq", Call::ResizeCq),
    ("ibv_req_notify_cq", Call::ReqNotifyCq),
    ("ibv_create_qp", Call::CreateQp),
    ("ibv_modify_qp", Call::ModifyQp),
    ("ibv_create_srq", Call::CreateSrq),
    ("ibv_alloc_mw", Call::AllocMw),
    ("ibv_open_xrcd", Call::OpenXrcd),
    ("ibv_attach_mcast", Call::AttachMcast),
    ("ibv_post_send", Call::PostSend),
    ("ibv_post_recv", Call::PostRecv),
    ("ibv_post_srq_recv", Call::PostSrqRecv),
    ("rdma_create_id", Call::CmCreateId),
    ("rdma_bind_addr", Call::CmBindAddr),
    ("rdma_resolve_addr", Call::CmResolveAddr),
    ("rdma_resolve_route", Call::CmResolveRoute),
    ("rdma_connect", Call::CmConnect),
    ("rdma_listen", Call::CmListen),
    ("rdma_accept", Call::CmAccept),
    ("rdma_join_multicast", Call::CmJoinMulticast),
];

impl Call {
    /// Returns the C function's name.
    pub fn name(self) -> &'static str {
        name_of(&CALLS, &self)
    }

    /// Returns the call of a number; one library of Weft tells another.
    pub fn from_number(number: u32) -> Option<Call> {
        CALLS.get(number as usize).map(|(_, call)| *call)
    }

    /// Whether it is a call of an existing queue pair.
    fn is_of_queue_pair(self) -> bool {
        matches!(self, Call::ModifyQp | Call::AttachMcast | Call::PostSend | Call::PostRecv)
    }
}

/// An event of the RDMA connection manager that reports a failure, with its number in `enum rdma_cm_event_type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[allow(missing_docs)] // The names are those of rdma_cma.h.
pub enum CmFailure {
    AddrError = 1,
    RouteError = 3,
    ConnectError = 6,
    Unreachable = 7,
    Rejected = 8,
}

const CM_FAILURES: [(&str, CmFailure); 5] = [
    ("ADDR_ERROR", CmFailure::AddrError),
    ("ROUTE_ERROR", CmFailure::RouteError),
    ("CONNECT_ERROR", CmFailure::ConnectError),
    ("UNREACHABLE", CmFailure::Unreachable),
    ("REJECTED", CmFailure::Rejected),
];

impl CmFailure {
    /// Finds an event, `REJECTED` or `RDMA_CM_EVENT_REJECTED`.
    pub(super) fn parse(name: &str) -> Result<CmFailure, String> {
        find(&CM_FAILURES, name, "RDMA_CM_EVENT_", "event of a failed connection")
    }

    /// Returns the event's name.
    pub fn name(self) -> &'static str {
        name_of(&CM_FAILURES, &self)
    }

    /// Returns the call whose work fails by this event.
    pub fn call(self) -> Call {
        match self {
            CmFailure::AddrError => Call::CmResolveAddr,
            CmFailure::RouteError => Call::CmResolveRoute,
            CmFailure::ConnectError | CmFailure::Unreachable | CmFailure::Rejected => Call::CmConnect,
        }
    }
}

/// A set of calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Calls(u32);

impl Calls {
    /// Parses names with a plus between them: `ibv_reg_mr+ibv_create_qp`.
    pub(super) fn parse(text: &str) -> Result<Calls, String> {
        text.split('+')
            .map(str::trim)
            .try_fold(Calls(0), |set, name| Ok(Calls(set.0 | 1 << find(&CALLS, name, "", "call that can fail")? as u8)))
    }

    /// Whether the set has a call.
    pub fn has(self, call: Call) -> bool {
        self.0 & 1 << call as u8 != 0
    }

    /// Whether each call is one of an existing queue pair.
    pub(super) fn are_of_queue_pairs(self) -> bool {
        CALLS.iter().all(|(_, call)| !self.has(*call) || call.is_of_queue_pair())
    }

    /// Whether the set has no call.
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// A set of kinds of requests; the empty one stands for all requests of send queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RequestKinds(u8);

/// Names of the kinds; a kind's bit is its place here.
const KINDS: [&str; 5] = ["send", "write", "read", "atomic", "recv"];
const RECEIVES: RequestKinds = RequestKinds(1 << 4);

impl RequestKinds {
    /// Parses names with a plus between them: `write+read`.
    pub(super) fn parse(text: &str) -> Result<RequestKinds, String> {
        text.split('+').map(str::trim).try_fold(RequestKinds(0), |set, name| {
            let place = KINDS.iter().position(|known| *known == name);
            let place = place.ok_or_else(|| format!("no kind of request; there are {}", KINDS.join(", ")))?;
            Ok(RequestKinds(set.0 | 1 << place))
        })
    }

    /// Whether the set has an operation. All but SENDs, WRITEs and READs count with the atomics.
    pub fn has(self, op: Op) -> bool {
        let place = match op {
            Op::Send => 0,
            Op::Write => 1,
            Op::Read => 2,
            _ => 3,
        };
        self.0 == 0 || self.0 & 1 << place != 0
    }

    /// Whether the set has receives.
    pub fn has_receives(self) -> bool {
        self.0 & RECEIVES.0 != 0
    }

    /// Whether the set was left empty.
    pub(super) fn is_all(self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_values_and_back() {
        for (name, value) in STATUSES {
            assert_eq!((status(name), status_name(value)), (Ok(value), name));
        }
        for (name, value) in EVENTS {
            assert_eq!((event(name), event_name(value)), (Ok(value), name));
        }
        for (name, value) in ERRNOS {
            assert_eq!((errno(name), errno_name(value)), (Ok(value), name));
        }
        for (name, value) in CM_FAILURES {
            assert_eq!((CmFailure::parse(name), value.name()), (Ok(value), name));
        }
        assert_eq!(Call::from_number(CALLS.len() as u32), None);
        assert_eq!(status("IBV_WC_GENERAL_ERR"), Ok(WcStatus::GeneralErr));
        assert_eq!(event("IBV_EVENT_QP_FATAL"), Ok(AsyncEvent::QpFatal));
        assert!(status("SUCCESS").unwrap_err().contains("RNR_RETRY_EXC_ERR"));
    }

    #[test]
    fn sets_have_their_members_alone() {
        for (number, (name, call)) in CALLS.iter().enumerate() {
            assert_eq!((number, call.name()), (*call as usize, *name));
            assert_eq!(Call::from_number(number as u32), Some(*call));
            let set = Calls::parse(name).unwrap();
            assert!(CALLS.iter().all(|(_, other)| set.has(*other) == (call == other)));
        }
        assert!(Calls::parse("ibv_reg_mr + ibv_post_send").unwrap().has(Call::PostSend));
        assert!(Calls::parse("ibv_poll_cq").unwrap_err().contains("ibv_create_qp"));
        let set = RequestKinds::parse("write+atomic").unwrap();
        assert!(set.has(Op::Write) && set.has(Op::Flush) && !set.has(Op::Send) && !set.has(Op::Read));
        assert!(RequestKinds::default().has(Op::Read) && RequestKinds::parse("receive").is_err());
        let both = RequestKinds::parse("recv+send").unwrap();
        assert!(both.has_receives() && both.has(Op::Send) && !both.has(Op::Read));
        assert!(!RequestKinds::parse("recv").unwrap().has(Op::Send) && !RequestKinds::default().has_receives());
    }
}
