//! Options of these tools: single letters, with numbers parsed as `atoi` and `strtoul` parse them.

use std::ffi::OsString;

use weft_abi_types::{AF_IB, RAI_FAMILY, RAI_NUMERICHOST};

use crate::getopt::{self, Opt};
use weft_client::Which;
use weft_client::rdmacm::Hints;

/// A tool's options, written as for `getopt`: letters, those with an argument followed by a colon.
#[derive(Clone, Copy, Debug)]
pub struct Letters(pub &'static str);

impl Letters {
    /// Parses a command line into its options, in order and by letter, and the choice of library.
    ///
    /// # Errors
    /// The line that getopt prints, without the program's name in front.
    pub fn read(self, args: &[OsString]) -> Result<(Vec<(char, String)>, Which), String> {
        let mut known = vec![getopt::flag('\0', "system")];
        let mut names = Vec::new();
        let mut letters = self.0.char_indices().peekable();
        while let Some((at, letter)) = letters.next() {
            let takes_value = letters.next_if(|(_, next)| *next == ':').is_some();
            // An untypable name: these options have no long form.
            let long = &self.0[at..at + letter.len_utf8()];
            known.push(Opt { letter, long, takes_value });
            names.push((long, letter));
        }
        let parsed = getopt::parse(args, &known)?;
        let mut which = Which::Ours;
        let mut options = Vec::new();
        for (long, value) in parsed.options {
            match names.iter().find(|(name, _)| *name == long) {
                Some((_, letter)) => options.push((*letter, value)),
                None => which = Which::System,
            }
        }
        Ok((options, which))
    }
}

/// Parses a number as C's `atoi` does: the leading number of the text, or 0.
pub fn atoi(text: &str) -> i32 {
    let text = text.trim_start();
    let (sign, digits) = match text.as_bytes().first() {
        Some(b'-') => (-1, &text[1..]),
        Some(b'+') => (1, &text[1..]),
        _ => (1, text),
    };
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    (sign * digits[..end].parse::<i64>().unwrap_or(0)) as i32
}

/// Parses an octet as `(uint8_t) strtoul(text, NULL, 0)` does.
pub fn octet(text: &str) -> u8 {
    getopt::number(text).unwrap_or(0) as u8
}

/// Applies the address format of `-f`: `name`, `ip`, `ipv6` or `gid`.
pub fn address_format(text: &str, hints: &mut Hints) {
    let text = text.to_ascii_lowercase();
    if text.starts_with("ip") {
        hints.flags = RAI_NUMERICHOST;
    } else if text.starts_with("gid") {
        hints.flags = RAI_NUMERICHOST | RAI_FAMILY;
        hints.family = AF_IB;
    } else if !text.starts_with("name") {
        crate::errln!("Warning: unknown address format");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_read_as_getopt_does() {
        let args: Vec<OsString> = "-s 10.0.0.1 -c200 --system -m".split(' ').map(OsString::from).collect();
        let (options, which) = Letters("s:b:c:m").read(&args).unwrap();
        assert_eq!(which, Which::System);
        assert_eq!(options, [('s', "10.0.0.1".to_owned()), ('c', "200".to_owned()), ('m', String::new())]);
        assert_eq!(Letters("s:").read(&["-x".into()]).unwrap_err(), "invalid option -- 'x'");
        assert_eq!(Letters("s:").read(&["-s".into()]).unwrap_err(), "option requires an argument -- 's'");
    }

    #[test]
    fn numbers_are_what_c_makes_of_them() {
        let numbers = ["20", "-3", " 7x", "x", "", "+5"].map(atoi);
        assert_eq!(numbers, [20, -3, 7, 0, 0, 5]);
        assert_eq!((octet("0x20"), octet("300"), octet("no")), (32, 44, 0));
    }

    #[test]
    fn formats_are_told_by_how_they_begin() {
        let mut hints = Hints::default();
        address_format("IPv6", &mut hints);
        assert_eq!((hints.flags, hints.family), (RAI_NUMERICHOST, 0));
        address_format("gid", &mut hints);
        assert_eq!((hints.flags, hints.family), (RAI_NUMERICHOST | RAI_FAMILY, AF_IB));
    }
}
