//! Messages as bytes.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::limits::MESSAGE_BYTES_MAX;

/// Why bytes are not a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    /// Longer than [`MESSAGE_BYTES_MAX`].
    #[error("the message is longer than {MESSAGE_BYTES_MAX} bytes")]
    TooLong,
    /// Not a value of the expected type, or followed by more bytes.
    #[error("the message is malformed")]
    Malformed,
}

/// Encodes a message.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, DecodeError> {
    let bytes = postcard::to_stdvec(message).map_err(|_| DecodeError::Malformed)?;
    if bytes.len() > MESSAGE_BYTES_MAX { Err(DecodeError::TooLong) } else { Ok(bytes) }
}

/// Decodes a message. A length inside it never reserves more memory than the remaining bytes can fill.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    if bytes.len() > MESSAGE_BYTES_MAX {
        return Err(DecodeError::TooLong);
    }
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        _ => Err(DecodeError::Malformed),
    }
}
