//! Access rights of memory regions, windows and queue pairs.

bitflags::bitflags! {
    /// `IBV_ACCESS_*`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Access: u32 {
        /// The adapter may write locally (receives, READ results).
        const LOCAL_WRITE = 1;
        /// A peer may WRITE.
        const REMOTE_WRITE = 1 << 1;
        /// A peer may READ.
        const REMOTE_READ = 1 << 2;
        /// A peer may do atomics.
        const REMOTE_ATOMIC = 1 << 3;
        /// A memory window may be bound to the region.
        const MW_BIND = 1 << 4;
        /// Addresses count from zero (or from the iova given).
        const ZERO_BASED = 1 << 5;
        /// Pages need not be pinned: free for an adapter made of software.
        const ON_DEMAND = 1 << 6;
        /// Huge pages are expected (a hint).
        const HUGETLB = 1 << 7;
        /// A peer may FLUSH to global visibility.
        const FLUSH_GLOBAL = 1 << 8;
        /// A peer may FLUSH to persistence.
        const FLUSH_PERSISTENT = 1 << 9;
        /// Relaxed ordering (a hint).
        const RELAXED_ORDERING = 1 << 20;
    }
}

impl Access {
    /// Rights that let a peer change memory; a region with one of them needs [`Access::LOCAL_WRITE`] (IBA C11-8).
    pub const REMOTE_CHANGE: Access = Access::REMOTE_WRITE.union(Access::REMOTE_ATOMIC);

    /// Everything a region may be registered with here.
    pub const SUPPORTED: Access = Access::all();
}
