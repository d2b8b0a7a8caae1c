//! `weft system`: settings of all devices, as iproute2's `rdma system`.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::iproute::{self, Members, OutputArgs};
use crate::output;

/// Options of `weft system`.
#[derive(Args, Debug)]
pub struct SystemArgs {
    #[command(flatten)]
    output: OutputArgs,
    /// `show`, `show netns`, or `set netns shared`, `set netns exclusive`
    #[arg(value_name = "[show [netns]]")]
    words: Vec<String>,
}

/// Runs the command.
pub fn run(args: &SystemArgs) -> ExitCode {
    let words: Vec<&str> = args.words.iter().map(String::as_str).collect();
    match answer(&words, args.output) {
        Ok(text) => {
            output::print(&text);
            ExitCode::SUCCESS
        }
        Err(message) => {
            crate::errln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// Answers the command. Each network namespace has devices of its own, and a forked child gets copies of registered
/// pages.
fn answer(words: &[&str], output: OutputArgs) -> Result<String, String> {
    match words {
        [] | ["show"] | ["show", "netns"] => {
            let members: Members = vec![("netns", "exclusive".into()), ("copy-on-fork", Value::from(true))];
            Ok(match output.json {
                true => iproute::json(&[members], output.pretty),
                false => "netns exclusive copy-on-fork on\n".to_owned(),
            })
        }
        ["set", "netns", "exclusive"] => Ok(String::new()),
        ["set", "netns", "shared"] => {
            Err("error: Operation not supported\nWeft's devices belong to one network namespace \
                                           each: every namespace has a daemon of its own"
                .to_owned())
        }
        _ => Err("Usage: weft system [show [netns]]".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_have_devices_of_their_own() {
        let plain = OutputArgs::default();
        for words in [&[][..], &["show"], &["show", "netns"]] {
            assert_eq!(answer(words, plain).unwrap(), "netns exclusive copy-on-fork on\n");
        }
        let json = answer(&[], OutputArgs { json: true, ..plain }).unwrap();
        assert_eq!(json, "[{\"netns\":\"exclusive\",\"copy-on-fork\":true}]\n");
        assert_eq!(answer(&["set", "netns", "exclusive"], plain).unwrap(), "");
        assert!(answer(&["set", "netns", "shared"], plain).unwrap_err().starts_with("error: Operation not supported"));
        assert!(answer(&["x"], plain).unwrap_err().starts_with("Usage"));
    }
}
