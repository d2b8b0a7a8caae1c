//! Writes opensm.conf with a description of each option, and compares two configurations.

use std::fmt::Write;

use super::spec::{Change, Effect, Spec};
use super::{Options, SECTIONS};

/// Returns a commented file with these options that this manager and OpenSM both read.
pub fn create_config(options: &Options) -> String {
    let mut text = String::new();
    for section in SECTIONS {
        let _ = writeln!(text, "#\n# {}\n#", section.title);
        for spec in section.specs {
            option(&mut text, options, spec);
        }
        text.push('\n');
    }
    text
}

fn option(text: &mut String, options: &Options, spec: &Spec) {
    for line in spec.about.iter().filter(|line| !line.is_empty()) {
        let _ = writeln!(text, "# {}", line.trim());
    }
    if let Effect::Nothing(why) = spec.effect {
        let _ = writeln!(text, "# (no effect: {why})");
    }
    // Some OpenSM versions do not know this option, so its default stays commented out.
    let mark = if spec.name == "max_rate_enum" && options.misc.max_rate_enum == 255 { "#" } else { "" };
    for value in (spec.show)(options) {
        let _ = writeln!(text, "{mark}{} {value}", spec.name);
    }
    if spec.about.iter().any(|line| !line.is_empty()) && !spec.name.starts_with("qos_") {
        text.push('\n');
    }
}

/// An option that differs between two configurations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The option.
    pub name: &'static str,
    /// The old value.
    pub old: String,
    /// The new value.
    pub new: String,
    /// When the change takes effect.
    pub change: Change,
    /// The option's effect.
    pub effect: Effect,
}

/// Returns the options that differ between two configurations.
pub fn changes(old: &Options, new: &Options) -> Vec<Difference> {
    let specs = SECTIONS.iter().flat_map(|section| section.specs);
    let differing = specs.filter_map(|spec| {
        let (old, new) = ((spec.show)(old).join(", "), (spec.show)(new).join(", "));
        (old != new).then_some(Difference { name: spec.name, old, new, change: spec.change, effect: spec.effect })
    });
    differing.collect()
}

/// Returns the options in effect after a reload: those of the file, except that options that need a restart keep their
/// old values.
pub fn reloaded(old: &Options, new: &Options) -> Options {
    let mut options = new.clone();
    for spec in SECTIONS.iter().flat_map(|section| section.specs).filter(|spec| spec.change == Change::Restart) {
        for value in (spec.show)(old) {
            // An option accepts the text that it wrote itself.
            let _ = (spec.set)(&mut options, &value);
        }
    }
    options
}
