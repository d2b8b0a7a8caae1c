//! Identifiers, and their texts.

pub use weft_rdma_service::identifier;

/// Returns a UUID's text.
pub fn uuid_text(bytes: &[u8; 16]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// Reads a UUID, or an NGUID: 32 hexadecimal digits with any dashes.
pub fn parse_identifier(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    let digits: &[u8; 32] = digits.as_slice().try_into().ok()?;
    let mut bytes = [0; 16];
    for (to, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *to = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_back() {
        let bytes = identifier(std::path::Path::new("/a"), "uuid");
        let text = uuid_text(&bytes);
        assert_eq!((text.len(), &text[14..15]), (36, "8"));
        assert_eq!(parse_identifier(&text), Some(bytes));
        assert_eq!((parse_identifier("12"), parse_identifier(&"x".repeat(32))), (None, None));
    }
}
