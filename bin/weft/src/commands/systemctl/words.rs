//! The command line of `systemctl`.

use std::ffi::OsString;

/// Lines of its log that `status` shows of a unit.
const LINES: u32 = 10;

/// A command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    Start,
    Stop,
    Restart,
    TryRestart,
    Reload,
    ReloadOrRestart,
    Status,
    IsActive,
    IsFailed,
    IsEnabled,
    Enable,
    Disable,
    ListUnits,
    DaemonReload,
}

const VERBS: [(&str, Verb); 15] = [
    ("start", Verb::Start),
    ("stop", Verb::Stop),
    ("restart", Verb::Restart),
    ("try-restart", Verb::TryRestart),
    ("condrestart", Verb::TryRestart),
    ("reload", Verb::Reload),
    ("reload-or-restart", Verb::ReloadOrRestart),
    ("status", Verb::Status),
    ("is-active", Verb::IsActive),
    ("is-failed", Verb::IsFailed),
    ("is-enabled", Verb::IsEnabled),
    ("enable", Verb::Enable),
    ("disable", Verb::Disable),
    ("list-units", Verb::ListUnits),
    ("daemon-reload", Verb::DaemonReload),
];

/// Options without effect here.
const WITHOUT_EFFECT: [&str; 9] =
    ["-l", "--full", "--no-pager", "--no-legend", "-a", "--all", "--system", "--no-block", "--no-ask-password"];

/// The command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Words {
    /// Print the usage.
    pub help: bool,
    pub verb: Verb,
    /// Names of units.
    pub units: Vec<String>,
    /// With `enable` and `disable`: start or stop the unit, too.
    pub now: bool,
    /// Print no state.
    pub quiet: bool,
    /// Lines of a log that `status` shows.
    pub lines: u32,
}

impl Words {
    /// Parses the arguments.
    ///
    /// # Errors
    /// The text names what only systemd's own command understands.
    pub fn parse(args: &[OsString]) -> Result<Words, String> {
        let mut words =
            Words { help: false, verb: Verb::ListUnits, units: Vec::new(), now: false, quiet: false, lines: LINES };
        let mut verb = None;
        let mut args = args.iter().map(|arg| arg.to_str().ok_or("the command line is not UTF-8".to_owned()));
        while let Some(arg) = args.next().transpose()? {
            let (name, value) = arg.split_once('=').map_or((arg, None), |(name, value)| (name, Some(value)));
            match name {
                "-h" | "--help" => words.help = true,
                "--now" => words.now = true,
                "-q" | "--quiet" => words.quiet = true,
                "-n" | "--lines" => {
                    let value = match value {
                        Some(value) => value,
                        None => args.next().transpose()?.ok_or_else(|| format!("{name} needs a number"))?,
                    };
                    words.lines = value.parse().map_err(|_| format!("{name}: {value:?} is not a number"))?;
                }
                name if WITHOUT_EFFECT.contains(&name) => {}
                name if name.starts_with('-') => return Err(not_here(&format!("option {name}"))),
                _ if verb.is_none() => verb = Some(arg),
                _ => words.units.push(arg.to_owned()),
            }
        }
        if let Some(verb) = verb {
            let found = VERBS.iter().find(|(name, _)| *name == verb);
            words.verb = found.ok_or_else(|| not_here(&format!("command {verb}")))?.1;
        }
        let takes_units = !matches!(words.verb, Verb::ListUnits | Verb::DaemonReload | Verb::Status);
        match words.units.is_empty() && takes_units && !words.help {
            true => Err("Too few arguments.".to_owned()),
            false => Ok(words),
        }
    }
}

fn not_here(what: &str) -> String {
    format!(
        "systemctl: {what}: no systemd runs here, and Weft's stand-in lacks it; `systemctl --help` lists what it has"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Words, String> {
        Words::parse(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn options_stand_anywhere() {
        for line in ["--now enable opensm", "enable --now opensm", "enable opensm --now"] {
            let words = parse(line).unwrap();
            assert_eq!(
                (words.verb, words.now, words.units.as_slice()),
                (Verb::Enable, true, &["opensm".to_owned()][..])
            );
        }
        for line in ["status -n 3 a b", "-n3 status", "--lines=3 status a"] {
            assert_eq!(parse(line).map(|words| words.lines).ok(), (line != "-n3 status").then_some(3), "{line}");
        }
        assert_eq!(parse("").unwrap().verb, Verb::ListUnits);
        assert!(parse("-h start").unwrap().help);
    }

    #[test]
    fn words_of_systemd_alone_are_refused() {
        for line in ["start", "isolate rescue.target", "--user status x", "status -n", "status -n many"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
