//! The Internet checksum (RFC 1071).

/// Returns the checksum of the parts in a row; only the last may have an odd length.
pub(crate) fn internet_checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let mut sum: u64 = words.map(|word| u64::from(word[0]) << 8 | u64::from(word.get(1).copied().unwrap_or(0))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Returns the checksum of an ICMPv6 message (RFC 4443 §2.3).
pub(crate) fn icmpv6_checksum(src: &[u8; 16], dst: &[u8; 16], message: &[u8]) -> u16 {
    let (length, next) = ((message.len() as u32).to_be_bytes(), [0, 0, 0, ICMPV6]);
    internet_checksum(&[src, dst, &length, &next, message])
}

/// Next header: ICMPv6.
pub(crate) const ICMPV6: u8 = 58;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_rfc_1071_and_of_an_odd_length() {
        assert_eq!(internet_checksum(&[&[0, 1, 0xf2, 3], &[0xf4, 0xf5, 0xf6, 0xf7]]), !0xddf2);
        assert_eq!(internet_checksum(&[&[1]]), !0x100);
        assert_eq!(internet_checksum(&[&[0xff; 1 << 16]]), 0);
    }
}
