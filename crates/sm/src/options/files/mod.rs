//! The files that options name: lists of GUIDs, weights, orders, names. Each parser is a pure function from text to
//! values; it skips a line that it cannot parse, with a diagnostic.

mod modules;
mod names;
mod prefix_routes;
mod routing;

pub use modules::{ModuleFlags, modules};
pub use names::names;
pub use prefix_routes::{PrefixRoute, prefix_routes};
pub use routing::{HopWeight, RoutingFiles, guids, hop_weights, ids, ignored_ports, port_orders, routing};

use super::{Diagnostic, Diagnostics, clip, lines, number};

/// Entries taken from one file: more than a subnet has ports.
pub const ENTRIES_MAX: usize = 1 << 20;

/// Parses lines that begin with a GUID; `entry` parses the rest, or says what is wrong.
fn by_guid<T>(
    text: &str,
    file: &str,
    form: &str,
    mut entry: impl FnMut(u64, &str) -> Result<T, String>,
) -> (Vec<T>, Vec<Diagnostic>) {
    let mut diagnostics = Diagnostics::of(file);
    let mut entries = Vec::new();
    for (at, line) in lines(text) {
        if entries.len() == ENTRIES_MAX {
            diagnostics.error((at, 0), format!("there are more than {ENTRIES_MAX} lines: the rest is passed over"), "");
            break;
        }
        let (guid, rest) = line.split_once(|c: char| c.is_whitespace()).unwrap_or((line, ""));
        match number(guid).and_then(|guid| entry(guid, rest.trim())) {
            Ok(value) => entries.push(value),
            Err(wrong) => {
                diagnostics.error((at, 1), format!("{wrong}; the line is passed over"), format!("write {form}"))
            }
        }
    }
    (entries, diagnostics.into_list())
}

/// Parses a port number, from 1.
fn port(text: &str) -> Result<u8, String> {
    let number = number(text)?;
    u8::try_from(number)
        .ok()
        .filter(|port| (1..=254).contains(port))
        .ok_or_else(|| format!("{} is no port from 1 to 254", clip(text)))
}
