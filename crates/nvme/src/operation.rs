//! Operations on a namespace: a host asks for them, and a target executes them.

/// Operation on a namespace. Offsets and lengths are bytes within it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Read `length` bytes.
    Read {
        /// Begin.
        offset: u64,
        /// Length.
        length: u32,
    },
    /// Write the data; `durable`: it survives a power failure once the command completes.
    Write {
        /// Begin.
        offset: u64,
        /// Length.
        length: u32,
        /// Force Unit Access.
        durable: bool,
    },
    /// Compare the data with the namespace's.
    Compare {
        /// Begin.
        offset: u64,
        /// Length.
        length: u32,
    },
    /// Set bytes to zero; `deallocate`: their space may be freed.
    WriteZeroes {
        /// Begin.
        offset: u64,
        /// Length.
        length: u64,
        /// Deallocate.
        deallocate: bool,
        /// Force Unit Access.
        durable: bool,
    },
    /// Free the space of ranges: offset and length of each.
    Deallocate(Vec<(u64, u64)>),
    /// Make all completed writes durable.
    Flush,
}
