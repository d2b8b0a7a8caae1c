//! Handles of the objects that one process owns. They are small integers into the tables of `hca`; a stale handle is
//! answered with an error, never with another object, because each carries the generation of its slot.

macro_rules! handle {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name {
            /// Index into the table.
            pub index: u32,
            /// Generation of that place, so that a handle kept too long is noticed.
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

/// A queue pair number: 24 bits, as it stands in the BTH.
pub type Qpn = u32;

/// The cookie that the owner of an object gave when creating it (the ABI layer's pointer); it comes back in events.
pub type Cookie = u64;

/// Index of a device (adapter) among those the daemon told this process about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct DeviceId(pub u32);
