//! ONC RPC over TCP (RFC 5531 §11): records, each made of fragments.

mod record;
mod stream;

pub use record::{RecordReader, record_mark};
pub use stream::{Outgoing, RecordStream};
