//! opensm.conf is written, with words about each option; and two configurations are compared.

use std::fmt::Write;

use super::spec::{Change, Effect, Spec};
use super::{Options, SECTIONS};

/// A commented file that says these options, for this manager and OpenSM alike.
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
    // OpenSM does not know this one by every version; its default says nothing.
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
    /// What it was.
    pub old: String,
    /// What it is.
    pub new: String,
    /// When the change counts.
    pub change: Change,
    /// What the option does.
    pub effect: Effect,
}

/// What a second reading changes.
pub fn changes(old: &Options, new: &Options) -> Vec<Difference> {
    let specs = SECTIONS.iter().flat_map(|section| section.specs);
    let differing = specs.filter_map(|spec| {
        let (old, new) = ((spec.show)(old).join(", "), (spec.show)(new).join(", "));
        (old != new).then_some(Difference { name: spec.name, old, new, change: spec.change, effect: spec.effect })
    });
    differing.collect()
}

/// The options that count after a second reading: those of the file, but what needs a new start stays what it was.
pub fn reloaded(old: &Options, new: &Options) -> Options {
    let mut options = new.clone();
    for spec in SECTIONS.iter().flat_map(|section| section.specs).filter(|spec| spec.change == Change::Restart) {
        for value in (spec.show)(old) {
            // A text that an option gave of itself is one that it takes.
            let _ = (spec.set)(&mut options, &value);
        }
    }
    options
}
