//! The units of a fabric's host.

/// Longest instance of a unit in bytes: it is a file's name.
const INSTANCE_BYTES_MAX: usize = 64;

const LOAD_MODULES: &str = "rdma-load-modules@";

/// A unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unit {
    /// `weft-sm.service`, the host's subnet manager. OpenSM's unit is another name of it.
    Manager,
    /// `rdma-load-modules@INSTANCE.service`.
    LoadModules(String),
    /// `systemd-modules-load.service`.
    ModulesAtBoot,
    /// `rdma-hw.target`.
    Hardware,
}

impl Unit {
    /// Finds a unit by a name with or without its suffix.
    pub fn parse(name: &str) -> Option<Unit> {
        if name == "rdma-hw.target" {
            return Some(Unit::Hardware);
        }
        let name = name.strip_suffix(".service").unwrap_or(name);
        match name {
            "opensm" | "weft-sm" => Some(Unit::Manager),
            "systemd-modules-load" => Some(Unit::ModulesAtBoot),
            _ => name
                .strip_prefix(LOAD_MODULES)
                .filter(|instance| is_file_name(instance))
                .map(|instance| Unit::LoadModules(instance.to_owned())),
        }
    }

    /// Its full name.
    pub fn name(&self) -> String {
        match self {
            Unit::Manager => "weft-sm.service".to_owned(),
            Unit::LoadModules(instance) => format!("{LOAD_MODULES}{instance}.service"),
            Unit::ModulesAtBoot => "systemd-modules-load.service".to_owned(),
            Unit::Hardware => "rdma-hw.target".to_owned(),
        }
    }

    /// Its description.
    pub fn description(&self) -> String {
        match self {
            Unit::Manager => "InfiniBand subnet manager and administrator (weft)".to_owned(),
            Unit::LoadModules(instance) => format!("Load RDMA modules from /etc/rdma/modules/{instance}.conf"),
            Unit::ModulesAtBoot => "Load Kernel Modules".to_owned(),
            Unit::Hardware => "RDMA Hardware".to_owned(),
        }
    }

    /// Where it is described.
    pub fn documentation(&self) -> &'static str {
        match self {
            Unit::Manager => "man:weft-sm(1)",
            Unit::LoadModules(_) | Unit::Hardware => "file:/usr/share/doc/rdma-core/udev.md",
            Unit::ModulesAtBoot => "man:modules-load.d(5)",
        }
    }
}

/// Returns a unit's name as systemd completes it.
pub fn with_suffix(name: &str) -> String {
    if name.contains('.') { name.to_owned() } else { format!("{name}.service") }
}

/// Whether an instance can be the name of one file: it leads into no other directory.
fn is_file_name(instance: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (1..=INSTANCE_BYTES_MAX).contains(&instance.len()) && !instance.starts_with('.') && instance.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_have_the_guides_names() {
        for (name, full) in [
            ("opensm", "weft-sm.service"),
            ("opensm.service", "weft-sm.service"),
            ("rdma-load-modules@rdma.service", "rdma-load-modules@rdma.service"),
            ("rdma-load-modules@infiniband", "rdma-load-modules@infiniband.service"),
            ("rdma-hw.target", "rdma-hw.target"),
            ("systemd-modules-load", "systemd-modules-load.service"),
        ] {
            assert_eq!(Unit::parse(name).map(|unit| unit.name()).as_deref(), Some(full), "{name}");
        }
        assert_eq!((with_suffix("ssh"), with_suffix("a.target")), ("ssh.service".to_owned(), "a.target".to_owned()));
    }

    #[test]
    fn instances_lead_nowhere_else() {
        for bad in ["", "../x", ".x", "a/b", "a\nb", &"x".repeat(65)] {
            assert_eq!(Unit::parse(&format!("{LOAD_MODULES}{bad}")), None, "{bad:?}");
        }
        assert_eq!(Unit::parse("ssh"), None);
    }
}
