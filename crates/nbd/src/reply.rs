//! Data of replies.

/// Data of a READ's reply that the owner sends from where it lies, without a copy into the output.
pub trait ReplyData {
    /// Number of bytes.
    fn byte_count(&self) -> usize;
}

impl ReplyData for Vec<u8> {
    fn byte_count(&self) -> usize {
        self.len()
    }
}

/// Data of a reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply<D> {
    /// Few bytes, which are sent in one piece with the header; none, if the request was no READ.
    Bytes(Vec<u8>),
    /// Data that the owner keeps until it is sent.
    Data(D),
}

impl<D> Default for Reply<D> {
    fn default() -> Reply<D> {
        Reply::Bytes(Vec::new())
    }
}

impl<D: ReplyData> Reply<D> {
    /// Number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Reply::Bytes(bytes) => bytes.len(),
            Reply::Data(data) => data.byte_count(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
