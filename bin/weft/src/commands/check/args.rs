//! Options of `weft check`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::commands::run::{AdapterArgs, RunArgs, Words};

/// Options of `weft check`.
#[derive(Args, Clone, Debug, Default)]
pub struct CheckArgs {
    /// List the rules with their clauses
    #[arg(long)]
    pub rules: bool,
    /// Print the reports in this directory, which WEFT_CHECK_REPORT named for a weft run, instead of running a program
    #[arg(long, value_name = "DIR", conflicts_with_all = ["detach", "seeds", "server", "wait_port", "timeout"])]
    pub read: Option<PathBuf>,

    #[command(flatten)]
    pub reports: ReportArgs,

    /// Run the program once with each of N seeds of a strict adapter, and stop at the first run that fails
    #[arg(long, value_name = "N", help_heading = "Seeds", value_parser = clap::value_parser!(u64).range(1..))]
    #[arg(conflicts_with_all = ["strict", "pcap", "detach"])]
    pub seeds: Option<u64>,
    /// First seed
    #[arg(long, value_name = "SEED", help_heading = "Seeds", requires = "seeds", default_value_t = 1)]
    pub seed_from: u64,
    /// Start this shell command before the program, wait until it listens, and check it, too
    #[arg(long, value_name = "COMMAND", help_heading = "Seeds", conflicts_with = "detach")]
    pub server: Option<OsString>,
    /// Run the server as this host of the running fabric
    #[arg(long, value_name = "NODE", help_heading = "Seeds", requires = "server")]
    pub server_host: Option<String>,
    /// Kill the program after this many seconds; the run has failed [default with --seeds: 60]
    #[arg(long, value_name = "SECONDS", help_heading = "Seeds", conflicts_with = "detach")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: Option<u64>,

    #[command(flatten)]
    pub place: PlaceArgs,

    /// Program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    #[arg(required_unless_present_any = ["rules", "read"], conflicts_with_all = ["rules", "read"])]
    pub command: Vec<OsString>,
}

/// Options about reports: which, and in which form.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Reports")]
pub struct ReportArgs {
    /// Report this rule only; repeat it for several
    #[arg(long, value_name = "RULE")]
    pub only: Vec<String>,
    /// Do not report this rule; repeat it for several
    #[arg(long, value_name = "RULE")]
    pub ignore: Vec<String>,
    /// Report objects that were not destroyed when the program ended
    #[arg(long, value_name = "WHETHER", value_enum, default_value_t)]
    pub leaks: Leaks,
    /// Leave out the reports that this file (TOML) describes; repeat it for several
    #[arg(long, value_name = "FILE")]
    pub suppressions: Vec<PathBuf>,
    /// Print suppressions of all reports that are left
    #[arg(long)]
    pub generate_suppressions: bool,
    /// Write the reports in this format; json is one object a line
    #[arg(long, value_enum, default_value_t, requires_ifs = [("json", "output"), ("sarif", "output")])]
    pub format: Format,
    /// Write the reports to this file; - is the standard output [default: the standard error]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Exit status if an error is reported; 0: the program's
    #[arg(long, value_name = "N", default_value_t = 99)]
    pub exit_code: u8,
    /// Compare the buffers of messages up to this many bytes [default: 65536]
    #[arg(long, value_name = "BYTES")]
    pub snapshot: Option<usize>,
}

/// Options about the place where the program runs, as `weft run` has them.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "As weft run")]
pub struct PlaceArgs {
    /// Run on this machine's adapters, with the system's libraries and without Weft's devices
    #[arg(long, conflicts_with_all = ["host", "machine_network", "fault", "strict", "seeds", "pcap", "rds", "detach"])]
    pub system: bool,
    #[command(flatten, next_help_heading = "As weft run")]
    pub adapters: AdapterArgs,
    /// Start the program in the background and return once it listens; the reports come when it ends
    #[arg(short, long)]
    pub detach: bool,
    /// Start the program once a program listens on PORT [with -d or --server: wait for that port]
    #[arg(long, value_name = "PORT")]
    pub wait_port: Option<u16>,
    /// Print the setup and the program's output in every run
    #[arg(short, long)]
    pub verbose: bool,
    /// Print nothing if there is nothing to report
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
}

/// Whether objects that are left at the end are reported. Most programs leave some to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Leaks {
    /// Leave them out
    #[default]
    No,
    /// Report them as warnings
    Yes,
}

/// Format of the reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Format {
    /// Text for people
    #[default]
    Text,
    /// JSON Lines
    Json,
    /// SARIF 2.1.0, for code scanning services
    Sarif,
}

impl CheckArgs {
    /// The options of `weft run` with which `command` runs, as `host` if that is given.
    pub fn run_args(&self, host: Option<&String>, command: &[OsString]) -> RunArgs {
        let asked = self.place.adapters.clone();
        let machine_network = asked.machine_network && host.is_some();
        RunArgs {
            adapters: AdapterArgs { host: host.cloned(), machine_network, ..asked },
            wait_port: self.place.wait_port,
            verbose: self.place.verbose,
            quiet: self.place.quiet,
            command: command.to_vec(),
            ..RunArgs::default()
        }
    }

    /// The words of a `weft check` with these options in the foreground.
    pub fn words(&self) -> Vec<OsString> {
        let (reports, place) = (&self.reports, &self.place);
        let mut words = Words::default();
        words.flag("--generate-suppressions", reports.generate_suppressions);
        words.flag("--system", place.system);
        words.flag("--verbose", place.verbose);
        words.flag("--quiet", place.quiet);
        words.options("--only", &reports.only);
        words.options("--ignore", &reports.ignore);
        words.options("--suppressions", &reports.suppressions);
        words.options("--output", &reports.output);
        words.options("--snapshot", &reports.snapshot.map(|bytes| bytes.to_string()));
        words.options("--leaks", &named(reports.leaks));
        words.options("--format", &named(reports.format));
        words.options("--exit-code", &(reports.exit_code != 99).then(|| reports.exit_code.to_string()));
        words.options("--server", &self.server);
        words.options("--server-host", &self.server_host);
        words.options("--timeout", &self.timeout.map(|seconds| seconds.to_string()));
        place.adapters.say(&mut words);
        // A program in the background is waited for at its port, and does not wait itself.
        words.options("--wait-port", &place.wait_port.filter(|_| !place.detach).map(|port| port.to_string()));
        words.0.push("--".into());
        words.0.extend(self.command.iter().cloned());
        words.0
    }
}

/// The word of a value that is not the default.
fn named<T: ValueEnum + Default + PartialEq>(value: T) -> Option<String> {
    let word = value.to_possible_value().filter(|_| value != T::default());
    word.map(|word| word.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: CheckArgs,
    }

    fn parsed(line: &str) -> Result<CheckArgs, clap::Error> {
        Line::try_parse_from(["check"].into_iter().chain(line.split_whitespace())).map(|line| line.args)
    }

    #[test]
    fn options_survive_their_words() {
        for line in [
            "-- true",
            "--only key-stale --only key-unknown --ignore cq-overrun --leaks yes -- ibv_devices -v",
            "--format sarif --output out.sarif --exit-code 3 --snapshot 100 --suppressions a.toml -- true",
            "--server ib_write_bw --server-host node2 --timeout 9 --host node1 --wait-port 7 -q -- ib_write_bw node2",
            "--system --generate-suppressions -v -- true",
            "--server=-x --output=- --pcap=-p -- true",
            "--fault loss=1% --strict 4 --pcap x.pcapng --rds -- true",
        ] {
            let args = parsed(line).unwrap();
            let words = args.words();
            let again = Line::try_parse_from(std::iter::once("check".into()).chain(words.clone())).unwrap().args;
            assert_eq!(format!("{args:?}"), format!("{again:?}"), "{words:?}");
        }
    }

    #[test]
    fn a_detached_program_does_not_wait_for_its_own_port() {
        assert_eq!(parsed("--detach --wait-port 7 -- true").unwrap().words(), ["--", "true"]);
    }

    #[test]
    fn a_program_is_needed_unless_there_is_something_else_to_do() {
        assert!(parsed("").is_err() && parsed("--rules true").is_err() && parsed("--seeds 0 true").is_err());
        assert!(parsed("--rules").is_ok() && parsed("--read /tmp").is_ok());
        assert!(parsed("--format json true").is_err(), "JSON needs a file");
    }
}
