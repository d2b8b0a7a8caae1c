//! Parsing of a tool's command line, with the original's forms, letters and error messages.

use std::ffi::OsString;
use std::process::ExitCode;

pub use super::common::{CommandLine, Common, Dest};
pub use super::spec::{Opt, Spec, opt, opt_arg};

use super::address::PortId;
use super::mad::CLASS_SUBN_ADM;
use super::number;
use super::report::{End, Outcome};
use super::spec::EXTRA;
use super::{config, prompt, usage};
use crate::getopt::{self, flag, value};
use weft_client::Which;

impl Common {
    fn take(&mut self, letter: char, value: &str) -> Outcome<()> {
        match letter {
            'z' => config::read(value, self),
            'e' => self.errors = true,
            'v' => self.verbose += 1,
            'd' => self.debug += 1,
            'C' => self.ca = Some(value.to_owned()),
            'P' => self.port = number::number(value) as i32,
            'D' => self.dest = Dest::Path,
            'L' => self.dest = Dest::Lid,
            'G' => self.dest = Dest::Guid,
            't' => self.timeout_ms = Some(timeout(value)?),
            's' => self.sm_id = Some(sm(value)?),
            'K' => self.show_keys = true,
            'y' => self.m_key = m_key(value, "M_Key: ").ok_or_else(|| in_options("Bad M_Key".to_owned()))?,
            _ => return Err(End::Usage),
        }
        Ok(())
    }
}

/// The key in `text`; if it is not a number, prompts for the key without echo.
pub fn m_key(text: &str, question: &str) -> Option<u64> {
    number::whole(text).or_else(|| number::whole(&prompt::hidden(question)?))
}

fn in_options(text: String) -> End {
    End::Failed { function: "process_opt", text }
}

fn timeout(text: &str) -> Outcome<u32> {
    let ms = number::whole(text).filter(|ms| !text.is_empty() && (1..=i32::MAX as u64).contains(ms));
    ms.map(|ms| ms as u32).ok_or_else(|| {
        let most = i32::MAX;
        in_options(format!("Invalid timeout \"{text}\".  Timeout requires a positive integer value < {most}."))
    })
}

fn sm(text: &str) -> Outcome<PortId> {
    let lid = number::number(text);
    let is_lid = (1..u64::from(super::address::LID_MULTICAST_MIN)).contains(&lid);
    if !is_lid {
        return Err(in_options(format!("cannot resolve SM destination port {text}")));
    }
    Ok(PortId { lid: lid as u16, ..PortId::default() })
}

impl Spec {
    /// Parses a command line.
    ///
    /// # Errors
    /// The exit code; the message is already printed.
    pub fn read(&self, args: &[OsString]) -> Result<CommandLine, ExitCode> {
        let known: Vec<&Opt> = self.options.iter().chain(self.common()).chain(EXTRA).collect();
        let form = |o: &&Opt| match o.arg {
            Some(_) => value(o.letter, o.long),
            None => flag(o.letter, o.long),
        };
        let forms: Vec<getopt::Opt> = known.iter().map(form).collect();
        let parsed = getopt::parse(args, &forms).map_err(|mistake| {
            crate::errln!("{}: {mistake}", self.program);
            usage::show(self)
        })?;
        let mut line = CommandLine { common: Common::default(), own: Vec::new(), operands: parsed.operands };
        config::read(config::PATH, &mut line.common);
        for (long, value) in parsed.options {
            let Some(found) = known.iter().find(|o| o.long == long) else { continue };
            let is_own = self.options.iter().any(|o| o.letter == found.letter) || self.own.contains(found.letter);
            match (long, found.letter) {
                ("system", '\0') => line.common.which = Which::System,
                ("json", '\0') => line.common.json = true,
                (_, letter) if is_own => line.own.push((letter, value)),
                (_, 'h') => return Err(usage::show(self)),
                (_, 'V') => {
                    crate::errln!("{} BUILD VERSION: {}", self.program, env!("CARGO_PKG_VERSION"));
                    return Err(ExitCode::SUCCESS);
                }
                (_, letter) => line.common.take(letter, &value).map_err(|end| self.end(&line.common, &end))?,
            }
        }
        Ok(line)
    }

    /// Parses the command line, runs `work`, and prints its error.
    pub fn main(&self, args: &[OsString], work: impl FnOnce(&CommandLine) -> Outcome<()>) -> ExitCode {
        let line = match self.read(args) {
            Ok(line) => line,
            Err(code) => return code,
        };
        match work(&line) {
            Ok(()) => ExitCode::SUCCESS,
            Err(end) => self.end(&line.common, &end),
        }
    }

    fn end(&self, common: &Common, end: &End) -> ExitCode {
        match end {
            End::Usage => usage::show(self),
            end => end.report(self.program, common.debug > 0, common.json),
        }
    }
}

/// Classes that most tools register: both SMP classes, and subnet administration to resolve addresses.
pub const SMP_CLASSES: &[u8] = &[super::mad::CLASS_SUBN_LID, super::mad::CLASS_SUBN_DIRECTED, CLASS_SUBN_ADM];

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: Spec = Spec {
        program: "tool",
        options: &[opt("all", 'a', ""), opt_arg("state", 's', "<0-3>", ""), opt_arg("map", '\u{1}', "<file>", "")],
        exclude: "sK",
        own: "D",
        usage: "",
        examples: &[],
    };

    fn read(line: &str) -> Result<CommandLine, ExitCode> {
        SPEC.read(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn a_tools_own_options_come_first() {
        let line = read("-D -G -s 2 7 --map=f --Ca mlx5_0 -P2 -t 50 -vvd --json 0x10").unwrap();
        assert_eq!(line.own, [('D', String::new()), ('s', "2".to_owned()), ('\u{1}', "f".to_owned())]);
        assert_eq!((line.arg('s'), line.has('a'), line.count('D')), (Some("2"), false, 1));
        let common = &line.common;
        assert_eq!((common.dest, common.ca.as_deref(), common.port), (Dest::Guid, Some("mlx5_0"), 2));
        assert_eq!((common.timeout_ms, common.verbose, common.debug, common.json), (Some(50), 2, 1, true));
        assert_eq!((line.number(0), line.number(1), line.number(2)), (7, 16, 0));
    }

    #[test]
    fn mistakes_are_found() {
        for line in ["-q", "-K", "-t 0", "-t x", "--bogus", "-h"] {
            assert!(read(line).is_err(), "{line}");
        }
        assert!(sm("0xc000").is_err());
        assert_eq!(sm("3").unwrap().lid, 3);
    }
}
