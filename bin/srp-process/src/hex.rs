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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guids_are_hexadecimal() {
        assert_eq!(number("0x00ff"), Ok(255));
        assert_eq!(number("FFFFFFFFFFFFFFFF"), Ok(u64::MAX));
        assert!(["", "0x", "-1", "10000000000000000", "x"].iter().all(|text| number(text).is_err()));
    }
}
