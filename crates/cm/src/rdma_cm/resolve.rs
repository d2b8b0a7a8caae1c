//! Resolution: from a peer's address to a device and a local address (by the host's routing), and from there to a path.

use std::net::IpAddr;

use weft_verbs::{Duration, Instant};

use super::address::{Family, PortSpace, SockAddr, gid_of_ip, ip_of_gid};
use super::command::IdNumber;
use super::devices::localhost;
use super::errno::{EAGAIN, EINVAL, ENODEV, ENOENT, ETIMEDOUT, Errno};
use super::event::{EventKind, EventParam};
use super::host::{QuestionId, ResolveQuestion, ResolveRequest, ResolveResult, Resolved};
use super::id::{Attachment, State};
use super::limits::QUESTIONS_MAX;
use super::service::Service;

/// Minimum time for the host to answer, whatever timeout a program passes: the answer is always asynchronous here.
const ANSWER_MIN: Duration = Duration::from_millis(100);

/// Maximum time for the host to answer.
const ANSWER_MAX: Duration = Duration::from_secs(3600);

impl Service {
    /// `rdma_resolve_addr`.
    pub(super) fn resolve_addr(
        &mut self,
        now: Instant,
        number: IdNumber,
        src: Option<SockAddr>,
        dst: SockAddr,
        timeout_ms: u32,
    ) -> Result<(), Errno> {
        self.prepare_source(number, src, dst)?;
        let started = match dst.is_any() {
            true => self.resolve_loopback(number, dst),
            // GIDs of RoCE are addresses of the host's network like any others.
            false => self.ask_host(now, number, dst, timeout_ms),
        };
        if started.is_err()
            && let Some(id) = self.ids.change(number)
        {
            id.state = State::AddrBound;
        }
        started
    }

    /// Binds the id if it is unbound, and enters AddrQuery. `src` counts only for an unbound id.
    fn prepare_source(&mut self, number: IdNumber, src: Option<SockAddr>, dst: SockAddr) -> Result<(), Errno> {
        let id = self.ids.change(number).ok_or(ENOENT)?;
        if id.state != State::AddrBound {
            if src.is_none() && dst.scope_id() != 0 {
                id.bound_if = dst.scope_id();
            }
            let src = src.unwrap_or_else(|| wildcard_for(dst));
            self.bind(number, src, (src.family() == dst.family()).then_some(dst))?;
        }
        let id = self.ids.change(number).ok_or(ENOENT)?;
        if id.family() != Some(dst.family()) {
            return Err(EINVAL);
        }
        id.dst = Some(dst);
        id.state = State::AddrQuery;
        Ok(())
    }

    /// Resolves the wildcard and loopback addresses to the loopback's device.
    fn resolve_loopback(&mut self, number: IdNumber, dst: SockAddr) -> Result<(), Errno> {
        let id = self.ids.look(number).ok_or(ENOENT)?;
        let target = if dst.is_zero() { localhost(dst.family()) } else { dst.ip() };
        let attachment = id.attachment.or_else(|| self.devices.loopback(target)).ok_or(ENODEV)?;
        let own = match dst.family() {
            Family::Ib => ip_of_gid(attachment.sgid),
            family => localhost(family),
        };
        let id = self.ids.change(number).ok_or(ENOENT)?;
        if id.attachment.is_none() {
            id.src = id.src.map(|src| with_ip(src, own, attachment));
        }
        id.dst = Some(with_ip(dst, target, attachment));
        id.attachment = Some(attachment);
        id.bound_if = attachment.ifindex;
        id.dgid = attachment.sgid;
        id.state = State::AddrResolved;
        self.emit(number, EventKind::AddrResolved, 0, EventParam::None);
        Ok(())
    }

    fn ask_host(&mut self, now: Instant, number: IdNumber, dst: SockAddr, timeout_ms: u32) -> Result<(), Errno> {
        let id = self.ids.look(number).ok_or(ENOENT)?;
        let (src, tos) = (id.src.ok_or(EINVAL)?, id.options.tos.unwrap_or(0));
        let question = self.new_question(now, number, timeout_ms)?;
        let ask = ResolveQuestion {
            question,
            dst: dst.ip(),
            src: (!src.is_zero()).then(|| src.ip()),
            ifindex: if dst.scope_id() != 0 { dst.scope_id() } else { link_local_scope(src) },
            tos,
        };
        self.resolve_out.push_back(ResolveRequest::Ask(ask));
        Ok(())
    }

    /// Adds a request on behalf of an id, with a bounded timeout.
    pub(super) fn new_question(
        &mut self,
        now: Instant,
        number: IdNumber,
        timeout_ms: u32,
    ) -> Result<QuestionId, Errno> {
        if self.questions.len() >= QUESTIONS_MAX {
            return Err(EAGAIN);
        }
        let id = self.ids.change(number).ok_or(ENOENT)?;
        self.last_question += 1;
        let question = QuestionId(self.last_question);
        let deadline = now + Duration::from_millis(timeout_ms.into()).clamp(ANSWER_MIN, ANSWER_MAX);
        id.question = Some((question, deadline));
        self.questions.insert(question, number);
        self.deadlines.insert((deadline, number));
        Ok(question)
    }

    /// Cancels the pending request of an id, if any; tells the host if the host has not answered.
    pub(super) fn forget_question(&mut self, number: IdNumber) {
        let Some((question, deadline)) = self.ids.change(number).and_then(|id| id.question.take()) else { return };
        self.deadlines.remove(&(deadline, number));
        if self.questions.remove(&question).is_some() {
            let unasked = |request: &ResolveRequest| match request {
                ResolveRequest::Ask(ask) => ask.question == question,
                ResolveRequest::AskPath(ask) => ask.question == question,
                ResolveRequest::Forget(_) => false,
            };
            if let Some(place) = self.resolve_out.iter().position(unasked) {
                self.resolve_out.remove(place);
            } else {
                self.resolve_out.push_back(ResolveRequest::Forget(question));
            }
        }
    }

    /// Handles the host's answer.
    pub(super) fn on_resolved(&mut self, question: QuestionId, result: ResolveResult) {
        let Some(number) = self.questions.remove(&question) else { return };
        self.forget_question(number);
        if self.ids.look(number).is_none_or(|id| id.state != State::AddrQuery) {
            return;
        }
        match result.and_then(|resolved| self.adopt_route(number, resolved)) {
            Ok(()) => self.emit(number, EventKind::AddrResolved, 0, EventParam::None),
            Err(errno) => self.fail_address(number, errno),
        }
    }

    /// Handles the host's immediate answer that there is no route: as in Linux, the command itself fails, without an
    /// event. The id stays bound.
    pub fn refuse_question(&mut self, question: QuestionId) {
        let Some(number) = self.questions.remove(&question) else { return };
        self.forget_question(number);
        if let Some(id) = self.ids.change(number).filter(|id| id.state == State::AddrQuery) {
            id.state = State::AddrBound;
        }
    }

    /// Fails the requests whose time is over.
    pub(super) fn expire_questions(&mut self, now: Instant) {
        while let Some(&(deadline, number)) = self.deadlines.first()
            && deadline <= now
        {
            self.deadlines.remove(&(deadline, number));
            self.forget_question(number);
            match self.ids.look(number).map(|id| id.state) {
                Some(State::AddrQuery) => self.fail_address(number, ETIMEDOUT),
                Some(State::RouteQuery) => self.fail_route(number, ETIMEDOUT),
                _ => {}
            }
        }
    }

    fn fail_address(&mut self, number: IdNumber, errno: Errno) {
        if let Some(id) = self.ids.change(number) {
            id.state = State::AddrBound;
        }
        self.emit(number, EventKind::AddrError, -errno, EventParam::None);
    }

    /// Takes the local address and its device from a route.
    fn adopt_route(&mut self, number: IdNumber, resolved: Resolved) -> Result<(), Errno> {
        let id = self.ids.look(number).ok_or(ENOENT)?;
        let (src, dst) = (id.src.ok_or(EINVAL)?, id.dst.ok_or(EINVAL)?);
        let local = if src.is_any() { resolved.src } else { src.ip() };
        let attachment = match id.attachment {
            Some(attachment) => attachment,
            // RoCE has no IPoIB.
            None if id.port_space == PortSpace::Ipoib => return Err(EINVAL),
            None => {
                let ifindex = if resolved.local { id.bound_if } else { resolved.ifindex };
                let exact = self.devices.by_ip(local, ifindex);
                exact.or_else(|| self.devices.by_ip(local, 0)).ok_or(ENODEV)?
            }
        };
        let id = self.ids.change(number).ok_or(ENOENT)?;
        id.src = Some(with_ip(src, local, attachment));
        id.attachment = Some(attachment);
        id.bound_if = attachment.ifindex;
        id.dgid = resolved.dgid.unwrap_or_else(|| gid_of_ip(dst.ip()));
        id.hop_limit = resolved.hop_limit;
        id.state = State::AddrResolved;
        Ok(())
    }
}

/// Returns the wildcard of the peer's family and scope, for a program that names no local address.
fn wildcard_for(dst: SockAddr) -> SockAddr {
    match (SockAddr::any(dst.family()), dst) {
        (SockAddr::V6 { addr, port, flowinfo, .. }, SockAddr::V6 { scope_id, .. }) => {
            SockAddr::V6 { addr, port, flowinfo, scope_id }
        }
        (SockAddr::Ib(mut any), SockAddr::Ib(dst)) => {
            any.pkey = dst.pkey;
            SockAddr::Ib(any)
        }
        (any, _) => any,
    }
}

fn link_local_scope(src: SockAddr) -> u32 {
    if src.is_zero() { 0 } else { src.scope_id() }
}

/// Returns the address with another IP address, scoped to its device's interface if link-local.
pub fn with_ip(addr: SockAddr, ip: IpAddr, attachment: Attachment) -> SockAddr {
    match addr {
        SockAddr::V4 { port, .. } => match ip {
            IpAddr::V4(addr) => SockAddr::V4 { addr, port },
            IpAddr::V6(_) => addr,
        },
        SockAddr::V6 { port, flowinfo, .. } => {
            let addr = match ip {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => v6,
            };
            let scope_id = if addr.is_unicast_link_local() { attachment.ifindex } else { 0 };
            SockAddr::V6 { addr, port, flowinfo, scope_id }
        }
        SockAddr::Ib(ib) if addr.family() == Family::Ib => {
            SockAddr::Ib(super::address::SockAddrIb { gid: gid_of_ip(ip), ..ib })
        }
        other => other,
    }
}
