//! OpenSM's performance manager and plug-in options; they have no effect here.

use crate::options::spec::{Effect, group};

const COUNTERS: Effect = Effect::Nothing("there is no performance manager: metrics and perfquery show the counters");
const PLUGINS: Effect = Effect::Nothing("there are no plug-ins: events come as a stream of JSON lines");

group! {
    /// OpenSM's performance manager and plug-ins.
    Perfmgr at perfmgr {
        /// Read the counters of all ports periodically
        perfmgr: bool = false, Restart, COUNTERS;
        /// Follow redirections by agents
        perfmgr_redir: bool = true, Restart, COUNTERS;
        /// Seconds between reads
        perfmgr_sweep_time_s: u16 = 180, Restart, COUNTERS;
        /// Maximum queries in flight
        perfmgr_max_outstanding_queries: u32 = 500, Restart, COUNTERS;
        /// Skip adapters
        perfmgr_ignore_cas: bool = false, Restart, COUNTERS;
        /// Forget nodes that left
        perfmgr_rm_nodes: bool = true, Restart, COUNTERS;
        /// Log error counters
        perfmgr_log_errors: bool = true, Restart, COUNTERS;
        /// Query the capabilities of agents (ClassPortInfo)
        perfmgr_query_cpi: bool = true, Restart, COUNTERS;
        /// Log XmitWait counters
        perfmgr_xmit_wait_log: bool = false, Restart, COUNTERS;
        /// XmitWait count from which to log
        perfmgr_xmit_wait_threshold: u32 = 65_535, Restart, COUNTERS;
        /// Event dump file
        event_db_dump_file: Option<String> = None, Restart, COUNTERS;
        /// Plug-ins that receive events
        event_plugin_name: Option<String> = None, Restart, PLUGINS;
        /// Plug-in options
        event_plugin_options: Option<String> = None, Restart, PLUGINS;
    }
}
