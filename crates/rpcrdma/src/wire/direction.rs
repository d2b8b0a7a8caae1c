//! Direction of an RPC message. Calls of both directions share a connection, and only the RPC message itself says which
//! side called (RFC 8167): its second word is CALL or REPLY (RFC 5531 §9).

use super::xdr::XdrReader;

/// `msg_type` of an RPC message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageType {
    /// The sender calls.
    Call,
    /// The sender answers.
    Reply,
}

/// Returns the type of an RPC message; `None` if it is not one.
pub fn message_type(message: &[u8]) -> Option<MessageType> {
    let mut xdr = XdrReader::new(message);
    xdr.u32()?;
    match xdr.u32()? {
        0 => Some(MessageType::Call),
        1 => Some(MessageType::Reply),
        _ => None,
    }
}

/// Returns the transaction of an RPC message; `None` if it is too short.
pub fn xid(message: &[u8]) -> Option<u32> {
    XdrReader::new(message).u32()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_word_decides() {
        assert_eq!(message_type(&[1, 2, 3, 4, 0, 0, 0, 0]), Some(MessageType::Call));
        assert_eq!(message_type(&[1, 2, 3, 4, 0, 0, 0, 1]), Some(MessageType::Reply));
        assert_eq!(message_type(&[1, 2, 3, 4, 0, 0, 0, 2]), None);
        assert_eq!(message_type(&[1, 2, 3, 4, 0, 0, 0]), None);
        assert_eq!((xid(&[1, 2, 3, 4]), xid(&[1, 2, 3])), (Some(0x0102_0304), None));
    }
}
