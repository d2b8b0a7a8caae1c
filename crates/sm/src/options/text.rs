//! Helpers shared by the parsers of configuration files: numbers as C's strtoul reads them, lines without comments.

/// Bytes of a configuration file that are read; no real file comes near.
pub const FILE_LEN_MAX: usize = 8 << 20;

/// Characters of a quotation in a diagnostic.
const CLIP: usize = 60;

/// Shortens a text for a diagnostic and removes control characters that would disturb a terminal.
pub fn clip(text: &str) -> String {
    let mut short: String = text.chars().take(CLIP).map(|c| if c.is_control() { '?' } else { c }).collect();
    if text.chars().nth(CLIP).is_some() {
        short.push_str("...");
    }
    short
}

/// Parses a number: decimal, hexadecimal after `0x`, octal after a leading zero.
pub fn number(text: &str) -> Result<u64, String> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (text, 8),
        None => (text, 10),
    };
    let plain = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    if !plain {
        let kind = if radix == 8 { "an octal number, which a leading zero announces" } else { "a number" };
        let shown = if text.is_empty() { "nothing".to_owned() } else { clip(text) };
        return Err(format!("{shown} is not {kind}"));
    }
    u64::from_str_radix(digits, radix).map_err(|_| format!("{} is above 64 bits", clip(text)))
}

/// Returns the part of a file that is read: up to [`FILE_LEN_MAX`] bytes, cut at a character boundary.
pub fn bounded(text: &str) -> &str {
    let mut end = FILE_LEN_MAX.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or("")
}

/// Yields numbered lines without comments (`#`) and surrounding blanks; empty lines are left out.
pub fn lines(text: &str) -> impl Iterator<Item = (u32, &str)> {
    (1u32..).zip(bounded(text).lines()).filter_map(|(number, line)| {
        let line = line.split('#').next().unwrap_or("").trim();
        (!line.is_empty()).then_some((number, line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        assert_eq!((number("17"), number("0x1F"), number("010"), number("0")), (Ok(17), Ok(31), Ok(8), Ok(0)));
        for wrong in ["", "0x", "08", "1 2", "+3", "-1", "0x10000000000000000"] {
            assert!(number(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn lines_come_without_comments() {
        let found: Vec<_> = lines("# a\n\n b # c\n#\nd").collect();
        assert_eq!(found, [(3, "b"), (5, "d")]);
    }
}
