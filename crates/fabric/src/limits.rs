//! Limits of a fabric, whatever its description and its managers ask for.

use weft_verbs::Duration;

/// Entries of a switch's linear forwarding table: every unicast LID.
pub const LINEAR_FDB_CAP: u16 = 0xc000;
/// Entries of a switch's multicast forwarding table.
pub const MULTICAST_FDB_CAP: u16 = 0x1000;
/// P_Keys of an adapter's or router's port, and of each external port of a switch.
pub const PKEYS: u16 = 128;
/// P_Keys of a switch's port 0.
pub const PKEYS_PORT0: u16 = 32;
/// GUIDs of an adapter's port.
pub const GUIDS: u8 = 8;
/// Entries of each of a port's two VL arbitration tables.
pub const VL_ARBITRATION_CAP: u8 = 8;
/// VLCap for data lanes VL0-7.
pub const VL_CAP: u8 = 4;
/// MTUCap: 4096 bytes.
pub const MTU_CAP: u8 = 5;
/// Links that a packet may cross before it counts as looping.
pub const HOPS_MAX: usize = 64;
/// Links that all copies of one multicast packet cross together.
pub const COPIES_MAX: usize = 1 << 18;
/// Datagrams on cables with latency; more are lost, as with full buffers.
pub const IN_FLIGHT_MAX: usize = 1 << 16;
/// Datagrams delivered but not yet fetched; more are lost.
pub const DELIVERIES_MAX: usize = 1 << 16;
/// Packets that passed the tap but were not fetched yet; more are dropped from the capture.
pub const TAPPED_MAX: usize = 1 << 14;
/// Traps of one node that no manager has repressed; further ones are not sent.
pub const TRAPS_PENDING_MAX: usize = 16;
/// Times that a trap is sent before the node gives up.
pub const TRAP_TRIES_MAX: u8 = 10;
/// Traps that one packet's path, or one fault, can raise before they are sent.
pub const RAISED_MAX: usize = 1 << 16;
/// The shortest time between two tries of one trap, whatever SubnetTimeOut says.
pub const TRAP_INTERVAL_MIN: Duration = Duration::from_millis(250);
/// The longest time between two tries of one trap.
pub const TRAP_INTERVAL_MAX: Duration = Duration::from_secs(60);
/// Training time of a link.
pub const TRAINING: Duration = Duration::from_millis(2);
/// Data packets on cables with latency; more are lost, as with full buffers.
pub const TRANSIT_PACKETS_MAX: usize = 1 << 16;
/// Bytes of those packets.
pub const TRANSIT_BYTES_MAX: usize = 64 << 20;
