//! Management datagrams as hosts hand them in and get them.

use crate::PortRef;
use weft_wire::mad::{GSI_QKEY, GSI_QPN, Mad, SMI_QPN};

/// Where a datagram with a GRH comes from and goes to.
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

/// How a datagram travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MadAddress {
    /// Destination LID; not looked at if the route is directed from its start.
    pub dlid: u16,
    /// Low bits of the source LID, where LMC gives the port several.
    pub path_bits: u8,
    /// Service level.
    pub sl: u8,
    /// Queue pair that sends: 0, or 1.
    pub src_qp: u32,
    /// Queue pair that it is for: 0 of subnet management, 1 of the general services.
    pub dest_qp: u32,
    /// Q_Key; not looked at for queue pair 0.
    pub qkey: u32,
    /// P_Key; not looked at for queue pair 0.
    pub pkey: u16,
    /// Its GRH, if it has one.
    pub grh: Option<GlobalRoute>,
}

impl MadAddress {
    /// An SMP to this LID.
    pub const fn smi(dlid: u16) -> MadAddress {
        MadAddress { dlid, path_bits: 0, sl: 0, src_qp: SMI_QPN, dest_qp: SMI_QPN, qkey: 0, pkey: 0xffff, grh: None }
    }

    /// A GMP to this LID in this partition.
    pub const fn gsi(dlid: u16, pkey: u16) -> MadAddress {
        MadAddress { src_qp: GSI_QPN, dest_qp: GSI_QPN, qkey: GSI_QKEY, pkey, ..MadAddress::smi(dlid) }
    }
}

/// A datagram that a host sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MadOut {
    /// How it travels.
    pub to: MadAddress,
    /// Its bytes.
    pub mad: Mad,
}

/// A datagram that came for the agents of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The port that it came to.
    pub port: PortRef,
    /// LID of the sender; the permissive LID if the route was directed.
    pub slid: u16,
    /// Low bits of the LID that it was sent to.
    pub path_bits: u8,
    /// Service level.
    pub sl: u8,
    /// Queue pair that sent it.
    pub src_qp: u32,
    /// Queue pair that it is for.
    pub dest_qp: u32,
    /// Entry of the port's P_Key table that its P_Key matches.
    pub pkey_index: u16,
    /// The P_Key of that entry, which an answer carries: the port may be a limited member where the sender is a full one.
    pub pkey: u16,
    /// Its GRH, if it has one.
    pub grh: Option<GlobalRoute>,
    /// Its bytes.
    pub mad: Mad,
}

/// Why a datagram was not taken from a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The fabric has no such port, or it is a switch's external one.
    #[error("{0} is not a port that hosts send through: name an adapter's")]
    NoSuchPort(PortRef),
    /// The node has no power.
    #[error("{0} is powered off: power it on first")]
    PoweredOff(PortRef),
    /// Hop pointer, hop count or the path's first port cannot be.
    #[error(
        "the directed route does not begin at the sending port: hop pointer 0, first hop that port, at most 63 hops"
    )]
    BadRoute,
    /// Queue pair 0 and a class that is not of subnet management, or the other way round.
    #[error("subnet management uses queue pair 0, every other class queue pair 1")]
    WrongQueuePair,
}
