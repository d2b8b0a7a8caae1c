//! Checks each event of an owner: whether it fits the state and the earlier events, and matches what the other end
//! sent.

use weft_cm::ib::{ApStatus, Event, EventKind};

use super::app::{Apps, Checked, QKEY};
use super::side::{Role, Side, may_follow, states_after};
use super::world::{CmWorld, node_guid};

impl Apps {
    /// Returns an error if this side must not get this event now.
    pub(super) fn check(&mut self, world: &CmWorld, side: usize, event: &Event) -> Checked {
        let s = &self.sides[side];
        let cm = &world.hosts[s.host].cm;
        let fail = |why: String| Err(format!("{why}: {:?} to {s:?}", event.kind));
        if s.destroyed || s.crashed {
            return fail("told after its end".into());
        }
        let state = cm.state(s.conn);
        if !state.is_some_and(|state| states_after(&event.kind).contains(&state)) {
            return fail(format!("told in state {state:?}"));
        }
        let last = s.told.last().copied();
        if !may_follow(&event.kind, last) {
            return fail(format!("told after {last:?}"));
        }
        match &event.kind {
            EventKind::ReqReceived(req) => {
                let Some(asker) = self.asker(s.attempt) else { return fail("nobody asked".into()) };
                let want =
                    (asker.qpn, asker.psn, node_guid(asker.host), world.path(s.host, asker.host, self.plan.life_time));
                if (req.remote_qpn, req.starting_psn, req.remote_ca_guid) != (want.0, want.1, want.2)
                    || (req.primary.sgid, req.primary.dgid) != (want.3.sgid, want.3.dgid)
                    || (req.retry_count, req.rnr_retry_count, req.flow_control) != (7, 6, true)
                {
                    return fail(format!("not what was asked, {want:?}"));
                }
            }
            EventKind::RepReceived(rep) => {
                let giver = |g: &Side| (g.qpn, g.psn) == (rep.remote_qpn, rep.starting_psn) && g.agreed;
                let Some(partner) = self.passive_of(s.attempt).find(|p| giver(&self.sides[*p])) else {
                    return fail("nobody answered so".into());
                };
                if event.private_data.first() != Some(&!(s.attempt as u8)) {
                    return fail("private data is damaged".into());
                }
                self.sides[side].partner = Some(partner);
            }
            EventKind::RtuReceived => {
                let mut active = self.sides.iter().filter(|a| a.role == Role::Active && a.attempt == s.attempt);
                let Some(active) = active.find(|a| a.partner == Some(side) && a.agreed) else {
                    return fail("nobody is ready".into());
                };
                let theirs =
                    world.hosts[active.host].cm.qp_params(active.conn).filter(|_| !active.crashed && !active.destroyed);
                let ours = cm.qp_params(s.conn);
                if let Some((ours, theirs)) = ours.zip(theirs).filter(|(_, theirs)| theirs.may_rts) {
                    let crossed = (ours.remote_qpn, ours.rq_psn, ours.sq_psn)
                        == (active.qpn, theirs.sq_psn, theirs.rq_psn)
                        && theirs.remote_qpn == s.qpn
                        && (ours.path_mtu, ours.pkey) == (theirs.path_mtu, theirs.pkey)
                        && (ours.responder_resources, ours.initiator_depth) == (5, 7);
                    if !crossed {
                        return fail(format!("the queue pairs do not match: {ours:?} {theirs:?}"));
                    }
                }
            }
            EventKind::SidrRepReceived(rep) if rep.status.0 == 0 => {
                let serves = |p: usize| (self.sides[p].qpn, QKEY) == (rep.qpn, rep.qkey);
                return if self.passive_of(s.attempt).any(serves) { Ok(()) } else { fail("nobody serves so".into()) };
            }
            EventKind::AprReceived(apr)
                if (apr.status, &apr.info[..]) != (ApStatus::REJECTED, &[s.attempt as u8; 3][..]) =>
            {
                return fail("nobody answered so".into());
            }
            EventKind::RejReceived(rej) => self.sides[side].reason = Some(rej.reason),
            _ => {}
        }
        Ok(())
    }

    fn asker(&self, attempt: usize) -> Option<&Side> {
        self.sides.iter().find(|s| s.role == Role::Active && s.attempt == attempt)
    }
}
