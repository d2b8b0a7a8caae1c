//! Failures of verbs and of the RDMA connection manager that a user asks for, whatever path the data takes: completion statuses,
//! errnos of calls, asynchronous events, and connections that fail. One specification reads like `status=RETRY_EXC_ERR,from=100,count=1`.

mod names;
mod spec;

pub use names::{Call, Calls, CmFailure, RequestKinds, errno_name, event_name, status_name};
pub use spec::InjectionError;

use crate::{AsyncEvent, Duration, Errno, WcStatus};

/// One kind of failure, and when it strikes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Injection {
    /// The failure.
    pub effect: Effect,
    /// When it strikes.
    pub scope: Scope,
    /// The specification as the user wrote it, for traces and lists.
    pub text: String,
}

/// A failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// A request of a send queue is not carried out, or a receive takes no message, and completes with this status.
    Status {
        /// The status.
        status: WcStatus,
        /// Kinds of requests.
        only: RequestKinds,
    },
    /// A call does nothing and fails.
    Errno {
        /// Its errno.
        errno: Errno,
        /// The calls.
        calls: Calls,
    },
    /// An asynchronous event is raised, and its subject fails as the event says.
    Event(AsyncEvent),
    /// The work of a call of the RDMA connection manager is not done, and fails by this event.
    Cm(CmFailure),
}

/// When a failure strikes. The default is always.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scope {
    /// Time from the request for the failure to its begin.
    pub after: Duration,
    /// Time from its begin to its end, and for events the length of the outage; zero is for ever.
    pub lasting: Duration,
    /// Number of the first request or call; the first of all is 1, and so is 0.
    pub from: u64,
    /// Number of strikes; zero is no limit for statuses and errnos, and one for events.
    pub count: u64,
    /// Requests or calls per million that are struck; zero is all.
    pub chance_ppm: u32,
    /// `from` and `count` number the requests of each queue pair by itself.
    pub per_qp: bool,
    /// Time between two events.
    pub every: Duration,
    /// Name of the only device concerned.
    pub device: Option<String>,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Injection {
    /// Whether it is an event whose moment a clock decides, and not the number of a work request.
    pub fn is_timed(&self) -> bool {
        matches!(self.effect, Effect::Event(_)) && self.scope.from == 0 && self.scope.chance_ppm == 0
    }

    /// Returns the time from its begin to its end; `None` is for ever. An event has no end: its `lasting` is the length of
    /// an outage.
    pub fn window(&self) -> Option<Duration> {
        let is_event = matches!(self.effect, Effect::Event(_));
        (!is_event && !self.scope.lasting.is_zero()).then_some(self.scope.lasting)
    }

    /// Returns the number of strikes after which it is used up; `None` for no limit.
    pub fn strikes_max(&self) -> Option<u64> {
        match (self.effect, self.scope.count) {
            (Effect::Event(_), 0) => Some(1),
            (_, 0) => None,
            (_, count) => Some(count),
        }
    }
}

/// Whether only the answers of a peer can give a request this status.
pub fn needs_acknowledgements(status: WcStatus) -> bool {
    matches!(
        status,
        WcStatus::BadRespErr
            | WcStatus::RemInvReqErr
            | WcStatus::RemAccessErr
            | WcStatus::RemOpErr
            | WcStatus::RetryExcErr
            | WcStatus::RnrRetryExcErr
            | WcStatus::RemAbortErr
            | WcStatus::RespTimeoutErr
    )
}
