//! Management datagrams of a virtual host's port: requests to the daemon over the session, and the format of datagrams
//! on the port's own socket.
//!
//! An open port is a `SOCK_SEQPACKET` socket, and the program polls its end of it. Each packet is the head of `struct
//! ib_user_mad` ([`UmadHead`], in the machine's byte order where the C structure is) and bytes of the datagram. A
//! datagram too long for one packet (RMPP) continues in the packets that follow immediately; they carry no head, and
//! all but the last are [`UMAD_PACKET_BYTES_MAX`] long. [`UmadHead::length`] is the length of the whole, head included,
//! both ways. Beside the socket, rings in shared memory carry short datagrams: [`crate::umad_ring`].

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
    /// Agent on the port.
    pub agent: u32,
    /// 0, or the errno value that marks a returned datagram as unanswered.
    pub status: u32,
    /// Response timeout in milliseconds, 0 for none.
    pub timeout_ms: u32,
    /// Number of retries.
    pub retries: u32,
    /// Bytes of head and datagram together.
    pub length: u32,
    /// Remote queue pair, in network order.
    pub qpn: [u8; 4],
    /// Q_Key, in network order.
    pub qkey: [u8; 4],
    /// Remote LID, in network order.
    pub lid: [u8; 2],
    /// Service level.
    pub sl: u8,
    /// Path bits of the local LID.
    pub path_bits: u8,
    /// Whether there is a GRH.
    pub grh_present: u8,
    /// Row of the GID table.
    pub gid_index: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Remote GID.
    pub gid: [u8; 16],
    /// Flow label, in network order.
    pub flow_label: [u8; 4],
    /// Row of the P_Key table.
    pub pkey_index: u16,
    /// Reserved.
    pub reserved: [u8; 6],
}

const _: () = assert!(UMAD_HEAD_BYTES == 64);

impl UmadHead {
    /// Decodes a head; `None` if the packet is shorter than a head, or names an impossible length.
    pub fn decode(packet: &[u8]) -> Option<(UmadHead, &[u8])> {
        let (head, rest) = UmadHead::read_from_prefix(packet).ok()?;
        let length = head.length as usize;
        (length >= packet.len() && length <= UMAD_MESSAGE_BYTES_MAX).then_some((head, rest))
    }
}

/// A program's request about management datagrams.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum UmadRequest {
    /// Open a port; the program's end of its socket and the memory of its rings come with the reply.
    Open {
        /// Device.
        device: u32,
        /// Port number.
        port: u8,
    },
    /// Close an open port, as closing the socket does.
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
    /// Unregister an agent.
    Unregister {
        /// Handle of the open port.
        handle: u32,
        /// Number of the agent.
        agent: u32,
    },
    /// Report that a subnet manager starts or stops running on this port: its CapabilityMask shows IsSM as long as a
    /// session that reports one lasts.
    SetIsSm {
        /// Device.
        device: u32,
        /// Port number.
        port: u8,
        /// Whether one runs.
        is_sm: bool,
    },
    /// Counters of a port.
    Counters {
        /// Device.
        device: u32,
        /// Port number.
        port: u8,
    },
}

/// An agent: the datagrams that it sends, and the unsolicited ones that it wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct UmadAgent {
    /// Queue pair: 0 for subnet management, 1 for everything else.
    pub qpn: u8,
    /// Management class of unsolicited datagrams; 0 for none.
    pub class: u8,
    /// Version of the class.
    pub class_version: u8,
    /// OUI of the vendor, for vendor classes from 0x30 on.
    pub oui: u32,
    /// Methods of the unsolicited datagrams that it wants, one bit each.
    pub method_mask: u128,
    /// Version of RMPP, 0 for none.
    pub rmpp_version: u8,
    /// The program implements RMPP itself.
    pub user_rmpp: bool,
}

/// The daemon's reply about management datagrams.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum UmadResponse {
    /// A port is open.
    Opened {
        /// Handle for later requests.
        handle: u32,
    },
    /// An agent is registered.
    Registered {
        /// Number of the agent on this port.
        agent: u32,
    },
    /// Counters of a port.
    Counters(Box<IbCounters>),
    /// Done.
    Done,
}

/// Counters of a port: PortCounters and PortCountersExtended (IBA 16.1.3).
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
