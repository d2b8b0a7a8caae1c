//! The log and the dump files.

use super::own;
use crate::options::spec::{Effect, group};

group! {
    /// The log and the dump files.
    Log at log {
        /// File of node names: a GUID and a quoted name per line
        node_name_map_name: Option<String> = None, Restart, Effect::Works;
        /// Bit mask of messages to log: 1 errors, 2 information, 4 verbose, 8 debug, 0x10 functions, 0x20 MADs,
        /// 0x40 routing, 0x80 also to the system log
        log_flags: u8 = 3, Live, Effect::Works;
        /// Flush the log to disk after every line
        force_log_flush: bool = false, Live, Effect::Works;
        /// Log file; stdout and stderr name those streams
        log_file: Option<String> = Some("/var/log/opensm.log".to_owned()), Restart, Effect::Works;
        /// Megabytes after which the log is truncated; 0: never
        log_max_size: u32 = 0, Live, Effect::Works;
        /// Append to the previous log
        accum_log_file: bool = true, Live, Effect::Works;
        /// File of per-module log_flags: a module and its flags per line
        per_module_logging_file: Option<String> = own("per-module-logging.conf"), Restart, Effect::Works;
        /// Directory of the dump files
        dump_files_dir: Option<String> = Some("/var/log/".to_owned()), Restart, Effect::Works;
        /// Prefix of messages to the system log
        log_prefix: Option<String> = None, Live, Effect::Works;
    }
}
