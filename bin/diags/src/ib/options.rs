//! Command-line options common to all diagnostic tools, with the original's forms, letters and error messages.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::process::ExitCode;

use super::address::PortId;
use super::mad::CLASS_SUBN_ADM;
use super::number;
use super::report::{End, Outcome};
use super::{config, prompt, usage};
use crate::getopt::{self, flag, value};
use weft_client::Which;
use weft_client::umad::Library;

/// Form of a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Dest {
    /// By LID.
    #[default]
    Lid,
    /// By directed route.
    Path,
    /// By port GUID.
    Guid,
    /// By LID and a directed route from there.
    LidPath,
}

/// A command-line option.
#[derive(Clone, Copy, Debug)]
pub struct Opt {
    /// Its long name.
    pub long: &'static str,
    /// Its letter; an untypable character for "long only".
    pub letter: char,
    /// Placeholder of its argument in the usage, if it takes one.
    pub arg: Option<&'static str>,
    /// Its description in the usage.
    pub help: &'static str,
}

/// An option without an argument.
pub const fn opt(long: &'static str, letter: char, help: &'static str) -> Opt {
    Opt { long, letter, arg: None, help }
}

/// An option with an argument.
pub const fn opt_arg(long: &'static str, letter: char, arg: &'static str, help: &'static str) -> Opt {
    Opt { long, letter, arg: Some(arg), help }
}

/// The command line that a tool accepts.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// The tool's name.
    pub program: &'static str,
    /// Its own options; they take precedence over common ones with the same letter.
    pub options: &'static [Opt],
    /// Letters of common options that it lacks.
    pub exclude: &'static str,
    /// Letters of common options that it handles itself.
    pub own: &'static str,
    /// The usage text after the options.
    pub usage: &'static str,
    /// Examples in the usage.
    pub examples: &'static [&'static str],
}

/// The common options in usage order.
pub(super) const COMMON: &[Opt] = &[
    opt_arg("config", 'z', "<config>", "use config file, default: /etc/infiniband-diags/ibdiag.conf"),
    opt_arg("Ca", 'C', "<ca>", "Ca name to use"),
    opt_arg("Port", 'P', "<port>", "Ca port number to use"),
    opt("Direct", 'D', "use Direct address argument"),
    opt("Lid", 'L', "use LID address argument"),
    opt("Guid", 'G', "use GUID address argument"),
    opt_arg("timeout", 't', "<ms>", "timeout in ms"),
    opt_arg("sm_port", 's', "<lid>", "SM port lid"),
    opt("show_keys", 'K', "display security keys in output"),
    opt_arg("m_key", 'y', "<key>", "M_Key to use in request"),
    opt("errors", 'e', "show send and receive errors"),
    opt("verbose", 'v', "increase verbosity level"),
    opt("debug", 'd', "raise debug level"),
    opt("help", 'h', "help message"),
    opt("version", 'V', "show version"),
];

/// Options that the original lacks.
pub(super) const EXTRA: &[Opt] =
    &[opt("system", '\0', "use the system's libibumad instead of Weft's"), opt("json", '\0', "print JSON")];

/// Values of the common options.
#[derive(Clone, Debug)]
pub struct Common {
    /// `-C`: adapter.
    pub ca: Option<String>,
    /// `-P`: port of the adapter; 0 means the first active port.
    pub port: i32,
    /// `-D`, `-L`, `-G`: form of destinations.
    pub dest: Dest,
    /// `-t`: how long to wait for an answer, if given.
    pub timeout_ms: Option<u32>,
    /// `-s`: the subnet manager's address, if given.
    pub sm_id: Option<PortId>,
    /// `-K`: show keys.
    pub show_keys: bool,
    /// `-y`: M_Key of requests.
    pub m_key: u64,
    /// SM_Key of requests to subnet administration, from the configuration.
    pub sa_key: u64,
    /// `-e`: report timeouts and bad answers.
    pub errors: bool,
    /// `-v`: number of times given.
    pub verbose: u32,
    /// `-d`: number of times given.
    pub debug: u32,
    /// Whether to query the vendor's ExtendedPortInfo.
    pub mlx_epi: bool,
    /// Format of NodeDescriptions to set, from the configuration.
    pub nd_format: Option<String>,
    /// `--json`.
    pub json: bool,
    /// `--system`: use the system's libibumad.
    pub which: Which,
    library: OnceCell<Library>,
}

/// A parsed command line.
#[derive(Debug)]
pub struct CommandLine {
    /// Values of the common options.
    pub common: Common,
    /// The tool's own options in order: letter and argument.
    pub own: Vec<(char, String)>,
    /// Arguments that are not options.
    pub operands: Vec<String>,
}

impl CommandLine {
    /// How often one of the tool's own options was given.
    pub fn count(&self, letter: char) -> usize {
        self.own.iter().filter(|(l, _)| *l == letter).count()
    }

    /// Whether one of the tool's own options was given.
    pub fn has(&self, letter: char) -> bool {
        self.count(letter) > 0
    }

    /// The argument of one of the tool's own options; the last one counts.
    pub fn arg(&self, letter: char) -> Option<&str> {
        self.own.iter().rev().find(|(l, _)| *l == letter).map(|(_, value)| value.as_str())
    }

    /// The operand at `index` as a number, or 0.
    pub fn number(&self, index: usize) -> u64 {
        self.operands.get(index).map_or(0, |text| number::number(text))
    }
}

impl Default for Common {
    fn default() -> Common {
        Common {
            ca: None,
            port: 0,
            dest: Dest::Lid,
            timeout_ms: None,
            sm_id: None,
            show_keys: false,
            m_key: 0,
            sa_key: 0,
            errors: false,
            verbose: 0,
            debug: 0,
            mlx_epi: true,
            nd_format: None,
            json: false,
            which: Which::Ours,
            library: OnceCell::new(),
        }
    }
}

impl Common {
    /// The selected library, loaded once.
    ///
    /// # Errors
    /// The library is missing.
    pub fn library(&self) -> Outcome<Library> {
        if let Some(library) = self.library.get() {
            return Ok(*library);
        }
        let library = Library::load(self.which).map_err(|e| End::failed(format!("{e:#}")))?;
        if self.debug > 1 {
            library.set_debug(i32::try_from(self.debug - 1).unwrap_or(i32::MAX));
        }
        Ok(*self.library.get_or_init(|| library))
    }

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
    /// The common options that the tool has.
    pub(super) fn common(&self) -> impl Iterator<Item = &'static Opt> {
        let exclude = self.exclude;
        COMMON.iter().filter(move |o| !exclude.contains(o.letter))
    }

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
