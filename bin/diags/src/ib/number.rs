//! Numbers parsed as C's functions do: the leading number counts, the rest is ignored.

/// `atoi`: decimal digits after blanks and a sign, 0 if there are none.
pub fn leading_decimal(text: &str) -> i64 {
    let text = text.trim_start();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    sign * digits[..end].parse::<i64>().unwrap_or(if end == 0 { 0 } else { i64::MAX })
}

/// `strtoull(.., 0)`: decimal, hexadecimal after `0x`, octal after `0`; a minus sign takes the complement. Returns the
/// number and the text after it.
pub fn parse(text: &str) -> (u64, &str) {
    let start = text.trim_start();
    let (negative, digits) = match start.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, start.strip_prefix('+').unwrap_or(start)),
    };
    let hex = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let hex = hex.filter(|rest| rest.starts_with(|c: char| c.is_ascii_hexdigit()));
    let (digits, radix) = match hex {
        Some(rest) => (rest, 16),
        None if digits.starts_with('0') => (digits, 8),
        None => (digits, 10),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    if end == 0 {
        return (0, text);
    }
    let value = u64::from_str_radix(&digits[..end], radix).unwrap_or(u64::MAX);
    (if negative { value.wrapping_neg() } else { value }, &digits[end..])
}

/// The number alone, without the text after it.
pub fn number(text: &str) -> u64 {
    parse(text).0
}

/// The number, if it is the whole text.
pub fn whole(text: &str) -> Option<u64> {
    let (value, rest) = parse(text);
    rest.is_empty().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_does() {
        assert_eq!(parse("0x10,3"), (16, ",3"));
        assert_eq!(parse(" 010x"), (8, "x"));
        assert_eq!(parse("0xg"), (0, "xg"));
        assert_eq!(parse("x"), (0, "x"));
        assert_eq!(number("-1"), u64::MAX);
        assert_eq!(number("99999999999999999999"), u64::MAX);
        assert_eq!((whole("7"), whole("7a"), whole("")), (Some(7), None, Some(0)));
        assert_eq!((leading_decimal("12a"), leading_decimal("0x4"), leading_decimal("-3")), (12, 0, -3));
    }
}
