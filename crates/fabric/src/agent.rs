//! Delivery of a datagram at its destination port, to the fabric's own agents or to those of the host.

use crate::datagram::{Delivery, SendError};
use crate::flight::Timer;
use crate::packet::Packet;
use crate::sma::Answer;
use crate::topology::NodeKind;
use crate::walk::Why;
use crate::{Fabric, PortRef};
use weft_verbs::Duration;
use weft_wire::lrh::LID_PERMISSIVE;
use weft_wire::mad::subn::{CapabilityMask, Smp};
use weft_wire::mad::{AttrId, Class, GSI_QKEY, GSI_QPN, Mad, MadHeader, Method, SMI_QPN, Status};

/// Returns a port's answer to a request of a class without an agent there; `None` if `mad` is not a request.
pub fn unmatched(mad: &Mad) -> Option<Mad> {
    let method = mad.header.method();
    if !matches!(method, Method::GET | Method::SET) {
        return None;
    }
    let mut answer = *mad;
    answer.header.set_method(Method::GET_RESP);
    answer.header.set_status(Status::BAD_METHOD_ATTRIBUTE);
    Some(answer)
}

impl Fabric {
    /// Sends a datagram of a host.
    pub(crate) fn originate(&mut self, from: u32, packet: &mut Packet) -> Result<(), SendError> {
        if packet.mad.header.class() == Class::SUBN_DIRECTED_ROUTE {
            return self.originate_directed(from, packet);
        }
        self.launch(from, packet);
        Ok(())
    }

    /// Routes a datagram by LID.
    pub(crate) fn launch(&mut self, from: u32, packet: &mut Packet) {
        match self.carry(from, &packet.head) {
            Ok((at, 0, _)) => self.arrive(at, packet),
            Ok((at, ns, _)) => self.fly(at, packet, ns),
            Err(_) => {}
        }
    }

    /// Puts a datagram on a cable with latency.
    pub(crate) fn fly(&mut self, to: u32, packet: &Packet, ns: u64) {
        match self.flight.depart(to, packet) {
            Some(slot) => self.timers.set(self.now + Duration::from_nanos(ns), Timer::Land(slot)),
            None => {
                self.blame((to, Why::NoRoom), &packet.head);
            }
        }
    }

    /// Delivers a datagram at its destination port.
    pub(crate) fn arrive(&mut self, at: u32, packet: &mut Packet) {
        let class = packet.mad.header.class();
        match (packet.head.dest_qp, class) {
            (SMI_QPN, Class::SUBN_DIRECTED_ROUTE) => self.directed(at, packet),
            (SMI_QPN, Class::SUBN_LID_ROUTED) => self.manage(at, packet),
            (SMI_QPN, _) | (_, Class::SUBN_DIRECTED_ROUTE | Class::SUBN_LID_ROUTED) => {}
            (GSI_QPN, _) => self.serve(at, packet),
            _ => self.hand_up(at, packet),
        }
    }

    /// Delivers an SMP at its destination.
    pub(crate) fn manage(&mut self, at: u32, packet: &mut Packet) {
        let header: MadHeader = packet.mad.header;
        let for_agent = match header.method() {
            Method::GET | Method::SET if header.attr_id() == AttrId::SM_INFO => {
                // A port with a subnet manager answers SMInfo itself.
                !self.ports[self.agent_port(at) as usize].info.capability_mask.contains(CapabilityMask::SM)
            }
            Method::TRAP | Method::REPORT => false,
            method => !method.is_response(),
        };
        if !for_agent {
            return self.hand_up(at, packet);
        }
        let fault = self.nodes[self.ports[at as usize].node as usize].fault;
        if fault.silent {
            return;
        }
        if fault.delay == Duration::ZERO {
            return self.manage_now(at, packet);
        }
        match self.flight.depart(at, packet) {
            Some(slot) => self.timers.set(self.now + fault.delay, Timer::Agent(slot)),
            None => drop(self.blame((at, Why::NoRoom), &packet.head)),
        }
    }

    /// Lets the SMA answer.
    pub(crate) fn manage_now(&mut self, at: u32, packet: &mut Packet) {
        if self.answer_smp(at, packet) == Answer::Reply {
            let deferred = self.deferred.take();
            self.reply_smp(at, packet);
            if let Some((place, event)) = deferred {
                self.set_physical(place, event);
            }
        }
    }

    /// Sends the SMA's answer.
    fn reply_smp(&mut self, at: u32, packet: &mut Packet) {
        let smp = Smp::mut_from_mad(&mut packet.mad);
        smp.header.set_method(Method::GET_RESP);
        if smp.is_directed() {
            smp.set_returning(true);
            self.return_directed(at, packet);
        } else {
            let own = self.agent_port(at);
            packet.turn(&self.ports[own as usize]);
            self.launch(own, packet);
        }
    }

    /// Delivers a GMP at its destination.
    fn serve(&mut self, at: u32, packet: &mut Packet) {
        if packet.qkey != GSI_QKEY {
            return self.on_bad_qkey(at, packet);
        }
        let header: MadHeader = packet.mad.header;
        let is_request = matches!(header.method(), Method::GET | Method::SET);
        let answered = match header.class() {
            Class::PERF if !header.method().is_response() => {
                let silent = self.nodes[self.ports[at as usize].node as usize].fault.silent;
                !silent && self.answer_perf(at, &mut packet.mad)
            }
            // A switch's port has no host behind it.
            _ if self.ports[at as usize].kind == NodeKind::Switch && is_request => match unmatched(&packet.mad) {
                Some(answer) => {
                    packet.mad = answer;
                    true
                }
                None => false,
            },
            _ => return self.hand_up(at, packet),
        };
        if answered {
            packet.turn(&self.ports[at as usize]);
            self.launch(at, packet);
        }
    }

    /// Passes a datagram to the agents of the host, if there is one.
    pub(crate) fn hand_up(&mut self, at: u32, packet: &Packet) {
        let port = &self.ports[at as usize];
        if port.kind == NodeKind::Switch {
            return;
        }
        let h = &packet.head;
        let mask = (1_u16 << (port.info.lmc & 7)) - 1;
        let path_bits = if h.dlid == LID_PERMISSIVE { 0 } else { (h.dlid & mask) as u8 };
        let (pkey_index, pkey) = port.answering_pkey(h.pkey);
        self.deliver(Delivery {
            port: PortRef::new(port.node, port.number),
            slid: h.slid,
            path_bits,
            sl: h.sl,
            src_qp: h.src_qp,
            dest_qp: h.dest_qp,
            pkey_index,
            pkey,
            grh: packet.grh,
            mad: packet.mad,
        });
    }

    /// Returns the port whose agent answers at a port: for a switch, port 0.
    pub(crate) fn agent_port(&self, at: u32) -> u32 {
        let port = &self.ports[at as usize];
        if port.kind == NodeKind::Switch { port.base } else { at }
    }
}
