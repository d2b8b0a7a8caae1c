//! NVMe Qualified Names (NVM Express 1.4 §7.9), and texts in fields of fixed length.

use crate::limits::NQN_LEN_MAX;

/// Name of every discovery subsystem.
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// Reads a text that ends at the first zero byte, or at the end of its field. `None`: not UTF-8, or no zero byte.
pub fn read_text(field: &[u8]) -> Option<&str> {
    let end = field.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(field.get(..end)?).ok()
}

/// Returns the reason why a name is no NQN.
pub fn nqn_error(name: &str) -> Option<&'static str> {
    if name.len() > NQN_LEN_MAX {
        return Some("it is longer than 223 bytes");
    }
    let Some(rest) = name.strip_prefix("nqn.") else { return Some("it does not begin with `nqn.`") };
    let date = rest.as_bytes();
    let is_date = date.len() > 8
        && date.iter().take(8).enumerate().all(|(at, byte)| match at {
            4 => *byte == b'-',
            7 => *byte == b'.',
            _ => byte.is_ascii_digit(),
        });
    if !is_date {
        return Some("`nqn.` is not followed by a date and a domain, such as `2014-08.org.nvmexpress`");
    }
    name.chars().any(char::is_control).then_some("it contains control characters")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_date_and_a_domain() {
        for name in [DISCOVERY_NQN, "nqn.2014-08.org.nvmexpress:uuid:f81d4fae", "nqn.2026-01.io.weft:disk"] {
            assert_eq!(nqn_error(name), None, "{name}");
        }
        for name in ["", "disk", "nqn.disk", "nqn.2014-08.", "nqn.2014_08.org", "nqn.2014-08.a\nb"] {
            assert!(nqn_error(name).is_some(), "{name}");
        }
        assert!(nqn_error(&format!("nqn.2014-08.org:{}", "x".repeat(223))).is_some());
    }

    #[test]
    fn a_text_ends_at_its_zero_byte() {
        assert_eq!(read_text(b"nqn\0\0"), Some("nqn"));
        assert_eq!((read_text(b"nqn"), read_text(b"\xff\0")), (None, None));
    }
}
