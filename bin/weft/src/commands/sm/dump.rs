//! Dump files, written where somebody wants them.

use std::fmt::Write as _;
use std::path::Path;

use weft_sm::dump::FILES;
use weft_sm::manager::Manager;

/// The log flag by which they are written whenever the subnet came up anew.
pub const ROUTING: u8 = 0x40;

/// Writes them; what to tell about it.
pub fn write(manager: &Manager, directory: &str) -> String {
    let mut told = String::new();
    if let Err(error) = std::fs::create_dir_all(directory) {
        return format!("cannot make {directory}: {error}\n");
    }
    for (name, text) in FILES {
        let path = Path::new(directory).join(name);
        let _ = match std::fs::write(&path, text(manager.subnet())) {
            Ok(()) => writeln!(told, "{}", path.display()),
            Err(error) => writeln!(told, "cannot write {}: {error}", path.display()),
        };
    }
    told
}
