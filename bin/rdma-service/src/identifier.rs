//! Identifiers for what has none: the same at each start.

use std::path::Path;

/// Returns an identifier of 16 bytes: the same for the same machine, path and purpose (FNV-1a, in the form of a UUID).
pub fn identifier(path: &Path, purpose: &str) -> [u8; 16] {
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let text = format!("{}\0{}\0{purpose}", machine.trim(), path.display());
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for byte in text.bytes() {
        hash = (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
    }
    let mut bytes = hash.to_be_bytes();
    // Version 8 (custom), variant of RFC 9562.
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_stable_and_differ() {
        let of = |path: &str, purpose| identifier(Path::new(path), purpose);
        assert_eq!(of("/a", "uuid"), of("/a", "uuid"));
        assert!(of("/a", "uuid") != of("/b", "uuid") && of("/a", "uuid") != of("/a", "nguid"));
    }
}
