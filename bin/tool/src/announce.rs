//! Announces the path of the running command to this process's libraries and its children, which start the daemon by it.

use std::env;
use std::sync::Once;

/// Tells this process's libraries, and its children, the path of the command that starts the daemon.
pub fn announce_daemon() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if env::var_os("WEFT_BIN").is_none()
            && let Ok(exe) = env::current_exe()
        {
            // SAFETY: called before this process starts any thread that might read the environment.
            unsafe { env::set_var("WEFT_BIN", exe) };
        }
    });
}
