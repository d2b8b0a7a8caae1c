//! The command line of `weft`.

use clap::{Parser, Subcommand};

use crate::commands::{cm, daemon, dev, link, resource, run, status};

/// RDMA without the hardware: unmodified verbs programs over real RoCE v2 packets.
#[derive(Parser, Debug)]
#[command(name = "weft", version, max_term_width = 100, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Show in a few seconds that RDMA works here: two processes, real packets, a report
    Demo(crate::commands::demo::DemoArgs),
    /// Run a program with Weft's libraries and devices
    Run(run::RunArgs),
    /// Print the variables that make programs use Weft: eval $(weft env)
    Env,
    /// RDMA ports: show, add NAME type rxe netdev IF, del NAME
    Link(link::LinkArgs),
    /// RDMA devices: show, set DEV name NEWNAME
    Dev(dev::DevArgs),
    /// Connections and listeners of the RDMA CM: show cm_id
    #[command(visible_alias = "res")]
    Resource(resource::ResourceArgs),
    /// What new connections start with: weft cm DEV [default_roce_mode v1|v2] [default_roce_tos N]
    Cm(cm::CmArgs),
    /// The daemon and the processes that use it
    Status(status::StatusArgs),
    /// Measure bandwidth, latency and message rate
    Perf(crate::perf::PerfArgs),
    /// Run the daemon (programs start it by themselves when they need it)
    Daemon(daemon::DaemonArgs),
}
