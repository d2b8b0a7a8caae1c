//! Hexadecimal numbers of options.

/// Reads up to 16 hexadecimal digits, with `0x` or without.
///
/// # Errors
/// They are others.
pub fn number(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let is_hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u64::from_str_radix(digits, 16).ok().filter(|_| is_hex);
    number.ok_or_else(|| "not up to 16 hexadecimal digits".to_owned())
}

/// Reads a P_Key: up to 4 hexadecimal digits.
///
/// # Errors
/// They are others.
pub fn pkey(text: &str) -> Result<u16, String> {
    number(text)
        .ok()
        .and_then(|number| u16::try_from(number).ok())
        .ok_or_else(|| "not up to 4 hexadecimal digits".to_owned())
}

/// Reads a GID as sysfs's `add_target` takes it: 32 hexadecimal digits.
///
/// # Errors
/// They are others.
pub fn gid(text: &str) -> Result<[u8; 16], String> {
    let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u128::from_str_radix(text, 16).ok().filter(|_| is_hex);
    number.map(u128::to_be_bytes).ok_or_else(|| "not 32 hexadecimal digits".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gids_and_pkeys_have_their_digits() {
        let gid_1 = gid("fe800000000000000000000000000001").expect("a GID");
        assert_eq!((gid_1[0], gid_1[15], pkey("ffff"), pkey("0x7fff")), (0xfe, 1, Ok(0xffff), Ok(0x7fff)));
        assert!(gid("fe80").is_err() && gid("fe80::00000000000000000000000001").is_err() && pkey("10000").is_err());
    }

    #[test]
    fn guids_are_hexadecimal() {
        assert_eq!(number("0x00ff"), Ok(255));
        assert_eq!(number("FFFFFFFFFFFFFFFF"), Ok(u64::MAX));
        assert!(["", "0x", "-1", "10000000000000000", "x"].iter().all(|text| number(text).is_err()));
    }
}
