//! `weft nfs mount` and `weft nfs umount`.
//!
//! - `options` are those of nfs(5), `source` is what is mounted;
//! - `kernel` mounts by the kernel's own client through a relay, `user` by this program's client and FUSE;
//! - `helper` is the command line that mount(8) gives its helper `mount.nfs`;
//! - `background` starts the process that stays, `unmount` ends it.

mod args;
mod background;
mod helper;
mod kernel;
mod options;
mod source;
mod unmount;
mod user;

use anyhow::{Context, Result, ensure};

pub use args::{MountArgs, UmountArgs};
pub use helper::mount_over_rdma;
use options::MountOptions;

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

/// Unmounts a directory.
///
/// # Errors
/// It is not mounted, or in use.
pub fn unmount(args: &UmountArgs) -> Result<()> {
    unmount::run(args)
}
