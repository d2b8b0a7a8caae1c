//! Destruction of a connection by its owner, and the orphaned disconnect that may follow.

use weft_verbs::Instant;
use weft_wire::cm::{RejectReason, SidrRep, SidrStatus};

use super::cm::Cm;
use super::comm_id::ConnId;
use super::limits::{ORPHAN_RETRIES_MAX, ORPHANS_MAX};
use super::message;
use super::sidr::sidr_rep;
use super::state::{Action, Input, State, step};

impl Cm {
    /// Destroys a connection in any state (`ib_destroy_cm_id`). As the state demands, the peer gets a REJ or a DREQ,
    /// which is repeated for a while without the owner. No new event is reported for it, though some may be queued
    /// already. Destroying a connection that is gone has no effect.
    pub fn destroy(&mut self, now: Instant, conn: ConnId) {
        let Some(entry) = self.conns.get_mut(&conn).filter(|entry| !entry.orphan) else { return };
        let guid = self.devices.get(&entry.to.device).map_or(0, |ca| ca.node_guid);
        match step(entry.state, Input::Destroy).1 {
            Action::ForgetRejTimeout => {
                if let Ok(rej) = message::rej(entry, RejectReason::TIMEOUT, &guid.to_be_bytes(), &[]) {
                    self.tables.say(entry, rej);
                }
            }
            Action::ForgetRej => {
                if let Ok(rej) = message::rej(entry, RejectReason::CONSUMER_DEFINED, &[], &[]) {
                    self.tables.say(entry, rej);
                }
            }
            Action::ForgetDrep => {
                if let Ok(drep) = message::drep(entry, &[]) {
                    self.tables.say(entry, drep);
                }
            }
            Action::ForgetSidr => {
                let rep = SidrRep { status: SidrStatus::REJECT, ..sidr_rep(entry) };
                self.tables.say(entry, rep);
            }
            Action::Orphan => return self.orphan(now, conn),
            _ => {}
        }
        self.remove(now, conn);
    }

    /// Disconnects on behalf of an owner that does not wait for the answer.
    fn orphan(&mut self, now: Instant, id: ConnId) {
        let tid = self.own_tid(id);
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if conn.state == State::Established {
            let Ok(dreq) = message::dreq(conn, &[]) else { return };
            conn.tid = tid;
            self.tables.enter(now, conn, State::DreqSent);
            self.tables.ask(now, conn, dreq, 0);
        }
        if self.tables.orphans >= ORPHANS_MAX {
            self.remove(now, id);
            return;
        }
        self.tables.orphans += 1;
        conn.orphan = true;
        if let Some(retry) = &mut conn.retry {
            retry.limit(ORPHAN_RETRIES_MAX);
        }
        // Its owner's queue pair is gone, so the peer may connect anew.
        self.tables.forget_remote_qp(conn);
    }

    /// Removes an orphan once its disconnect is finished.
    pub(super) fn remove_closed(&mut self, now: Instant, id: ConnId) {
        let Some(conn) = self.conns.get(&id).filter(|conn| conn.orphan && conn.state != State::DreqSent) else {
            return;
        };
        if conn.state == State::DreqRcvd
            && let Ok(drep) = message::drep(conn, &[])
        {
            self.tables.say(conn, drep);
        }
        self.remove(now, id);
    }
}
