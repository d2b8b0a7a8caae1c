//! Stand-in for NetworkManager's `nmcli` on a fabric's host. Where NetworkManager runs in the host's network, its own
//! command is run. Elsewhere, profiles of IPoIB interfaces are made, changed and activated as NetworkManager does, in the
//! words of its command.

mod connection;
mod device;
mod failure;
mod options;
mod original;
mod settings;
mod show;
mod table;

use std::ffi::OsString;
use std::process::ExitCode;

use super::stand_in::become_original;
use failure::Failure;
use options::{Options, abbreviated};

/// The objects of nmcli, in the order in which an abbreviation is looked up.
const OBJECTS: [&str; 8] = ["general", "monitor", "networking", "radio", "connection", "device", "agent", "help"];

const USAGE: &str = "Usage: nmcli [OPTIONS] OBJECT { COMMAND | help }

Weft's stand-in for nmcli on a host of a fabric, for interfaces of type infiniband:

  c[onnection]  show [--active] [ID], add type infiniband ..., modify ID ..., up ID, down ID, delete ID, load FILE, reload
  d[evice]      status, show [INTERFACE], disconnect INTERFACE

Options: -t[erse], -f[ields] FIELD,..., -g[et-values] FIELD,..., -m[ode] tabular|multiline, -e[scape] yes|no,
         -p[retty], -a[sk], -w[ait] SECONDS, -v[ersion]
";

/// Runs the command.
pub fn run(args: &[OsString]) -> ExitCode {
    if let Some(command) = original::chosen(args) {
        return become_original("nmcli", command);
    }
    match run_own(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            crate::errln!("{}", failure.text);
            ExitCode::from(failure.code)
        }
    }
}

fn run_own(args: &[OsString]) -> Result<(), Failure> {
    let words: Option<Vec<String>> = args.iter().map(|arg| arg.to_str().map(str::to_owned)).collect();
    let words = words.ok_or_else(|| Failure::input("the command line is not UTF-8"))?;
    let (options, rest) = Options::parse(&words)?;
    if options.version {
        crate::outln!("nmcli tool, version {} (Weft's stand-in)", env!("CARGO_PKG_VERSION"));
        return Ok(());
    }
    let Some((object, rest)) = rest.split_first().filter(|_| !options.help) else {
        return if options.help { usage() } else { device::run(&options, &[]) };
    };
    match abbreviated(object, &OBJECTS) {
        Some("connection") => connection::run(&options, rest),
        Some("device") => device::run(&options, rest),
        Some("help") => usage(),
        Some(_) => Err(Failure::not_running()),
        None => Err(Failure::not_understood(object)),
    }
}

fn usage() -> Result<(), Failure> {
    crate::output::print(USAGE);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_abbreviated_as_nmcli_s() {
        for (word, expected) in [
            ("c", Some("connection")),
            ("con", Some("connection")),
            ("connection", Some("connection")),
            ("d", Some("device")),
            ("dev", Some("device")),
            ("g", Some("general")),
            ("m", Some("monitor")),
            ("", None),
            ("connections", None),
        ] {
            assert_eq!(abbreviated(word, &OBJECTS), expected, "{word}");
        }
    }
}
