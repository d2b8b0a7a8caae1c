//! Handles of the objects that one process owns. They are small integers into the tables of `hca`. Each carries the
//! generation of its slot, so a stale handle yields an error and never another object.

macro_rules! handle {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name {
            /// Index into the table.
            pub index: u32,
            /// Generation of the slot, which exposes stale handles.
            pub generation: u32,
        }
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({}.{})"), self.index, self.generation)
            }
        }
    )*};
}

handle! {
    /// A protection domain.
    PdId,
    /// A memory region.
    MrId,
    /// A memory window.
    MwId,
    /// A completion queue.
    CqId,
    /// A shared receive queue.
    SrqId,
    /// A queue pair.
    QpId,
    /// An XRC domain.
    XrcdId,
}

/// A queue pair number: 24 bits, as in the BTH.
pub type Qpn = u32;

/// The cookie that the owner of an object passed at creation (the ABI layer's pointer); events return it.
pub type Cookie = u64;

/// Index of a device (adapter) in the daemon's list for this process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct DeviceId(pub u32);
