//! The log and the dump files.

use super::own;
use crate::options::spec::{Effect, group};

group! {
    /// The log and the dump files.
    Log at log {
        /// File of names for nodes: GUID and name in quotation marks a line
        node_name_map_name: Option<String> = None, Restart, Effect::Works;
        /// What is logged, a bit each: 1 errors, 2 information, 4 more, 8 debugging, 0x10 functions, 0x20 datagrams,
        /// 0x40 routing, 0x80 to the system's log too
        log_flags: u8 = 3, Live, Effect::Works;
        /// Every line is on its way to the disk at once
        force_log_flush: bool = false, Live, Effect::Works;
        /// The log; stdout and stderr are what they say
        log_file: Option<String> = Some("/var/log/opensm.log".to_owned()), Restart, Effect::Works;
        /// Megabytes after which the log begins anew; 0: never
        log_max_size: u32 = 0, Live, Effect::Works;
        /// The log goes on where it ended last time
        accum_log_file: bool = true, Live, Effect::Works;
        /// File of log_flags by module: a module and flags a line
        per_module_logging_file: Option<String> = own("per-module-logging.conf"), Restart, Effect::Works;
        /// Directory of the dump files
        dump_files_dir: Option<String> = Some("/var/log/".to_owned()), Restart, Effect::Works;
        /// What stands before messages to the system's log
        log_prefix: Option<String> = None, Live, Effect::Works;
    }
}
