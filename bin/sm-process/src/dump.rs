//! OpenSM's dump files.

use std::fmt::Write as _;
use std::path::Path;

use weft_sm::dump::FILES;
use weft_sm::manager::Manager;

/// The log flag that makes the manager write dump files each time the subnet comes up.
pub const ROUTING: u8 = 0x40;

/// Writes the dump files and returns a message about them.
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
