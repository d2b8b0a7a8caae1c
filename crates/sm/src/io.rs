//! Interface between the manager and the owner of its port: MADs with addresses. The owner does what Linux's ib_mad
//! does: it sends the retries of a request, reports a timeout, and carries out RMPP transfers of the SA.
//! `weft_mad::Port` does so within a process, libibumad outside.

use weft_verbs::Duration;
use weft_wire::mad::Mad;

/// Address of the other end of a MAD, sent or received.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Peer {
    /// Its LID; the permissive LID at the start of a directed route.
    pub lid: u16,
    /// Its queue pair.
    pub qpn: u32,
    /// Q_Key of the MAD, sent or received.
    pub qkey: u32,
    /// Index into this port's P_Key table.
    pub pkey_index: u16,
    /// Service level.
    pub sl: u8,
    /// Low bits of this port's LID.
    pub path_bits: u8,
    /// Its GID and the rest of the GRH, if there is one.
    pub global: Option<Global>,
}

/// GRH fields of the other end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Global {
    /// Its GID.
    pub gid: [u8; 16],
    /// Index into this port's GID table.
    pub sgid_index: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
}

/// An SMP to send. The lower half of its transaction ID is the manager's; the answer returns it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SmpOut {
    /// Destination LID; it counts only if the route is not directed from its start.
    pub dlid: u16,
    /// The MAD.
    pub mad: Mad,
    /// Timeout of each try; zero for a MAD without answer (an answer, a TrapRepress).
    pub timeout: Duration,
    /// Number of retries.
    pub retries: u32,
}

/// A MAD of the SA to send: an answer, a report, or a query to another SA.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GmpOut {
    /// Destination.
    pub to: Peer,
    /// The MAD, 256 bytes; or a whole RMPP transfer behind the headers of its first segment.
    pub bytes: Vec<u8>,
    /// Timeout of each try; zero for a MAD without answer.
    pub timeout: Duration,
    /// Number of retries.
    pub retries: u32,
}
