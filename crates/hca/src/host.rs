//! The parts of its process that an adapter works with.

use weft_transport::{Memory, NoPeers, Peers};

use crate::paths::{FabricPaths, NoPaths};

/// The types of an adapter's parts.
pub trait HostInterface {
    /// Registered memory.
    type Memory: Memory;
    /// The other processes of this host.
    type Peers: Peers;
    /// Paths over an InfiniBand fabric whose data goes to other processes of this host.
    type Paths: FabricPaths;
}

/// The parts of its process that an adapter works with.
pub struct HostParts<H: HostInterface> {
    /// Registered memory.
    pub memory: H::Memory,
    /// The other processes of this host.
    pub peers: H::Peers,
    /// Paths over an InfiniBand fabric.
    pub paths: H::Paths,
}

/// An adapter that reaches others by packets alone.
#[derive(Debug)]
pub struct PacketsOnly<M>(std::marker::PhantomData<M>);

impl<M: Memory> PacketsOnly<M> {
    /// Returns the parts of such an adapter.
    pub fn parts(memory: M) -> HostParts<PacketsOnly<M>> {
        HostParts { memory, peers: NoPeers, paths: NoPaths }
    }
}

impl<M: Memory> HostInterface for PacketsOnly<M> {
    type Memory = M;
    type Peers = NoPeers;
    type Paths = NoPaths;
}
