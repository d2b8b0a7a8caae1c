//! Paths over an InfiniBand fabric whose ends are processes of one host: the fabric decides whether packets would
//! arrive, and data goes through shared memory.

use weft_verbs::{DeviceId, Gid};

/// A path, as packets would take it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FabricPath {
    /// Local device.
    pub device: DeviceId,
    /// Its port.
    pub port: u8,
    /// Destination LID; 0 from an Ethernet port.
    pub dlid: u16,
    /// Destination GID from an Ethernet port, where it alone names the destination; zero elsewhere.
    pub dgid: Gid,
    /// Service level.
    pub sl: u8,
    /// P_Key.
    pub pkey: u16,
    /// Bytes of payload of the longest packet.
    pub mtu: u16,
    /// Slot of the peer's process; 0 for a group.
    pub slot: u32,
    /// Whether answers must arrive too.
    pub there_and_back: bool,
}

/// State of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathState {
    /// Packets arrive.
    Open,
    /// Packets do not arrive.
    Closed,
    /// Not known yet; a query is under way.
    Asked,
}

/// The known paths. The defaults are those of a process that is on no fabric.
#[allow(unused_variables)]
pub trait FabricPaths {
    /// Returns whether datagrams arrive by a path. An unknown path is queried for the next call.
    fn state(&mut self, path: &FabricPath) -> PathState {
        PathState::Closed
    }

    /// Returns the slots of the processes that receive datagrams to a group by a path, this one included if it
    /// listens. `None`: not known; it is queried for the next call.
    fn group(&mut self, path: &FabricPath) -> Option<&[u32]> {
        Some(&[])
    }
}

/// The process is on no fabric.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPaths;

impl FabricPaths for NoPaths {}
