//! The command line that a tool accepts: its own options, and those common to all diagnostic tools.

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

impl Spec {
    /// The common options that the tool has.
    pub(super) fn common(&self) -> impl Iterator<Item = &'static Opt> {
        let exclude = self.exclude;
        COMMON.iter().filter(move |o| !exclude.contains(o.letter))
    }
}
