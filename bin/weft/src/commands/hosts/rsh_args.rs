//! The command line of rsh and ssh: options, host, options again, and the words of the command.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// A parsed command line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RemoteCommand {
    /// The host.
    pub host: String,
    /// The user to run as.
    pub user: Option<String>,
    /// `-n`: standard input is /dev/null.
    pub without_input: bool,
    /// `-f`: go to the background once the command runs.
    pub in_background: bool,
    /// The command: its words joined by blanks, as rsh and ssh send it. Empty for a shell.
    pub command: OsString,
}

/// Options of rsh and ssh that take a value, in the same word or in the next.
const WITH_VALUE: &[u8] = b"BbcDEeFIiJLlmOoPpQRSWw";

/// Options of rsh and ssh without one: about encryption, terminals, forwarding and addresses, which a host of a fabric
/// does not need, besides `-n` and `-f`.
const WITHOUT_VALUE: &[u8] = b"1246AaCdfgKkMNnqrsTtVvXxYy8";

impl RemoteCommand {
    /// Parses the words after the program's name.
    ///
    /// # Errors
    /// An unknown option, a missing value or no host; the text is for the user.
    pub fn parse(words: &[OsString]) -> Result<RemoteCommand, String> {
        let mut parsed = RemoteCommand::default();
        let mut words = words.iter();
        let mut host = None;
        let mut command = Vec::new();
        let mut takes_options = true;
        while let Some(word) = words.next() {
            let bytes = word.as_bytes();
            if takes_options && bytes == b"--" {
                takes_options = false;
            } else if takes_options && bytes.len() > 1 && bytes.starts_with(b"-") {
                parsed.option(bytes, &mut words)?;
            } else if host.is_none() {
                host = Some(text(word, "the host")?);
            } else {
                command = [word].into_iter().chain(words.by_ref()).map(OsString::as_os_str).collect();
            }
        }
        let host = host.ok_or("no host given; usage: weft rsh [OPTIONS] [USER@]HOST [COMMAND]...")?;
        // An explicit -l comes before the user in the host's word.
        let (user, host) = host.rsplit_once('@').map_or((None, host.as_str()), |(user, host)| (Some(user), host));
        parsed.user = parsed.user.or_else(|| user.map(str::to_owned));
        parsed.host = host.to_owned();
        parsed.command = command.join(OsStr::new(" "));
        Ok(parsed)
    }

    /// Takes a word of options, such as `-x`, `-nx`, `-lroot` or `-l` with the next word.
    fn option<'a>(&mut self, word: &[u8], next: &mut impl Iterator<Item = &'a OsString>) -> Result<(), String> {
        for (at, letter) in word.iter().enumerate().skip(1) {
            if WITH_VALUE.contains(letter) {
                let missing = || format!("the option -{} needs a value", char::from(*letter));
                let rest = word.get(at + 1..).filter(|rest| !rest.is_empty());
                let value = match rest {
                    Some(rest) => OsStr::from_bytes(rest),
                    None => next.next().ok_or_else(missing)?,
                };
                if *letter == b'l' {
                    self.user = Some(text(value, "the user")?);
                }
                return Ok(());
            }
            if !WITHOUT_VALUE.contains(letter) {
                let word = String::from_utf8_lossy(word);
                return Err(format!("unknown option {word}; the options are those of rsh and ssh"));
            }
            self.without_input |= matches!(letter, b'n' | b'f');
            self.in_background |= *letter == b'f';
        }
        Ok(())
    }
}

fn text(word: &OsStr, what: &str) -> Result<String, String> {
    word.to_str().map(str::to_owned).ok_or_else(|| format!("{what} `{}` is not UTF-8", word.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<RemoteCommand, String> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        RemoteCommand::parse(&words)
    }

    #[test]
    fn launchers_command_lines_are_understood() {
        let plain = RemoteCommand { host: "node1".into(), command: "orted -mca x y".into(), ..Default::default() };
        let ann = RemoteCommand { user: Some("ann".into()), ..plain.clone() };
        let silent = RemoteCommand { without_input: true, ..plain.clone() };
        for (line, expected) in [
            ("node1 orted -mca x y", &plain),
            ("-x node1 orted -mca x y", &plain),
            ("-xq -o BatchMode=yes -p22 node1 orted -mca x y", &plain),
            ("node1 -x -- orted -mca x y", &plain),
            ("ann@node1 orted -mca x y", &ann),
            ("-l ann node1 orted -mca x y", &ann),
            ("-lann bob@node1 orted -mca x y", &ann),
            ("node1 -l ann orted -mca x y", &ann),
            ("-n node1 orted -mca x y", &silent),
            ("-xn node1 orted -mca x y", &silent),
        ] {
            assert_eq!(parse(line).as_ref(), Ok(expected), "{line}");
        }
        assert!(parse("-f node1 true").unwrap().in_background);
        assert_eq!(parse("node1").unwrap().command, "");
    }

    #[test]
    fn mistakes_are_told() {
        for (line, why) in [("-n", "no host given"), ("-l", "-l needs a value"), ("-Z node1 true", "unknown option -Z")]
        {
            let error = parse(line).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
