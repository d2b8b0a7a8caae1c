//! The command line of a checked program: under `weft run`, or alone on the machine's own adapters.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::args::CheckArgs;
use crate::commands::run::{self, AdapterArgs, REPORT_VARIABLE, RunArgs};
use crate::rdma_dir;

/// Variable with the length of the longest message whose buffer is compared.
const SNAPSHOT_VARIABLE: &str = "WEFT_CHECK_SNAPSHOT";

/// How one run of the program differs from the others.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// Directory of the reports.
    pub reports: &'a Path,
    /// Seed of a strict adapter.
    pub seed: Option<u64>,
}

impl Scene<'_> {
    /// The checked program.
    ///
    /// # Errors
    /// Weft's libraries are missing.
    pub fn program(&self, args: &CheckArgs) -> Result<Command> {
        // With a server, its port was waited for.
        let wait_port = args.place.wait_port.filter(|_| args.server.is_none() && !args.place.detach);
        self.command(args, RunArgs { wait_port, ..args.run_args(args.place.adapters.host.as_ref(), &args.command) })
    }

    /// The checked server of `--server`.
    ///
    /// # Errors
    /// As [`Scene::program`].
    pub fn server(&self, args: &CheckArgs, script: &OsStr) -> Result<Command> {
        let words = [OsString::from("sh"), "-c".into(), script.to_owned()];
        let host = args.server_host.as_ref().or(args.place.adapters.host.as_ref());
        // One capture file has room for one program.
        let mut own = RunArgs { wait_port: None, ..args.run_args(host, &words) };
        own.adapters.pcap = None;
        self.command(args, own)
    }

    fn command(&self, args: &CheckArgs, run: RunArgs) -> Result<Command> {
        let mut command = match args.place.system {
            true => alone(&run.command, self.reports)?,
            false => {
                let strict = self.seed.or(run.adapters.strict);
                under_run(&RunArgs { adapters: AdapterArgs { strict, ..run.adapters }, ..run })?
            }
        };
        command.env(REPORT_VARIABLE, self.reports);
        if let Some(bytes) = args.reports.snapshot {
            command.env(SNAPSHOT_VARIABLE, bytes.to_string());
        }
        Ok(command)
    }
}

fn under_run(run: &RunArgs) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("this program's file")?);
    command.arg("run");
    command.args(run.wait_port.iter().flat_map(|port| ["--wait-port".to_owned(), port.to_string()]));
    command.args(run::words(run));
    Ok(command)
}

fn alone(words: &[OsString], reports: &Path) -> Result<Command> {
    let (program, rest) = words.split_first().context("no command given")?;
    let mut command = Command::new(program);
    command.args(rest);
    run::preload_check(&rdma_dir::find()?, reports, &mut command)?;
    Ok(command)
}
