//! `weft completions` and `weft manual-pages`: what packages and shells need, from the command line's own definition.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap_complete::Shell;

use crate::{output, tools};

/// Options of `weft completions`.
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// Shell that reads the script: bash -c 'source <(weft completions bash)'
    #[arg(value_enum)]
    shell: Shell,
}

/// Options of `weft manual-pages`.
#[derive(Args, Debug)]
pub struct ManualPagesArgs {
    /// Directory to write them to
    directory: PathBuf,
}

/// Prints the completions of `command` and of the tools for a shell.
pub fn completions(command: clap::Command, args: &CompletionsArgs) -> ExitCode {
    let tool = |tool: &tools::Tool| clap::Command::new(tool.name).about(tool.about).disable_help_flag(true);
    let mut command = command.subcommands(tools::all().into_iter().map(tool));
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "weft", &mut script);
    output::print_bytes(&script);
    ExitCode::SUCCESS
}

/// Writes `weft.1` and one page for each command.
pub fn pages(command: clap::Command, args: &ManualPagesArgs) -> ExitCode {
    let written = std::fs::create_dir_all(&args.directory)
        .and_then(|()| clap_mangen::generate_to(command.disable_help_subcommand(true), &args.directory));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            crate::errln!("weft manual-pages: {}: {}", args.directory.display(), crate::errno::text(&error));
            ExitCode::FAILURE
        }
    }
}
