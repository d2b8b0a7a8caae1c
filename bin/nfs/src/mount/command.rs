//! The command: it chooses the client, and the process that mounts.

use anyhow::{Context, Result, ensure};

use super::args::MountArgs;
use super::options::MountOptions;
use super::{background, kernel, user};

/// Mounts a directory.
///
/// # Errors
/// The options are wrong, the server does not answer, or the mount fails.
pub fn run(args: &MountArgs) -> Result<()> {
    let options = MountOptions::parse(&args.options)?;
    let directory = args.directory.canonicalize().with_context(|| format!("{}", args.directory.display()))?;
    ensure!(directory.is_dir(), "{}: not a directory", directory.display());
    if options.uses_kernel() {
        return kernel::mount(args, &options, &directory);
    }
    if args.foreground { user::serve(args, &options, &directory) } else { background::start(args, &directory) }
}
