//! Management datagrams in transit.

use crate::datagram::{GlobalRoute, MadOut, SendError};
use crate::head::{Head, MAD_WORDS, MAD_WORDS_GRH};
use crate::port::Port;
use weft_wire::lrh::LID_PERMISSIVE;
use weft_wire::mad::subn::Smp;
use weft_wire::mad::{Class, GSI_QKEY, GSI_QPN, MAD_LEN, Mad, SMI_QPN};

/// A datagram with its headers.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub head: Head,
    pub qkey: u32,
    pub grh: Option<GlobalRoute>,
    pub mad: Mad,
}

fn head(slid: u16, dlid: u16, sl: u8, pkey: u16, qps: [u32; 2], grh: bool) -> Head {
    Head {
        slid,
        dlid,
        sl: sl & 0xf,
        management: qps[1] == SMI_QPN,
        pkey,
        src_qp: qps[0],
        dest_qp: qps[1],
        payload: MAD_LEN as u32,
        words: if grh { MAD_WORDS_GRH } else { MAD_WORDS },
    }
}

impl Packet {
    /// Builds the packet that a host sends through this port.
    pub fn outgoing(port: &Port, out: &MadOut) -> Result<Packet, SendError> {
        let to = &out.to;
        let class = out.mad.header.class();
        let subnet = class == Class::SUBN_LID_ROUTED || class == Class::SUBN_DIRECTED_ROUTE;
        if subnet != (to.dest_qp == SMI_QPN) {
            return Err(SendError::WrongQueuePair);
        }
        let mask = (1_u16 << (port.info.lmc & 7)) - 1;
        let slid = if port.info.lid == 0 { LID_PERMISSIVE } else { port.info.lid | u16::from(to.path_bits) & mask };
        let head = head(slid, to.dlid, to.sl, to.pkey, [to.src_qp, to.dest_qp], to.grh.is_some());
        Ok(Packet { head, qkey: to.qkey, grh: to.grh, mad: out.mad })
    }

    /// Builds an SMP that the fabric's own agent sends from this port.
    pub fn smp(port: &Port, dlid: u16, sl: u8, smp: Smp) -> Packet {
        let head = head(port.info.lid, dlid, sl, 0xffff, [SMI_QPN; 2], false);
        Packet { head, qkey: 0, grh: None, mad: smp.to_mad() }
    }

    /// Reverses the addresses: an answer takes the path of its request.
    pub fn turn(&mut self, port: &Port) {
        let h = &mut self.head;
        let own = if port.owns(h.dlid) { h.dlid } else { port.info.lid };
        (h.slid, h.dlid) = (own, h.slid);
        (h.src_qp, h.dest_qp) = (h.dest_qp, h.src_qp);
        h.pkey = port.answering_pkey(h.pkey).1;
        self.qkey = GSI_QKEY;
        if let Some(grh) = &mut self.grh {
            std::mem::swap(&mut grh.sgid, &mut grh.dgid);
        }
        if h.src_qp == SMI_QPN {
            h.dest_qp = SMI_QPN;
        } else if h.src_qp == GSI_QPN && h.dest_qp == SMI_QPN {
            // Requests from queue pair 0 go to queue pair 0 only.
            h.dest_qp = GSI_QPN;
        }
        h.management = h.dest_qp == SMI_QPN;
    }
}
