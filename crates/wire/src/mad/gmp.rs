//! A GMP over RoCE v2: BTH and DETH of one UD SEND Only, and a management datagram as its payload.

use zerocopy::IntoBytes;

use super::{GSI_QKEY, GSI_QPN, Mad};
use crate::ext::Deth;
use crate::packet::{HeaderBuf, Headers};
use crate::{Bth, Opcode, Packet, Psn};

/// Opcode of a UD SEND Only.
const UD_SEND_ONLY: Opcode = Opcode(0x64);

/// Reason why a packet is not a GMP for queue pair 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GmpError {
    /// Its opcode is not UD SEND Only.
    Opcode(Opcode),
    /// It is for another queue pair.
    QueuePair(u32),
    /// Its Q_Key is not that of the general services interface.
    Qkey(u32),
    /// Its payload is not 256 bytes long.
    Length(usize),
}

impl std::fmt::Display for GmpError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            GmpError::Opcode(op) => write!(f, "opcode 0x{:02x} is not UD SEND Only", op.0),
            GmpError::QueuePair(qpn) => write!(f, "for queue pair 0x{qpn:06x}, not 1"),
            GmpError::Qkey(qkey) => write!(f, "Q_Key 0x{qkey:08x}, want 0x{GSI_QKEY:08x}"),
            GmpError::Length(len) => write!(f, "{len} bytes, want 256"),
        }
    }
}

impl std::error::Error for GmpError {}

/// A management datagram between two general services interfaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gmp {
    /// Partition.
    pub pkey: u16,
    /// Sequence number: counted, never checked.
    pub psn: Psn,
    /// Queue pair of the sender, which gets the response: 1, or the target of a class's redirection.
    pub src_qp: u32,
    /// Its bytes.
    pub mad: Mad,
}

impl Gmp {
    /// Extracts the datagram from a packet with a verified ICRC.
    pub fn from_packet(packet: &Packet<'_>) -> Result<Gmp, GmpError> {
        let Some(deth) = packet.ext.deth.filter(|_| packet.bth.opcode() == UD_SEND_ONLY) else {
            return Err(GmpError::Opcode(packet.bth.opcode()));
        };
        if packet.bth.dest_qp() != GSI_QPN {
            return Err(GmpError::QueuePair(packet.bth.dest_qp()));
        }
        if deth.qkey() != GSI_QKEY {
            return Err(GmpError::Qkey(deth.qkey()));
        }
        let mad = Mad::parse(packet.payload).ok_or(GmpError::Length(packet.payload.len()))?;
        Ok(Gmp { pkey: packet.bth.pkey(), psn: packet.bth.psn(), src_qp: deth.src_qp(), mad })
    }

    /// Returns BTH and DETH, to precede [`Gmp::payload`]; the link or [`crate::roce::seal`] adds the ICRC.
    pub fn headers(&self) -> HeaderBuf {
        let mut bth = Bth::new(UD_SEND_ONLY, self.pkey, GSI_QPN, self.psn);
        // As Linux does.
        bth.set_mig_req(false);
        bth.set_ack_req(true);
        let ext = Headers { deth: Some(Deth::new(GSI_QKEY, self.src_qp)), ..Headers::default() };
        HeaderBuf::write(bth, &ext, self.payload().len())
    }

    /// Returns the datagram's bytes.
    pub fn payload(&self) -> &[u8] {
        self.mad.as_bytes()
    }
}
