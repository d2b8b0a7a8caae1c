//! Parser of specifications: `errno=ENOMEM,call=ibv_reg_mr,from=3,count=1`.

use std::fmt;

use super::names::{self, Calls, CmFailure, RequestKinds};
use super::{Effect, Injection, Scope};
use crate::units::{share_ppm, time};
use crate::{AsyncEvent, Duration, Errno, WcStatus};

/// The latest begin and the longest duration.
const TIME_MAX: Duration = Duration::from_secs(86_400);
/// The shortest time between two events: a program must have time to fetch them.
const EVERY_MIN: Duration = Duration::from_millis(1);
/// Longest name of a device, as in the kernel.
const DEVICE_NAME_MAX: usize = 63;

/// The reason why a specification is invalid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InjectionError(String);

impl fmt::Display for InjectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}; an injected failure reads like status=RETRY_EXC_ERR,from=100,count=1 or errno=ENOMEM,call=ibv_reg_mr or \
             event=PORT_ERR,after=2s,for=300ms or cm=REJECTED,count=2",
            self.0
        )
    }
}

impl std::error::Error for InjectionError {}

/// The parts as they are written.
#[derive(Default)]
struct Parts {
    status: Option<WcStatus>,
    errno: Option<Errno>,
    event: Option<AsyncEvent>,
    cm: Option<CmFailure>,
    calls: Calls,
    only: RequestKinds,
    scope: Scope,
}

impl Injection {
    /// Whether a specification is one of injected failures, and not of faults in packets: it names a failure, or only limits,
    /// one of them a limit of failures alone.
    pub fn is_meant_by(text: &str) -> bool {
        let keys = || text.split(',').map(|part| part.split('=').next().unwrap_or_default().trim());
        let of_failures = |key: &str| matches!(key, "chance" | "per" | "every" | "device");
        let of_both = |key: &str| matches!(key, "after" | "for" | "from" | "count" | "only" | "seed");
        let names_failure = keys().any(|key| matches!(key, "status" | "errno" | "event" | "cm" | "call"));
        names_failure || keys().any(of_failures) && keys().all(|key| of_failures(key) || of_both(key))
    }

    /// Parses a specification.
    ///
    /// # Errors
    /// The first part that does not parse, and the reason.
    pub fn parse(text: &str) -> Result<Injection, InjectionError> {
        let (mut parts, mut keys) = (Parts::default(), Vec::new());
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| InjectionError(format!("\"{part}\" has no value: write {part}=...")))?;
            let (key, value) = (key.trim(), value.trim());
            if keys.contains(&key) {
                return Err(InjectionError(format!("{key}={value}: {key} stands there twice")));
            }
            keys.push(key);
            parts.set(key, value).map_err(|why| InjectionError(format!("{key}={value}: {why}")))?;
        }
        let effect = parts.effect().map_err(InjectionError)?;
        if keys.contains(&"seed") && parts.scope.chance_ppm == 0 {
            return Err(InjectionError("seed=NUMBER belongs to chance=SHARE: nothing else is random".to_owned()));
        }
        let injection = Injection { effect, scope: parts.scope, text: text.trim().to_owned() };
        injection.makes_sense().map_err(|why| InjectionError(why.to_owned()))?;
        Ok(injection)
    }

    /// Refuses keys that would do nothing.
    fn makes_sense(&self) -> Result<(), &'static str> {
        let Scope { lasting, from, count, per_qp, every, .. } = &self.scope;
        if !every.is_zero() && (!self.is_timed() || *count < 2) {
            return Err(
                "every=TIME repeats an event by time: it needs event=NAME and count=2 or more, without from and chance",
            );
        }
        if self.is_timed() && *per_qp {
            return Err("per=qp numbers requests: an event needs from=NUMBER with it");
        }
        let is_event = matches!(self.effect, Effect::Event(_));
        if *per_qp && matches!(self.effect, Effect::Cm(_)) {
            return Err("per=qp numbers requests: the connection manager's calls belong to no queue pair");
        }
        if *per_qp && !is_event && *from == 0 && *count == 0 {
            return Err("per=qp numbers requests: it needs from=NUMBER or count=NUMBER with it");
        }
        if *per_qp && matches!(self.effect, Effect::Errno { calls, .. } if !calls.are_of_queue_pairs()) {
            return Err(
                "per=qp is for the calls of a queue pair: ibv_modify_qp, ibv_attach_mcast, ibv_post_send and ibv_post_recv",
            );
        }
        let is_outage = matches!(self.effect, Effect::Event(AsyncEvent::PortErr | AsyncEvent::DeviceFatal));
        if is_outage && !every.is_zero() && (lasting.is_zero() || lasting >= every) {
            return Err("an outage that repeats must end before the next: add for=TIME, shorter than every");
        }
        if is_event && !is_outage && !lasting.is_zero() {
            return Err("for=TIME ends an outage, of event=PORT_ERR and event=DEVICE_FATAL alone");
        }
        if self.is_timed() && *count > 1 && every.is_zero() {
            return Err("several events by time need the time between them: add every=1s");
        }
        Ok(())
    }
}

impl Parts {
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let number = |noun: &str| {
            let number = value.parse::<u64>().ok().filter(|number| *number > 0);
            number.ok_or_else(|| format!("{noun} is a whole number of 64 bits from 1 on"))
        };
        let scope = &mut self.scope;
        match key {
            "status" => self.status = Some(names::status(value)?),
            "errno" => self.errno = Some(names::errno(value)?),
            "event" => self.event = Some(names::event(value)?),
            "cm" => self.cm = Some(CmFailure::parse(value)?),
            "call" => self.calls = Calls::parse(value)?,
            "only" => self.only = RequestKinds::parse(value)?,
            "from" => scope.from = number("a number of a request or call")?,
            "count" => scope.count = number("a number of strikes")?,
            "chance" => {
                scope.chance_ppm = share_ppm(value)?;
                if scope.chance_ppm == 0 {
                    return Err("a failure that never strikes".to_owned());
                }
            }
            "after" => scope.after = time(value, TIME_MAX)?,
            "for" => {
                scope.lasting = time(value, TIME_MAX)?;
                if scope.lasting.is_zero() {
                    return Err("a time longer than zero; without the key it is for ever".to_owned());
                }
            }
            "every" => {
                scope.every = time(value, TIME_MAX)?;
                if scope.every < EVERY_MIN {
                    return Err("at least 1ms".to_owned());
                }
            }
            "per" if value == "qp" => scope.per_qp = true,
            "per" => return Err("per=qp is the only one".to_owned()),
            "device" if (1..=DEVICE_NAME_MAX).contains(&value.len()) => scope.device = Some(value.to_owned()),
            "device" => return Err(format!("a device's name has 1 to {DEVICE_NAME_MAX} bytes")),
            "seed" => scope.seed = value.parse().map_err(|_| "a seed is a whole number of 64 bits".to_owned())?,
            _ => {
                return Err(
                    "no such key; there are status, errno with call, event, and cm, which after, for, from, count, \
                     chance, only, per, every and device limit, and seed"
                        .to_owned(),
                );
            }
        }
        Ok(())
    }

    fn effect(&self) -> Result<Effect, String> {
        let effect = match (self.status, self.errno, self.event, self.cm) {
            (Some(status), None, None, None) => Effect::Status { status, only: self.only },
            (None, Some(errno), None, None) => Effect::Errno { errno, calls: self.calls },
            (None, None, Some(event), None) => Effect::Event(event),
            (None, None, None, Some(failure)) => Effect::Cm(failure),
            (None, None, None, None) if !self.calls.is_empty() => {
                return Err("call=NAME does nothing without errno=NAME".to_owned());
            }
            (None, None, None, None) => {
                return Err(
                    "no failure is named: add status=NAME, or errno=NAME with call=NAME, or event=NAME, or cm=NAME"
                        .to_owned(),
                );
            }
            _ => {
                return Err(
                    "one of status, errno, event and cm for each failure: put a semicolon between two".to_owned()
                );
            }
        };
        if self.errno.is_some() && self.calls.is_empty() {
            return Err(
                "errno needs the calls that fail: add call=ibv_reg_mr, or several with a plus between them".to_owned()
            );
        }
        if self.errno.is_none() && !self.calls.is_empty() {
            return Err("call=NAME belongs to errno=NAME".to_owned());
        }
        if self.status.is_none() && !self.only.is_all() {
            return Err("only=KIND belongs to status=NAME".to_owned());
        }
        if let Some(status) = self.status.filter(|_| self.only.has_receives()) {
            names::status_of_receives(status)?;
        }
        Ok(effect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifications_are_understood() {
        let text = "status=RETRY_EXC_ERR, from=100,count=1,only=write,per=qp,device=rxe0";
        let want = Injection {
            effect: Effect::Status { status: WcStatus::RetryExcErr, only: RequestKinds::parse("write").unwrap() },
            scope: Scope { from: 100, count: 1, per_qp: true, device: Some("rxe0".into()), ..Scope::default() },
            text: text.to_owned(),
        };
        assert_eq!(Injection::parse(text), Ok(want));
        let errno = Injection::parse("errno=ENOMEM,call=ibv_reg_mr+ibv_create_qp,chance=10%,seed=7,after=1s").unwrap();
        let calls = Calls::parse("ibv_create_qp+ibv_reg_mr").unwrap();
        assert_eq!(errno.effect, Effect::Errno { errno: 12, calls });
        assert_eq!((errno.scope.chance_ppm, errno.scope.seed, errno.strikes_max()), (100_000, 7, None));
        let flap = Injection::parse("event=PORT_ERR,after=2s,for=300ms,every=1s,count=5").unwrap();
        assert!(flap.is_timed() && flap.strikes_max() == Some(5));
        let of_calls = Injection::parse("errno=EIO,call=ibv_post_send+ibv_post_recv,count=1,per=qp").unwrap();
        assert!(of_calls.scope.per_qp);
        let rejected = Injection::parse("cm=RDMA_CM_EVENT_REJECTED,count=2,device=rxe0").unwrap();
        assert_eq!((rejected.effect, rejected.strikes_max()), (Effect::Cm(CmFailure::Rejected), Some(2)));
        assert!(Injection::parse("errno=ENODEV,call=rdma_connect+rdma_accept").is_ok());
        let by_number = Injection::parse("event=QP_FATAL,from=3").unwrap();
        assert!(!by_number.is_timed() && by_number.strikes_max() == Some(1));
    }

    #[test]
    fn injections_differ_from_faults_in_packets() {
        for text in
            ["status=X", "from=1, errno = EIO", "event=", "cm=X", "call=x", "every=1s,count=3", "chance=1%", "per=qp"]
        {
            assert!(Injection::is_meant_by(text), "{text}");
        }
        for text in ["", "loss=1%,from=3", "seed=1", "loss=1%,every=1s", "after=1s,for=2s"] {
            assert!(!Injection::is_meant_by(text), "{text}");
        }
    }

    #[test]
    fn errors_name_the_part_and_the_fix() {
        for (text, part) in [
            ("status", "status=..."),
            ("status=OOPS", "there are LOC_LEN_ERR"),
            ("status=SUCCESS", "no such status"),
            ("errno=ENOMEM", "add call=ibv_reg_mr"),
            ("errno=12,call=ibv_reg_mr", "there are EPERM"),
            ("errno=EIO,call=ibv_destroy_qp", "no such call"),
            ("call=ibv_reg_mr", "without errno"),
            ("cm=ESTABLISHED", "there are ADDR_ERROR"),
            ("cm=REJECTED,call=rdma_connect", "belongs to errno"),
            ("cm=REJECTED,event=PORT_ERR", "semicolon"),
            ("cm=REJECTED,per=qp,count=1", "no queue pair"),
            ("event=PORT_ERR,call=ibv_reg_mr", "belongs to errno"),
            ("event=PORT_ERR,only=send", "belongs to status"),
            ("status=FATAL_ERR,event=QP_FATAL", "semicolon"),
            ("status=FATAL_ERR,loss=1%", "no such key"),
            ("status=FATAL_ERR,from=0", "from 1 on"),
            ("status=FATAL_ERR,chance=0%", "never"),
            ("status=FATAL_ERR,chance=1", "needs its unit"),
            ("status=FATAL_ERR,per=cq", "per=qp"),
            ("status=FATAL_ERR,every=1s,count=3", "event=NAME"),
            ("status=FATAL_ERR,device=", "1 to 63"),
            ("event=QP_FATAL,for=1s", "PORT_ERR"),
            ("event=QP_FATAL,count=2", "every=1s"),
            ("event=PORT_ERR,count=1000000000000", "every=1s"),
            ("event=DEVICE_FATAL,count=2,for=1s", "every=1s"),
            ("event=PORT_ERR,count=2,every=1s", "for=TIME"),
            ("event=PORT_ERR,count=2,every=1s,for=2s", "shorter"),
            ("event=PATH_MIG,every=1us,count=2", "1ms"),
            ("event=QP_FATAL,per=qp", "from=NUMBER"),
            ("status=FATAL_ERR,per=qp", "from=NUMBER"),
            ("errno=EIO,call=ibv_modify_qp+ibv_reg_mr,from=2,per=qp", "calls of a queue pair"),
            ("status=FATAL_ERR,seed=0", "chance=SHARE"),
            ("status=FATAL_ERR,for=0s", "longer than zero"),
            (
                "status=RETRY_EXC_ERR,only=recv",
                "no receive fails with RETRY_EXC_ERR: with only=recv there are LOC_LEN_ERR",
            ),
            ("status=LOC_LEN_ERR,only=receive", "there are send, write, read, atomic, recv"),
            ("status=FATAL_ERR,from=1,from=2", "from=2: from stands there twice"),
            ("errno=EIO,call=ibv_reg_mr,call=ibv_alloc_pd", "twice"),
            ("every=1s,count=3", "no failure is named"),
        ] {
            let error = Injection::parse(text).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("reads like"), "{text}: {error}");
        }
    }
}
