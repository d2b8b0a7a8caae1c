//! Kernel modules that `modprobe` loaded: each virtual host has its own set, and the machine has one. The requests are
//! beside those of the IPoIB interfaces, which come and go with their module.

use std::collections::{BTreeMap, BTreeSet};

use weft_ipc::{MODULES_MAX, Refusal, valid_module_name};

use crate::refusal::{EINVAL, ENOSPC, refuse};

/// The module of the IPoIB interfaces.
pub(super) const IPOIB: &str = "ib_ipoib";

/// Loaded modules by the host's name, which is empty for the machine.
#[derive(Debug, Default)]
pub(super) struct Modules(BTreeMap<String, BTreeSet<String>>);

impl Modules {
    /// Returns the modules of a host.
    pub fn of_host(&self, host: &str) -> Vec<String> {
        self.0.get(host).into_iter().flatten().cloned().collect()
    }

    /// Checks whether [`Modules::set`] may load a module.
    pub fn check(&self, host: &str, name: &str) -> Result<(), Refusal> {
        if !valid_module_name(name) {
            return Err(refuse(EINVAL, format!("{name:?} is not a name of a kernel module")));
        }
        if self.0.get(host).is_some_and(|all| all.len() >= MODULES_MAX) {
            return Err(refuse(ENOSPC, format!("at most {MODULES_MAX} modules can be loaded")));
        }
        Ok(())
    }

    /// Notes that a module was loaded or removed.
    pub fn set(&mut self, host: String, name: String, loaded: bool) {
        let of_host = self.0.entry(host).or_default();
        match loaded {
            true => of_host.insert(name),
            false => of_host.remove(&name),
        };
    }

    /// Forgets the modules of hosts, with their fabric.
    pub fn end_hosts(&mut self) {
        self.0.retain(|host, _| host.is_empty());
    }
}
