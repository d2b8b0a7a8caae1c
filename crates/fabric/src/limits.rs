//! What a fabric is never more than, whatever it is told.

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
/// Entries of each of a port's two tables of VL arbitration.
pub const VL_ARBITRATION_CAP: u8 = 8;
/// VLCap and the number of data lanes that it stands for: VL0-7.
pub const VL_CAP: u8 = 4;
/// MTUCap: 4096 bytes.
pub const MTU_CAP: u8 = 5;
/// Links that a packet crosses before it is held to be in a loop.
pub const HOPS_MAX: usize = 64;
/// Links that all copies of one multicast cross together.
pub const COPIES_MAX: usize = 1 << 18;
/// Datagrams on cables that take time; more are lost, as in buffers that are full.
pub const IN_FLIGHT_MAX: usize = 1 << 16;
/// Datagrams that nobody has fetched; more are lost.
pub const DELIVERIES_MAX: usize = 1 << 16;
/// Traps of one node that nobody repressed; what comes besides is not told.
pub const TRAPS_PENDING_MAX: usize = 16;
/// Times that a trap is sent before the node gives up.
pub const TRAP_TRIES_MAX: u8 = 10;
/// Traps that one packet's way, or one fault, can raise before they are sent.
pub const RAISED_MAX: usize = 1 << 16;
/// The shortest time between two tries of one trap, whatever SubnetTimeOut says.
pub const TRAP_INTERVAL_MIN: Duration = Duration::from_millis(250);
/// The longest.
pub const TRAP_INTERVAL_MAX: Duration = Duration::from_secs(60);
/// How long two ports that see each other train their link.
pub const TRAINING: Duration = Duration::from_millis(2);
/// Packets of data on cables that take time; more are lost, as in buffers that are full.
pub const TRANSIT_PACKETS_MAX: usize = 1 << 16;
/// Bytes of them.
pub const TRANSIT_BYTES_MAX: usize = 64 << 20;
