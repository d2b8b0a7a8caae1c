//! Log flags by module (`per_module_logging_file`): a module and its flags per line.

use super::ENTRIES_MAX;
use crate::options::{Diagnostic, Diagnostics, clip, lines, number};

/// Flags of one module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModuleFlags {
    /// The module: a source file of OpenSM (`osm_sweep.c`), or a part of this manager.
    pub module: String,
    /// Messages to log, a bit each, as in `log_flags`.
    pub flags: u8,
}

/// Parses lines of module and flags, separated by `=`, a comma or blanks.
pub fn modules(text: &str, file: &str) -> (Vec<ModuleFlags>, Vec<Diagnostic>) {
    let mut diagnostics = Diagnostics::of(file);
    let mut found = Vec::new();
    for (at, line) in lines(text).take(ENTRIES_MAX) {
        let (module, flags) = line.split_once(['=', ',', ' ', '\t']).unwrap_or((line, ""));
        let flags = flags.trim_start_matches(['=', ',', ' ', '\t']);
        match number(flags).ok().and_then(|flags| u8::try_from(flags).ok()) {
            Some(flags) => found.push(ModuleFlags { module: module.to_owned(), flags }),
            None => {
                let what = format!("{} has no flags from 0 to 0xff; the line is passed over", clip(module));
                diagnostics.error((at, 1), what, "write MODULE FLAGS, such as osm_sa.c 0x07");
            }
        }
    }
    (found, diagnostics.into_list())
}

#[test]
fn modules_have_flags() {
    let (found, diagnostics) = modules("osm_sa.c=0x07\nosm_sm.c 3 # c\nosm_x.c , 0xff\nosm_y.c\n", "m");
    let pairs: Vec<_> = found.iter().map(|entry| (entry.module.as_str(), entry.flags)).collect();
    assert_eq!(pairs, [("osm_sa.c", 7), ("osm_sm.c", 3), ("osm_x.c", 255)]);
    assert_eq!(diagnostics.len(), 1);
}
