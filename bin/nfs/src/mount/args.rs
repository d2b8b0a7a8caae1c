//! Options of `weft nfs mount` and `weft nfs umount`.

use std::path::PathBuf;

use clap::Args;

use super::source::Source;

/// Options of `weft nfs mount`.
#[derive(Args, Debug)]
pub struct MountArgs {
    /// Server and the directory that it exports
    #[arg(value_name = "HOST:/EXPORT")]
    pub source: Source,
    /// Directory to mount it on
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Options of nfs(5), separated by commas, such as soft,timeo=100,rsize=65536
    #[arg(short = 'o', long = "options", value_name = "OPTIONS", allow_hyphen_values = true)]
    pub options: Vec<String>,
    /// Stay in the foreground
    #[arg(short, long)]
    pub foreground: bool,
    /// This process was started by the command, which waits for its line
    #[arg(long, hide = true)]
    pub detached: bool,
    /// Use the system's libraries and real adapters, not Weft's
    #[arg(long)]
    pub system: bool,
}

/// Options of `weft nfs umount`.
#[derive(Args, Debug)]
pub struct UmountArgs {
    /// Directory that is mounted
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// End it even if the server does not answer
    #[arg(short, long)]
    pub force: bool,
    /// Unmount now, and clean up when no program uses it any more
    #[arg(short, long)]
    pub lazy: bool,
}
