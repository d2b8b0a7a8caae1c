//! Steps of a command, and work on the medium of a logical unit.

use super::Sense;

/// Operation on a logical unit. Offsets and lengths are bytes within it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Read `length` bytes; `durable`: cached writes of them reach the medium before.
    Read {
        /// Begin.
        offset: u64,
        /// Length.
        length: u32,
        /// Force Unit Access.
        durable: bool,
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
    /// Read bytes and drop them, to find out whether they can be read.
    Verify {
        /// Begin.
        offset: u64,
        /// Length.
        length: u32,
    },
    /// Compare the data with the medium's.
    Compare {
        /// Begin.
        offset: u64,
        /// Length.
        length: u32,
    },
    /// Write one block again and again.
    Repeat {
        /// Begin.
        offset: u64,
        /// Length.
        length: u64,
        /// The block.
        block: Vec<u8>,
    },
    /// Set bytes to zero; `deallocate`: their space may be freed.
    WriteZeroes {
        /// Begin.
        offset: u64,
        /// Length.
        length: u64,
        /// Deallocate.
        deallocate: bool,
    },
    /// Free the space of ranges: offset and length of each.
    Deallocate(Vec<(u64, u64)>),
    /// Make all completed writes durable.
    Flush,
}

impl Operation {
    /// Bytes that the operation takes from the initiator.
    pub fn data_out(&self) -> u32 {
        match self {
            Operation::Write { length, .. } | Operation::Compare { length, .. } => *length,
            _ => 0,
        }
    }

    /// Bytes that the operation returns to the initiator.
    pub fn data_in(&self) -> u32 {
        match self {
            Operation::Read { length, .. } => *length,
            _ => 0,
        }
    }

    /// Returns a Read of the first bytes alone, where the initiator has less memory than the command asks for.
    #[must_use]
    pub fn cut(self, most: u32) -> Operation {
        match self {
            Operation::Read { offset, length, durable } => {
                Operation::Read { offset, length: length.min(most), durable }
            }
            other => other,
        }
    }
}

/// Next step of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// It ends with GOOD.
    Done,
    /// It returns these bytes, and ends with GOOD.
    Data(Vec<u8>),
    /// It needs as many bytes from the initiator, for [`Device::with_data`](super::Device::with_data).
    Fetch(u32),
    /// It works on the medium, and ends with that.
    Execute(Operation),
}

/// Reason why an operation failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The medium cannot be read.
    Read,
    /// The medium cannot be written.
    Write,
    /// The medium has no space left.
    NoSpace,
    /// The data differs.
    Miscompare,
    /// The operation did not run: the owner dropped it.
    Dropped,
}

impl Fault {
    /// Returns the sense data for the initiator.
    pub fn sense(self) -> Sense {
        match self {
            Fault::Read => Sense::READ_ERROR,
            Fault::Write | Fault::Dropped => Sense::WRITE_ERROR,
            Fault::NoSpace => Sense::NO_SPACE,
            Fault::Miscompare => Sense::MISCOMPARE,
        }
    }
}
