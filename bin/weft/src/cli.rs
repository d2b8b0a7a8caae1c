//! The command line of `weft`.

use clap::{Parser, Subcommand};

use crate::commands::{
    cable, capture, cdi, check, cm, daemon, dev, diagnose, doctor, env, environment, explain, fault, host_apply, hosts,
    link, manual, metrics, monitor, node, pingall, qp, record, resource, run, sm, stat, status, system, top, topology,
    up,
};

/// RDMA without the hardware: unmodified verbs programs over real RoCE v2 packets.
#[derive(Parser, Debug)]
#[command(name = "weft", version, max_term_width = 100)]
pub struct Cli {
    /// Command to run
    #[command(subcommand)]
    pub command: Command,
}

/// The commands of `weft`.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Show that RDMA works here: two processes, real packets, a report within seconds
    Demo(crate::commands::demo::DemoArgs),
    /// Run a program with Weft's libraries and devices
    Run(run::RunArgs),
    /// Add faults to running programs, list and remove them: weft fault add status=RETRY_EXC_ERR,count=1
    Fault(fault::FaultArgs),
    /// Run a program and report its misuse of verbs: weft check -- PROGRAM
    ///
    /// A library in each process of the program watches its calls and completions. The reports come when the program
    /// has ended; its exit status is passed on, or replaced by 99 if an error was found.
    Check(Box<check::CheckArgs>),
    /// Run a program and record what happens to its queue pairs: weft record -- PROGRAM
    ///
    /// Each process keeps set-up, posts, packets, losses, completions and events in a ring of bounded size, which is
    /// readable however the process ends. weft explain reads the file.
    Record(Box<record::RecordArgs>),
    /// Tell why a recorded connection broke: weft explain weft.record
    Explain(explain::ExplainArgs),
    /// Post a recorded program's requests again, to a live peer: weft replay weft.record HOST
    ///
    /// Replays one side of an RC or UC queue pair: its requests in their order, with their sizes, operations, flags and
    /// times, each after the completions that the program had polled before it. Compares status, number, length and
    /// immediate data of the completions with the recorded ones; the exit status is 0 if none differs. Payload is not
    /// recorded: a pattern is sent in its place.
    Replay(Box<weft_verbs_tools::replay::ReplayArgs>),
    /// Start a shell as a host of the fabric
    Shell(hosts::ShellArgs),
    /// Run a program on many hosts of the fabric: weft exec node[1-8] -- hostname, weft exec --all -- hostname
    Exec(hosts::ExecArgs),
    /// Remote shell onto a host of the fabric, with rsh's and ssh's command line: mpirun --mca plm_rsh_agent "weft rsh"
    Rsh(hosts::RshArgs),
    /// Configure a host of the fabric from an administrator's files: weft host apply FILE...
    Host(host_apply::HostArgs),
    /// Print the variables that make programs use Weft: eval $(weft env)
    Env(env::EnvArgs),
    /// Write a specification that gives containers Weft's devices: podman run --device weft.internal/hca=all
    Cdi(cdi::CdiArgs),
    /// Print the environment variables that Weft reads
    Environment(environment::EnvironmentArgs),
    /// Show, add or delete RDMA ports: show, add NAME type rxe netdev IF, del NAME
    Link(link::LinkArgs),
    /// Show or rename RDMA devices: show, set DEV name NEWNAME
    Dev(dev::DevArgs),
    /// Show counters of devices, queue pairs and ports of the fabric: weft stat DEV --watch
    #[command(visible_alias = "statistic")]
    Stat(stat::StatArgs),
    /// Show processes, queue pairs and ports by their present traffic, as top does
    Top(top::TopArgs),
    /// Show the fabric, or this machine's adapters, live in the browser
    ///
    /// Prints an address with a token, for the browser: state and load of every link, hosts with their programs, faults
    /// to switch on and off, the event log, counters over time, the subnet manager's sweeps and routes; without a fabric
    /// the machine's adapters, flows and queue pairs. It needs no other server.
    Ui(weft_ui::UiArgs),
    /// Print all metrics for Prometheus, or serve them: weft metrics --listen
    Metrics(metrics::MetricsArgs),
    /// Show the queue pairs of all processes, with the path of each to its peer
    Qp(qp::QpArgs),
    /// Count RDMA objects (show) or list them (show qp, show cm_id)
    #[command(visible_alias = "res")]
    Resource(resource::ResourceArgs),
    /// Show the namespace mode of the devices, as rdma system does: show
    System(system::SystemArgs),
    /// Print an event whenever a device is added, removed or renamed
    Monitor(monitor::MonitorArgs),
    /// Show or set the defaults of new connections: weft cm DEV [default_roce_mode v1|v2] [default_roce_tos N]
    Cm(cm::CmArgs),
    /// Bring up an InfiniBand fabric: weft up FILE, weft up --fat-tree 36,2
    Up(up::UpArgs),
    /// Take the InfiniBand fabric down
    Down,
    /// Print the running fabric, or a description file, as a drawing or in another format
    Topology(topology::TopologyArgs),
    /// Cut, join and degrade cables of the fabric
    Cable(cable::CableArgs),
    /// Capture packets of the fabric for Wireshark: weft capture -w FILE
    ///
    /// The file has the management datagrams that the hosts' adapters send and receive (subnet management, queries and
    /// joins, connection management) and the packets of their IPoIB interfaces, as InfiniBand packets from LRH to VCRC.
    /// A packet between two captured hosts is there twice: as sent, and as received.
    ///
    /// Data packets of programs pass directly from process to process and are not in it: `weft run --pcap` captures
    /// them.
    Capture(capture::CaptureArgs),
    /// Power nodes of the fabric off and on
    Node(node::NodeArgs),
    /// Run the subnet manager, query and control it, or try it on a fabric description
    Sm(Box<sm::SmArgs>),
    /// Check a whole InfiniBand fabric and report its faults
    Diagnose(Box<diagnose::Args>),
    /// Check whether Weft works on this machine, and for a program: weft doctor -- PROGRAM
    Doctor(doctor::DoctorArgs),
    /// Show the daemon and the processes that use it
    Status(status::StatusArgs),
    /// Measure bandwidth, latency and message rate
    Perf(crate::perf::PerfArgs),
    /// Serve NFS over RDMA: weft nfs serve --export DIR
    Nfs(weft_nfs::NfsArgs),
    /// Serve and use NVMe namespaces over RDMA: weft nvme target --namespace FILE, weft nvme connect -a TARGET -n NQN
    Nvme(weft_nvme_process::NvmeArgs),
    /// Serve and use SCSI disks over RDMA: weft srp target --lun FILE, weft srp connect LOGIN
    Srp(weft_srp_process::SrpArgs),
    /// Reliable Datagram Sockets: ping a host, list connections, and the service of weft run --rds
    Rds(weft_rds_process::RdsArgs),
    /// Run the daemon (programs start it on demand)
    Daemon(daemon::DaemonArgs),
    /// Print a shell's completions of weft's commands
    Completions(manual::CompletionsArgs),
    /// Write the manual pages into a directory
    #[command(hide = true)]
    ManualPages(manual::ManualPagesArgs),
    /// The part of `weft up --test pingall` that runs as a host
    #[command(hide = true)]
    PingallHost(pingall::HostArgs),
    /// Print the version
    Version,
}
