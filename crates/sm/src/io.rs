//! What goes between the manager and whoever owns its port: datagrams with addresses. The owner offers what Linux's ib_mad
//! offers: it sends a request again as often as told, says when nobody answered, and carries out multi-packet transfers
//! of the administrator's agent. `weft_mad::Port` does so within a process, libibumad outside.

use weft_verbs::Duration;
use weft_wire::mad::Mad;

/// How a datagram travels, or came: the address of the other end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Peer {
    /// Its LID; the permissive LID where a directed route begins.
    pub lid: u16,
    /// Its queue pair.
    pub qpn: u32,
    /// Q_Key that it is sent with, or came with.
    pub qkey: u32,
    /// Entry of this port's P_Key table.
    pub pkey_index: u16,
    /// Service level.
    pub sl: u8,
    /// Low bits of this port's LID.
    pub path_bits: u8,
    /// Its GID and the rest of the GRH, if there is one.
    pub global: Option<Global>,
}

/// What a GRH says of the other end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Global {
    /// Its GID.
    pub gid: [u8; 16],
    /// Entry of this port's GID table.
    pub sgid_index: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
}

/// An SMP to be sent. The lower half of its transaction ID is the manager's and comes back with the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SmpOut {
    /// Where it goes: only the LID counts, and that only if its route is not directed from its start.
    pub dlid: u16,
    /// The datagram.
    pub mad: Mad,
    /// How long each try waits for the answer; zero for what is not answered (an answer, a repress).
    pub timeout: Duration,
    /// How often it is sent again.
    pub retries: u32,
}

/// A datagram of the administrator to be sent: an answer, a report, or a question to another administrator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GmpOut {
    /// Where it goes.
    pub to: Peer,
    /// The datagram, 256 bytes; or all of a multi-packet transfer behind the headers of its first segment.
    pub bytes: Vec<u8>,
    /// How long each try waits for the answer; zero for what is not answered.
    pub timeout: Duration,
    /// How often it is sent again.
    pub retries: u32,
}
