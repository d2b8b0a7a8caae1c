//! OpenSM's performance manager and plug-ins, which have no counterpart here.

use crate::options::spec::{Effect, group};

const COUNTERS: Effect = Effect::Nothing("there is no performance manager: metrics and perfquery tell counters");
const PLUGINS: Effect = Effect::Nothing("there are no plug-ins: events come as a stream of JSON lines");

group! {
    /// OpenSM's performance manager and plug-ins.
    Perfmgr at perfmgr {
        /// Read the counters of all ports, over and over
        perfmgr: bool = false, Restart, COUNTERS;
        /// Agents may redirect questions
        perfmgr_redir: bool = true, Restart, COUNTERS;
        /// Seconds between readings
        perfmgr_sweep_time_s: u16 = 180, Restart, COUNTERS;
        /// Questions under way at once
        perfmgr_max_outstanding_queries: u32 = 500, Restart, COUNTERS;
        /// Adapters are passed over
        perfmgr_ignore_cas: bool = false, Restart, COUNTERS;
        /// Nodes that are gone are forgotten
        perfmgr_rm_nodes: bool = true, Restart, COUNTERS;
        /// Counted errors go to the log
        perfmgr_log_errors: bool = true, Restart, COUNTERS;
        /// Agents are asked what they can
        perfmgr_query_cpi: bool = true, Restart, COUNTERS;
        /// Waits for credit go to the log
        perfmgr_xmit_wait_log: bool = false, Restart, COUNTERS;
        /// Waits for credit that are worth a line
        perfmgr_xmit_wait_threshold: u32 = 65_535, Restart, COUNTERS;
        /// File of events
        event_db_dump_file: Option<String> = None, Restart, COUNTERS;
        /// Plug-ins that get events
        event_plugin_name: Option<String> = None, Restart, PLUGINS;
        /// Options of the plug-ins
        event_plugin_options: Option<String> = None, Restart, PLUGINS;
    }
}
