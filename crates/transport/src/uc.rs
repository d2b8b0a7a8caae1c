//! Unreliable connection: messages in packets, no acknowledgements. A gap loses the message that it hits; a message
//! that cannot be delivered is dropped silently (IBA 9.8).

use weft_verbs::{CqId, Instant, QpState, SendFlags, WcStatus};
use weft_wire::Psn;
use weft_wire::opcode::Place;

use crate::batch::TX_BURST_PACKETS;
use crate::core::{Bits, Core, Fault};
use crate::execute::Executor;
use crate::pace::Pace;
use crate::progress;
use crate::rq::RecvQueue;
use crate::segment::{Payload, Segment};
use crate::sq::{SendQueue, Wqe};
use crate::{Env, RxPacket, TxBatch};

/// State of a UC queue pair.
#[derive(Debug, Default)]
pub(crate) struct Uc {
    /// PSN sent next.
    next: Psn,
    /// Packets of the oldest request sent so far.
    sent: u64,
    pace: Pace,
    /// PSN expected next.
    expected: Psn,
    executor: Executor,
}

impl Uc {
    pub fn start_responder(&mut self, psn: u32) {
        self.expected = Psn::new(psn);
    }

    pub fn start_requester(&mut self, psn: u32) {
        self.next = Psn::new(psn);
        self.sent = 0;
    }

    /// Enters ERR. Returns the receive being filled.
    pub fn stop(&mut self) -> Option<(u64, Option<CqId>)> {
        self.executor.stop()
    }

    /// Returns whether no message is half sent.
    pub fn is_drained(&self) -> bool {
        self.sent == 0
    }

    pub fn wants_transmit(&self, core: &Core, sq: &SendQueue, now: Instant) -> bool {
        self.has_work(core, sq) && self.pace.is_open(now)
    }

    /// Returns when a send delayed by pacing may continue.
    pub fn poll_timeout(&self, core: &Core, sq: &SendQueue) -> Option<Instant> {
        self.has_work(core, sq).then(|| self.pace.opens_at())
    }

    fn has_work(&self, core: &Core, sq: &SendQueue) -> bool {
        let started = core.state() == QpState::Sqd && self.sent != 0;
        (core.state() == QpState::Rts || started) && !sq.is_empty()
    }

    pub fn poll_transmit<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, tx: &mut TxBatch, env: &mut E) {
        for _ in 0..TX_BURST_PACKETS {
            if !tx.has_room() || core.fault.is_some() || !self.wants_transmit(core, sq, core.now) {
                return;
            }
            let wqe = sq.get(sq.head());
            let outcome = match progress::begin(core, wqe, env) {
                Ok(true) => self.send(core, wqe, tx, env),
                Ok(false) => Ok(true),
                Err(status) => Err(status),
            };
            let status = match outcome {
                Ok(false) => continue,
                Ok(true) => WcStatus::Success,
                Err(status) => {
                    core.fault = Some(Fault::SendError);
                    status
                }
            };
            progress::complete_oldest(core, sq, status, env);
            self.sent = 0;
        }
    }

    /// Sends the next packet of a request. Returns whether that was the last.
    fn send<E: Env>(&mut self, core: &mut Core, wqe: &Wqe, tx: &mut TxBatch, env: &mut E) -> Result<bool, WcStatus> {
        let segment = Segment::of(wqe, self.sent, core.mtu(), false);
        let payload = Payload::of(env, core.pd(), wqe, segment.offset, segment.len)?;
        let takes = segment.last && wqe.takes_receive();
        let solicited = takes && wqe.flags.contains(SendFlags::SOLICITED);
        let bits = Bits { ack_req: false, solicited };
        core.begin(tx, segment.kind, u64::from(self.next.value()), bits, &segment.ext, segment.len);
        payload.add(wqe, tx);
        // UC has no retransmission to replace a damaged packet.
        tx.copy_before_send();
        self.pace.spend(core.now, segment.len);
        self.next = self.next.next();
        self.sent += 1;
        Ok(segment.last)
    }

    pub fn handle_packet<E: Env>(&mut self, core: &mut Core, rq: &mut RecvQueue, rx: &RxPacket<'_>, env: &mut E) {
        let packet = &rx.packet;
        match packet.bth.psn().distance(self.expected) {
            0 => {}
            // The network duplicated the packet, or it is so late that its message is lost already.
            ..0 => {
                core.stats.duplicates += 1;
                return;
            }
            _ => {
                core.stats.out_of_order += 1;
                self.executor.drop_message();
            }
        }
        self.expected = packet.bth.psn().next();
        if matches!(packet.info.place, Place::First | Place::Only) {
            self.executor.drop_message();
        }
        // There are no answers that a peer could wait for.
        if let Err(refusal) = self.executor.execute(core, rq, packet, || 0, env) {
            self.executor.drop_refused(core, refusal, env);
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_verbs::{QpType, SendOp, Sge, WcOpcode};

    use super::*;
    use crate::testing::{BASE, Fate, Pair, RECV_CQ, SEND_CQ, remote, sge};

    #[test]
    fn uc_carries_sends_and_writes_without_a_word_back() {
        let mut p = Pair::new(QpType::Uc);
        p.recv(1, 1, &[sge(0x1000, 5000)]);
        p.recv(1, 2, &[]);
        p.send(0, 1, SendOp::SendImm(9), &[sge(0, 3000)]);
        p.send(0, 2, SendOp::Write(remote(0x8000)), &[sge(0, 3000)]);
        p.send(0, 3, SendOp::WriteImm(remote(0x9000), 8), &[sge(0, 1500)]);
        p.finish();
        assert_eq!(p.worlds[0].take(SEND_CQ).len(), 3);
        let wcs = p.worlds[1].take_wcs(RECV_CQ);
        assert_eq!((wcs[0].byte_len, wcs[0].imm_data, wcs[0].opcode), (3000, 9, WcOpcode::Recv));
        assert_eq!((wcs[1].byte_len, wcs[1].imm_data, wcs[1].opcode), (1500, 8, WcOpcode::RecvRdmaWithImm));
        assert!(p.log.iter().all(|l| l.starts_with('0')));
        let sent = p.worlds[0].memory.at(BASE, 3000).to_vec();
        assert_eq!(p.worlds[1].memory.at(BASE + 0x8000, 1500), &sent[..1500]);
        assert_eq!(p.worlds[1].memory.at(BASE + 0x1000, 3000), sent);
    }

    #[test]
    fn uc_drops_the_message_of_a_gap_and_keeps_its_receive() {
        let mut p = Pair::new(QpType::Uc);
        let mut n = 0;
        p.fate = Box::new(move |_, _| {
            n += 1;
            match n {
                2 => Fate::Lose,
                5 => Fate::Twice,
                _ => Fate::Deliver,
            }
        });
        p.recv(1, 1, &[sge(0x1000, 5000)]);
        p.recv(1, 2, &[sge(0x1000, 5000)]);
        for id in 0..3 {
            p.send(0, id, SendOp::Send, &[sge(0, 3000)]);
        }
        p.finish();
        assert_eq!(p.worlds[1].take(RECV_CQ), [(1, WcStatus::Success, 3000), (2, WcStatus::Success, 3000)]);
        // No receive is left: dropped silently.
        p.send(0, 3, SendOp::Send, &[sge(0, 10)]);
        p.finish();
        assert!(p.worlds[1].wcs.is_empty());
        assert_eq!(p.qps[1].state(), QpState::Rts);
    }

    #[test]
    fn a_local_fault_stops_the_send_queue_of_unreliable_services() {
        for kind in [QpType::Uc, QpType::Ud] {
            let mut p = Pair::new(kind);
            p.send(0, 1, SendOp::Send, &[sge(0, 10)]);
            p.send(0, 2, SendOp::Send, &[Sge { addr: BASE, length: 10, lkey: 1 }]);
            p.send(0, 3, SendOp::Send, &[sge(0, 10)]);
            p.finish();
            let got: Vec<_> = p.worlds[0].take(SEND_CQ).iter().map(|w| (w.0, w.1)).collect();
            assert_eq!(got, [(1, WcStatus::Success), (2, WcStatus::LocProtErr), (3, WcStatus::WrFlushErr)]);
            assert_eq!(p.qps[0].state(), QpState::Sqe);
            p.modify(0, QpState::Rts);
            p.send(0, 4, SendOp::Send, &[sge(0, 10)]);
            p.finish();
            assert_eq!(p.worlds[0].take(SEND_CQ), [(4, WcStatus::Success, 10)]);
        }
    }
}
