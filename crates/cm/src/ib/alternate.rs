//! Loading of another alternate path into an established connection: LAP and APR (IBA 12.8). Linux does not answer a
//! LAP on RoCE; an unanswered LAP ends by its timer.

use weft_verbs::Instant;
use weft_wire::cm::{ApStatus, Apr, Lap, Mra, PrivateData};

use super::cm::{Cm, Rx};
use super::comm_id::ConnId;
use super::command::{Done, allowed_lap};
use super::conn::Conn;
use super::error::CmError;
use super::event::{AprReceived, EventKind};
use super::message;
use super::path::Path;
use super::receive::patience;
use super::state::{Action, Input, State, lap_step, step};
use super::tables::ConnTables;

/// Response timeout of a LAP: the value that Linux's RDMA CM uses for all messages, about four seconds.
const LAP_RESPONSE_TIMEOUT: u8 = 20;

impl Cm {
    /// Proposes another alternate path (`ib_send_cm_lap`). Private data, 168 bytes at most.
    pub fn send_lap(&mut self, now: Instant, conn: ConnId, alternate: &Path, private_data: &[u8]) -> Done {
        self.allowed(conn, Input::SendLap)?;
        let tid = self.own_tid(conn);
        let device = self.both(conn)?.1.to.device;
        let ca = *self.devices.get(&device).ok_or(CmError::NoDevice(device))?;
        let (tables, conn) = self.both(conn)?;
        let next = allowed_lap(conn.state, conn.lap, Input::SendLap)?;
        let lap = message::lap(conn, &ca, alternate, LAP_RESPONSE_TIMEOUT, private_data)?;
        conn.lap = next;
        conn.tid = tid;
        conn.alternate_dgid = Some(alternate.dgid);
        tables.ask(now, conn, lap, 0);
        Ok(())
    }

    /// Answers a proposal of another alternate path (`ib_send_cm_apr`). 72 bytes of additional information and 148 of
    /// private data at most.
    pub fn send_apr(
        &mut self,
        _now: Instant,
        conn: ConnId,
        status: ApStatus,
        info: &[u8],
        private_data: &[u8],
    ) -> Done {
        self.allowed(conn, Input::SendApr)?;
        let (tables, conn) = self.both(conn)?;
        let next = allowed_lap(conn.state, conn.lap, Input::SendApr)?;
        let apr = Apr {
            local_comm_id: conn.id.0,
            remote_comm_id: conn.remote_comm_id,
            info_len: info.len() as u8,
            status,
            info: PrivateData::new(info)?,
            private_data: PrivateData::new(private_data)?,
        };
        conn.lap = next;
        conn.reply = None;
        tables.say(conn, apr);
        Ok(())
    }

    pub(super) fn on_lap(&mut self, rx: &Rx<'_>, lap: &Lap) {
        let Some((tables, conn)) = self.find(rx, lap.remote_comm_id, lap.local_comm_id) else { return };
        if conn.local_qpn != lap.remote_qpn {
            tables.stats.rx_unexpected += 1;
            return;
        }
        if tables.take_lap(rx, conn, Input::RxLap) {
            conn.tid = rx.tid;
            let path = message::path_back(&lap.alternate, conn.pkey, conn.path_mtu);
            tables.tell(conn, EventKind::LapReceived(Box::new(path)), lap.private_data.as_slice());
        }
    }

    pub(super) fn on_apr(&mut self, rx: &Rx<'_>, apr: &Apr) {
        let Some((tables, conn)) = self.find(rx, apr.remote_comm_id, apr.local_comm_id) else { return };
        if tables.take_lap(rx, conn, Input::RxApr) {
            tables.answered(conn);
            let info = apr.info.as_slice();
            let info = info[..usize::from(apr.info_len).min(info.len())].to_vec();
            let received = AprReceived { status: apr.status, info };
            tables.tell(conn, EventKind::AprReceived(received), apr.private_data.as_slice());
        }
    }

    pub(super) fn on_mra_lap(&mut self, rx: &Rx<'_>, mra: &Mra) {
        let Some((tables, conn)) = self.find(rx, mra.remote_comm_id, mra.local_comm_id) else { return };
        if tables.take_lap(rx, conn, Input::RxMraLap) {
            tables.extend(rx.now, conn, patience(conn, mra.service_timeout));
            let kind = EventKind::MraReceived { service_timeout: mra.service_timeout };
            tables.tell(conn, kind, mra.private_data.as_slice());
        }
    }

    /// Ends a LAP that got no answer; the connection goes on as it is.
    pub(super) fn give_up_lap(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let (next, action) = lap_step(conn.lap, Input::GiveUp);
        if action == Action::Tell {
            conn.lap = next;
            self.tables.answered(conn);
            self.tables.tell(conn, EventKind::LapError, &[]);
        }
    }
}

impl ConnTables {
    /// Applies the LAP table to a received message. Returns whether to tell the owner.
    fn take_lap(&mut self, rx: &Rx<'_>, conn: &mut Conn, input: Input) -> bool {
        let stands = conn.state == State::Established && step(conn.state, input).1 == Action::Alternate;
        let (next, action) = if stands { lap_step(conn.lap, input) } else { (conn.lap, Action::Refuse) };
        match action {
            Action::Tell | Action::Patience => {
                conn.lap = next;
                return true;
            }
            Action::Duplicate => self.duplicate(rx.attr_id),
            Action::SayAgain => {
                self.duplicate(rx.attr_id);
                self.say_again(conn);
            }
            _ => self.stats.rx_unexpected += 1,
        }
        false
    }
}
