//! The command line of `weft`.

use clap::{Parser, Subcommand};

use crate::commands::{
    cable, cm, daemon, dev, diagnose, env, environment, link, monitor, node, qp, resource, run, sm, stat, status,
    system, topology, up,
};

/// RDMA without the hardware: unmodified verbs programs over real RoCE v2 packets.
#[derive(Parser, Debug)]
#[command(name = "weft", version, max_term_width = 100)]
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
    Env(env::EnvArgs),
    /// Print the environment variables that Weft reads
    Environment(environment::EnvironmentArgs),
    /// RDMA ports: show, add NAME type rxe netdev IF, del NAME
    Link(link::LinkArgs),
    /// RDMA devices: show, set DEV name NEWNAME
    Dev(dev::DevArgs),
    /// Counters of devices and queue pairs, all processes together: weft stat DEV --watch
    #[command(visible_alias = "statistic")]
    Stat(stat::StatArgs),
    /// Queue pairs of all processes, and which way each takes to its peer
    Qp(qp::QpArgs),
    /// How many objects there are: show; which: show qp, show cm_id
    #[command(visible_alias = "res")]
    Resource(resource::ResourceArgs),
    /// Namespace mode of the devices, as rdma system: show
    System(system::SystemArgs),
    /// Print devices as they come, go and change their names
    Monitor(monitor::MonitorArgs),
    /// What new connections start with: weft cm DEV [default_roce_mode v1|v2] [default_roce_tos N]
    Cm(cm::CmArgs),
    /// Bring up an InfiniBand fabric: weft up FILE, weft up --fat-tree 36,2
    Up(up::UpArgs),
    /// Take it down
    Down,
    /// The fabric that is up, or a file, drawn or in another format
    Topology(topology::TopologyArgs),
    /// Cut, join and degrade cables of the fabric
    Cable(cable::CableArgs),
    /// Power nodes of the fabric off and on
    Node(node::NodeArgs),
    /// The subnet manager: run it, look at it, speak to it, try it on a description of a fabric
    Sm(Box<sm::SmArgs>),
    /// Look at a whole InfiniBand fabric and report what is wrong with it
    Diagnose(Box<diagnose::Args>),
    /// The daemon and the processes that use it
    Status(status::StatusArgs),
    /// Measure bandwidth, latency and message rate
    Perf(crate::perf::PerfArgs),
    /// Run the daemon (programs start it by themselves when they need it)
    Daemon(daemon::DaemonArgs),
    /// Print the version
    Version,
}
