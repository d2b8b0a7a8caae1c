//! Option parsing like GNU getopt_long, because scripts call the original tools with every form that it allows:
//! `-d rxe0`, `-drxe0`, `-vl`, `--ib-dev=rxe0`, `--ib-dev rxe0`, `--ib-d rxe0`, and options after operands.

use std::ffi::OsString;

/// One option: its letter, its long name, and whether it takes an argument. Letter `\0` means "long only".
#[derive(Clone, Copy, Debug)]
pub struct Opt {
    /// Short form.
    pub letter: char,
    /// Long form.
    pub long: &'static str,
    /// Whether it takes an argument.
    pub takes_value: bool,
}

/// An option without an argument.
pub const fn flag(letter: char, long: &'static str) -> Opt {
    Opt { letter, long, takes_value: false }
}

/// An option with an argument.
pub const fn value(letter: char, long: &'static str) -> Opt {
    Opt { letter, long, takes_value: true }
}

/// A parsed command line: options in order, by long name, then the operands.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// Long names, with the argument or an empty string.
    pub options: Vec<(&'static str, String)>,
    /// Arguments that are not options.
    pub operands: Vec<String>,
}

/// Parses `args` (without the program's name).
///
/// # Errors
/// The line that getopt prints, without the program's name in front.
pub fn parse(args: &[OsString], known: &[Opt]) -> Result<Parsed, String> {
    let mut parsed = Parsed::default();
    let mut args = args.iter().map(|a| a.to_string_lossy().into_owned());
    while let Some(arg) = args.next() {
        if arg == "--" {
            parsed.operands.extend(args.by_ref());
        } else if let Some(long) = arg.strip_prefix("--") {
            parsed.options.push(long_option(long, known, &mut args)?);
        } else if arg.len() > 1 && arg.starts_with('-') {
            short_options(&arg[1..], known, &mut args, &mut parsed)?;
        } else {
            parsed.operands.push(arg);
        }
    }
    Ok(parsed)
}

fn long_option(
    text: &str,
    known: &[Opt],
    rest: &mut dyn Iterator<Item = String>,
) -> Result<(&'static str, String), String> {
    let (name, given) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    let mut candidates = known.iter().filter(|o| o.long.starts_with(name));
    let option = match known.iter().find(|o| o.long == name) {
        Some(exact) => exact,
        None => match (candidates.next(), candidates.next()) {
            (Some(only), None) => only,
            (Some(_), Some(_)) => return Err(format!("option '--{name}' is ambiguous")),
            _ => return Err(format!("unrecognized option '--{name}'")),
        },
    };
    match (option.takes_value, given) {
        (true, Some(value)) => Ok((option.long, value)),
        (true, None) => match rest.next() {
            Some(value) => Ok((option.long, value)),
            None => Err(format!("option '--{}' requires an argument", option.long)),
        },
        (false, Some(_)) => Err(format!("option '--{}' doesn't allow an argument", option.long)),
        (false, None) => Ok((option.long, String::new())),
    }
}

fn short_options(
    cluster: &str,
    known: &[Opt],
    rest: &mut dyn Iterator<Item = String>,
    parsed: &mut Parsed,
) -> Result<(), String> {
    for (at, letter) in cluster.char_indices() {
        let Some(option) = known.iter().find(|o| o.letter == letter && letter != '\0') else {
            return Err(format!("invalid option -- '{letter}'"));
        };
        if !option.takes_value {
            parsed.options.push((option.long, String::new()));
            continue;
        }
        let attached = &cluster[at + letter.len_utf8()..];
        let value = if attached.is_empty() {
            rest.next().ok_or_else(|| format!("option requires an argument -- '{letter}'"))?
        } else {
            attached.to_owned()
        };
        parsed.options.push((option.long, value));
        return Ok(());
    }
    Ok(())
}

/// Parses a number as `strtol(.., 0)` does: decimal, or hexadecimal after `0x`, or octal after `0`.
pub fn number(text: &str) -> Option<i64> {
    let text = text.trim();
    let (digits, radix) = match text {
        "0" => ("0", 10),
        _ if text.starts_with("0x") || text.starts_with("0X") => (&text[2..], 16),
        _ if text.starts_with('0') => (&text[1..], 8),
        _ => (text, 10),
    };
    i64::from_str_radix(digits, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Opt] = &[value('d', "ib-dev"), value('i', "ib-port"), flag('l', "list"), flag('v', "verbose")];

    fn run(line: &str) -> Result<Parsed, String> {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        parse(&args, KNOWN)
    }

    #[test]
    fn every_form_of_an_option_is_read() {
        for line in [
            "-d rxe0 -v host",
            "-drxe0 host -v",
            "--ib-dev=rxe0 --verbose host",
            "host --ib-d rxe0 --verb",
            "-d rxe0 -v -- host",
        ] {
            let parsed = run(line).unwrap();
            assert_eq!(parsed.operands, ["host"], "{line}");
            assert_eq!(parsed.options, [("ib-dev", "rxe0".to_owned()), ("verbose", String::new())], "{line}");
        }
        assert_eq!(run("-vld rxe0").unwrap().options.len(), 3);
    }

    #[test]
    fn mistakes_are_told_in_getopts_words() {
        let wrong = |line: &str| run(line).unwrap_err();
        assert_eq!(wrong("--help"), "unrecognized option '--help'");
        assert_eq!(wrong("--ib"), "option '--ib' is ambiguous");
        assert_eq!(wrong("-x"), "invalid option -- 'x'");
        assert_eq!(wrong("-d"), "option requires an argument -- 'd'");
        assert_eq!(wrong("--ib-dev"), "option '--ib-dev' requires an argument");
        assert_eq!(wrong("--list=1"), "option '--list' doesn't allow an argument");
    }

    #[test]
    fn numbers_are_read_as_strtol_does() {
        assert_eq!(number("4096"), Some(4096));
        assert_eq!(number("0x10"), Some(16));
        assert_eq!(number("010"), Some(8));
        assert_eq!(number("0"), Some(0));
        assert_eq!(number("-1"), Some(-1));
        assert_eq!(number("4k"), None);
    }
}
