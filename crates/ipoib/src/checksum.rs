//! The Internet checksum (RFC 1071).

/// Returns the checksum of the parts in a row; only the last may have an odd length.
pub(crate) fn internet_checksum(parts: &[&[u8]]) -> u16 {
    let sum = parts.iter().map(|part| sum(part)).sum();
    // The sum of swapped words is the swapped sum.
    !u16::from_be(fold(sum))
}

/// Returns the sum of a part's 16-bit words in the machine's byte order, not yet folded: four bytes at a time, since a
/// compiler turns that into vector instructions.
fn sum(part: &[u8]) -> u64 {
    let (words, rest) = part.as_chunks::<4>();
    let mut last = [0; 4];
    last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    let words = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word)));
    words.sum::<u64>() + u64::from(u32::from_ne_bytes(last))
}

/// Folds a sum of 16-bit words into one.
pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Completes the checksum of the bytes from `start` on, whose field at `at` holds the sum of the pseudo header.
pub(crate) fn complete(packet: &mut [u8], start: usize, at: usize) {
    let sum = internet_checksum(&[packet.get(start..).unwrap_or_default()]);
    if let Some(field) = packet.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        // In UDP, zero means that there is no checksum. All ones are the same number.
        *field = if sum == 0 { [0xff; 2] } else { sum.to_be_bytes() };
    }
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
    use proptest::prelude::*;

    #[test]
    fn the_sum_of_rfc_1071_and_of_an_odd_length() {
        assert_eq!(internet_checksum(&[&[0, 1, 0xf2, 3], &[0xf4, 0xf5, 0xf6, 0xf7]]), !0xddf2);
        assert_eq!(internet_checksum(&[&[1]]), !0x100);
        assert_eq!(internet_checksum(&[&[0xff; 1 << 16]]), 0);
    }

    proptest! {
        #[test]
        fn the_sum_is_that_of_16_bit_words(bytes: Vec<u8>, even in 0..8_usize) {
            let words = bytes.chunks(2).map(|word| u64::from(word[0]) << 8 | u64::from(word.get(1).copied().unwrap_or(0)));
            let (first, rest) = bytes.split_at((2 * even).min(bytes.len() & !1));
            prop_assert_eq!(internet_checksum(&[first, rest]), !fold(words.sum()));
        }
    }
}
