//! Management datagrams of a virtual host's port: what is asked of the daemon over the session, and the form of the
//! datagrams on the port's own socket.
//!
//! A port that a program opened is a `SOCK_SEQPACKET` socket, and its program's end is the descriptor that the program
//! polls. Each packet is the head of `struct ib_user_mad` ([`UmadHead`], in the byte order of the machine where the C
//! structure is) and bytes of the datagram. A datagram too long for one packet (RMPP) goes on in the packets that follow
//! at once, which are [`UMAD_PACKET_BYTES_MAX`] long but for the last and carry no head; [`UmadHead::length`] is that of
//! the whole, head included, both ways. Beside the socket there are rings in shared memory for what is short:
//! [`crate::umad_ring`].

use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::limits::UMAD_MESSAGE_BYTES_MAX;

/// Bytes of the head.
pub const UMAD_HEAD_BYTES: usize = size_of::<UmadHead>();

/// Longest packet on a port's socket, head included.
pub const UMAD_PACKET_BYTES_MAX: usize = 4096;

/// The head of `struct ib_user_mad`, as Linux and rdma-core lay it out.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct UmadHead {
    /// Agent of the port.
    pub agent: u32,
    /// 0, or the errno value with which a datagram comes back that was not answered.
    pub status: u32,
    /// Milliseconds to wait for a response, 0 for none.
    pub timeout_ms: u32,
    /// How many times to send it again.
    pub retries: u32,
    /// Bytes of head and datagram.
    pub length: u32,
    /// Queue pair at the other end, in network order.
    pub qpn: [u8; 4],
    /// Q_Key, in network order.
    pub qkey: [u8; 4],
    /// LID of the other end, in network order.
    pub lid: [u8; 2],
    /// Service level.
    pub sl: u8,
    /// Path bits of the own LID.
    pub path_bits: u8,
    /// Whether there is a GRH.
    pub grh_present: u8,
    /// Row of the GID table.
    pub gid_index: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// GID of the other end.
    pub gid: [u8; 16],
    /// Flow label, in network order.
    pub flow_label: [u8; 4],
    /// Row of the P_Key table.
    pub pkey_index: u16,
    /// Nothing.
    pub reserved: [u8; 6],
}

const _: () = assert!(UMAD_HEAD_BYTES == 64);

impl UmadHead {
    /// Reads one; `None` if the packet is shorter, or names a length that cannot be.
    pub fn decode(packet: &[u8]) -> Option<(UmadHead, &[u8])> {
        let (head, rest) = UmadHead::read_from_prefix(packet).ok()?;
        let length = head.length as usize;
        (length >= packet.len() && length <= UMAD_MESSAGE_BYTES_MAX).then_some((head, rest))
    }
}

/// What a program asks about management datagrams.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum UmadRequest {
    /// Open a port; the program's end of its socket comes with the reply, and the memory of its rings.
    Open {
        /// The device.
        device: u32,
        /// Number of its port.
        port: u8,
    },
    /// Close it; so does closing the socket.
    Close {
        /// Handle of the open port.
        handle: u32,
    },
    /// Register an agent on an open port.
    Register {
        /// Handle of the open port.
        handle: u32,
        /// The agent.
        agent: UmadAgent,
    },
    /// Take an agent off.
    Unregister {
        /// Handle of the open port.
        handle: u32,
        /// Number of the agent.
        agent: u32,
    },
    /// Say that a subnet manager runs on this port, or no longer: its CapabilityMask shows IsSM as long as the sessions
    /// that say so last.
    SetIsSm {
        /// The device.
        device: u32,
        /// Number of its port.
        port: u8,
        /// Whether it does.
        is_sm: bool,
    },
    /// The counters of a port.
    Counters {
        /// The device.
        device: u32,
        /// Number of its port.
        port: u8,
    },
}

/// An agent: what it sends, and what it wants to get unasked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct UmadAgent {
    /// Queue pair: 0 for subnet management, 1 for everything else.
    pub qpn: u8,
    /// Management class of unsolicited datagrams; 0 wants none.
    pub class: u8,
    /// Its version.
    pub class_version: u8,
    /// For vendor classes from 0x30 on, whose they are.
    pub oui: u32,
    /// Methods that it wants to get unasked, a bit each.
    pub method_mask: u128,
    /// Version of RMPP, 0 for none.
    pub rmpp_version: u8,
    /// The program carries RMPP out by itself.
    pub user_rmpp: bool,
}

/// What the daemon answers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum UmadResponse {
    /// A port was opened.
    Opened {
        /// Handle to name it by.
        handle: u32,
    },
    /// An agent was registered.
    Registered {
        /// Its number on this port.
        agent: u32,
    },
    /// Counters of a port.
    Counters(Box<IbCounters>),
    /// It was done.
    Done,
}

/// What a port counted: PortCounters and PortCountersExtended (IBA 16.1.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs)] // The names are those of the specification, as sysfs spells them.
pub struct IbCounters {
    pub symbol_error: u64,
    pub link_error_recovery: u64,
    pub link_downed: u64,
    pub port_rcv_errors: u64,
    pub port_rcv_remote_physical_errors: u64,
    pub port_rcv_switch_relay_errors: u64,
    pub port_xmit_discards: u64,
    pub port_xmit_constraint_errors: u64,
    pub port_rcv_constraint_errors: u64,
    pub local_link_integrity_errors: u64,
    pub excessive_buffer_overrun_errors: u64,
    pub vl15_dropped: u64,
    pub port_xmit_wait: u64,
    pub port_xmit_data: u64,
    pub port_rcv_data: u64,
    pub port_xmit_packets: u64,
    pub port_rcv_packets: u64,
    pub unicast_xmit_packets: u64,
    pub unicast_rcv_packets: u64,
    pub multicast_xmit_packets: u64,
    pub multicast_rcv_packets: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_head_names_a_length_that_can_be() {
        let head = |length| UmadHead { length, ..UmadHead::default() };
        let packet = |length| [head(length).as_bytes(), &[0; 256]].concat();
        assert_eq!(UmadHead::decode(&packet(320)).map(|(_, mad)| mad.len()), Some(256));
        assert!(UmadHead::decode(&packet(1 << 20)).is_some());
        assert!(UmadHead::decode(&packet(319)).is_none());
        assert!(UmadHead::decode(&packet(u32::MAX)).is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            if let Some((head, mad)) = UmadHead::decode(&bytes) {
                prop_assert!(head.length as usize >= UMAD_HEAD_BYTES + mad.len());
            }
        }
    }
}
