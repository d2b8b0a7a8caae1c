//! Management datagrams as hosts send and receive them.

use crate::PortRef;
use weft_wire::mad::{GSI_QKEY, GSI_QPN, Mad, SMI_QPN};

/// Global route header of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GlobalRoute {
    /// Source GID.
    pub sgid: [u8; 16],
    /// Destination GID.
    pub dgid: [u8; 16],
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
}

/// Addressing of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MadAddress {
    /// Destination LID; unused if the route is directed from its start.
    pub dlid: u16,
    /// Low bits of the source LID, used if LMC gives the port several.
    pub path_bits: u8,
    /// Service level.
    pub sl: u8,
    /// Source queue pair: 0, or 1.
    pub src_qp: u32,
    /// Destination queue pair: 0 for subnet management, 1 for the general services.
    pub dest_qp: u32,
    /// Q_Key; unused for queue pair 0.
    pub qkey: u32,
    /// P_Key; unused for queue pair 0.
    pub pkey: u16,
    /// Its GRH, if it has one.
    pub grh: Option<GlobalRoute>,
}

impl MadAddress {
    /// Returns the address of an SMP to this LID.
    pub const fn smi(dlid: u16) -> MadAddress {
        MadAddress { dlid, path_bits: 0, sl: 0, src_qp: SMI_QPN, dest_qp: SMI_QPN, qkey: 0, pkey: 0xffff, grh: None }
    }

    /// Returns the address of a GMP to this LID in this partition.
    pub const fn gsi(dlid: u16, pkey: u16) -> MadAddress {
        MadAddress { src_qp: GSI_QPN, dest_qp: GSI_QPN, qkey: GSI_QKEY, pkey, ..MadAddress::smi(dlid) }
    }
}

/// A datagram that a host sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MadOut {
    /// Its addressing.
    pub to: MadAddress,
    /// Its bytes.
    pub mad: Mad,
}

/// A datagram received for the agents of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The receiving port.
    pub port: PortRef,
    /// LID of the sender; the permissive LID if the route was directed.
    pub slid: u16,
    /// Low bits of the destination LID.
    pub path_bits: u8,
    /// Service level.
    pub sl: u8,
    /// Source queue pair.
    pub src_qp: u32,
    /// Destination queue pair.
    pub dest_qp: u32,
    /// Entry of the port's P_Key table that its P_Key matches.
    pub pkey_index: u16,
    /// The P_Key of that entry, for the answer: the port may be a limited member and the sender a full one.
    pub pkey: u16,
    /// Its GRH, if it has one.
    pub grh: Option<GlobalRoute>,
    /// Its bytes.
    pub mad: Mad,
}

/// Reason why the fabric refused a datagram from a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The fabric has no such port, or it is a switch's external one.
    #[error("{0} is not a port that hosts send through: name an adapter's")]
    NoSuchPort(PortRef),
    /// The node has no power.
    #[error("{0} is powered off: power it on first")]
    PoweredOff(PortRef),
    /// Hop pointer, hop count or the path's first port is invalid.
    #[error(
        "the directed route does not begin at the sending port: hop pointer 0, first hop that port, at most 63 hops"
    )]
    BadRoute,
    /// Queue pair 0 with a class other than subnet management, or the reverse.
    #[error("subnet management uses queue pair 0, every other class queue pair 1")]
    WrongQueuePair,
}
