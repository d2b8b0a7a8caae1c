//! ONC RPC over TCP (RFC 5531 §11): records, each made of fragments.

mod record;
mod stream;

pub use record::RecordReader;
pub use stream::{Outgoing, RecordStream};

/// Bit of a fragment's header that marks the record's last one.
const LAST_FRAGMENT: u32 = 1 << 31;

/// Returns the header of a record that is one fragment.
pub fn record_mark(len: usize) -> [u8; 4] {
    // Records are shorter than `MESSAGE_MAX_BYTES`.
    (LAST_FRAGMENT | len as u32).to_be_bytes()
}
