//! The table of modules, and which of them are loaded.

use weft_ipc::DeviceInfo;

/// A kernel module.
#[derive(PartialEq, Eq, Debug)]
pub struct Module {
    /// Name, with underscores.
    pub name: &'static str,
    /// Directory below `kernel/drivers`.
    pub dir: &'static str,
    /// The modules of this table that it uses.
    pub uses: &'static [&'static str],
    /// Further names that modprobe knows it by.
    pub aliases: &'static [&'static str],
    /// Description, as modinfo prints it.
    pub description: &'static str,
    /// Whether `modprobe -r` removes it with the interfaces or devices that need it.
    pub removable: bool,
}

const fn module(
    name: &'static str,
    dir: &'static str,
    uses: &'static [&'static str],
    description: &'static str,
) -> Module {
    Module { name, dir, uses, aliases: &[], description, removable: false }
}

/// Every module that Weft stands in for. A module comes after those it uses.
pub const MODULES: [Module; 15] = [
    module("ib_core", "infiniband/core", &[], "InfiniBand core (Weft)"),
    module("ib_cm", "infiniband/core", &["ib_core"], "InfiniBand connection manager (Weft)"),
    module("iw_cm", "infiniband/core", &["ib_core"], "iWARP connection manager (Weft)"),
    module("rdma_cm", "infiniband/core", &["ib_core", "ib_cm", "iw_cm"], "RDMA connection manager (Weft)"),
    module("ib_uverbs", "infiniband/core", &["ib_core"], "Verbs for programs (Weft)"),
    module(
        "rdma_ucm",
        "infiniband/core",
        &["ib_core", "ib_uverbs", "rdma_cm"],
        "RDMA connection manager for programs (Weft)",
    ),
    module("ib_umad", "infiniband/core", &["ib_core"], "Management datagrams for programs (Weft)"),
    Module {
        aliases: &["rtnl-link-ipoib"],
        removable: true,
        ..module("ib_ipoib", "infiniband/ulp/ipoib", &["ib_core", "ib_cm"], "IP over InfiniBand (Weft)")
    },
    Module {
        aliases: &["rdma-link-rxe"],
        removable: true,
        ..module("rdma_rxe", "infiniband/sw/rxe", &["ib_core", "ib_uverbs"], "RoCE adapter in software (Weft)")
    },
    Module {
        aliases: &["rdma-link-siw"],
        removable: true,
        ..module("siw", "infiniband/sw/siw", &["ib_core", "ib_uverbs"], "iWARP adapter in software (Weft)")
    },
    module("weft_ib", "infiniband/sw/weft", &["ib_core", "ib_uverbs"], "Adapter of a virtual fabric (Weft)"),
    module("mlx4_core", "net/ethernet/mellanox/mlx4", &[], "Adapter of a virtual fabric (Weft)"),
    module("mlx4_ib", "infiniband/hw/mlx4", &["ib_core", "ib_uverbs", "mlx4_core"], "Adapter of a fabric (Weft)"),
    module("mlx5_core", "net/ethernet/mellanox/mlx5/core", &[], "Adapter of a virtual fabric (Weft)"),
    module("mlx5_ib", "infiniband/hw/mlx5", &["ib_core", "ib_uverbs", "mlx5_core"], "Adapter of a fabric (Weft)"),
];

/// Modules that are loaded wherever Weft runs.
const ALWAYS: [&str; 6] = ["ib_core", "ib_cm", "iw_cm", "rdma_cm", "ib_uverbs", "rdma_ucm"];

impl Module {
    /// The path of its file below the release's directory.
    pub fn file(&self) -> String {
        format!("kernel/drivers/{}/{}.ko", self.dir, self.name)
    }

    /// Whether Linux's module of this name drives real adapters, which Weft has nothing to do with.
    pub fn drives_hardware(&self) -> bool {
        ["net/ethernet/", "infiniband/hw/"].iter().any(|drivers| self.dir.starts_with(drivers))
    }

    /// The modules among `loaded` that use it.
    pub fn holders(&self, loaded: &[&Module]) -> Vec<&'static str> {
        loaded.iter().filter(|other| other.uses.contains(&self.name)).map(|other| other.name).collect()
    }
}

/// Returns the module of a name or an alias, in which dashes stand for underscores.
pub fn find(name: &str) -> Option<&'static Module> {
    let is_it = |known: &str| normal(known) == normal(name);
    MODULES.iter().find(|module| is_it(module.name) || module.aliases.iter().any(|alias| is_it(alias)))
}

/// A name as the kernel has it.
pub(super) fn normal(name: &str) -> String {
    name.replace('-', "_")
}

/// Returns the loaded modules: those that the devices and, with `has_ipoib`, the interfaces need, those that `modprobe`
/// loaded, and all that they use.
pub fn loaded(devices: &[DeviceInfo], has_ipoib: bool, by_modprobe: &[String]) -> Vec<&'static Module> {
    let mut names = ALWAYS.to_vec();
    names.extend(has_ipoib.then_some("ib_ipoib"));
    devices.iter().for_each(|device| names.extend(drivers(device)));
    let mut all: Vec<&'static Module> = Vec::new();
    // Backwards, since modules come after those they use.
    for module in MODULES.iter().rev() {
        let is_wanted = names.contains(&module.name) || by_modprobe.iter().any(|name| name == module.name);
        if is_wanted || all.iter().any(|user| user.uses.contains(&module.name)) {
            all.insert(0, module);
        }
    }
    all
}

/// The modules of a device's driver.
fn drivers(device: &DeviceInfo) -> &'static [&'static str] {
    match &device.infiniband {
        None if device.is_iwarp() => &["siw"],
        None => &["rdma_rxe"],
        Some(_) if device.name.starts_with("mlx4_") => &["mlx4_core", "mlx4_ib", "ib_umad"],
        Some(_) if device.name.starts_with("mlx5_") => &["mlx5_core", "mlx5_ib", "ib_umad"],
        Some(_) => &["weft_ib", "ib_umad"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::run::test_device;
    use weft_ipc::{DEVICE_KIND_SIW, InfiniBand};

    fn names(devices: &[DeviceInfo], has_ipoib: bool, by_modprobe: &[&str]) -> Vec<&'static str> {
        let by_modprobe: Vec<String> = by_modprobe.iter().map(|name| (*name).to_owned()).collect();
        loaded(devices, has_ipoib, &by_modprobe).iter().map(|module| module.name).collect()
    }

    #[test]
    fn a_module_comes_after_those_it_uses() {
        for (number, module) in MODULES.iter().enumerate() {
            for used in module.uses {
                assert!(MODULES[..number].iter().any(|earlier| earlier.name == *used), "{} uses {used}", module.name);
            }
        }
    }

    #[test]
    fn modules_follow_the_devices() {
        assert_eq!(names(&[], false, &[]), ALWAYS);
        let rxe = names(&[test_device()], false, &[]);
        assert!(rxe.contains(&"rdma_rxe") && !rxe.contains(&"ib_umad"), "{rxe:?}");
        let siw = DeviceInfo { kind: DEVICE_KIND_SIW.to_owned(), ..test_device() };
        let siw = names(&[siw], false, &[]);
        assert!(siw.contains(&"siw") && !siw.contains(&"rdma_rxe"), "{siw:?}");
        let infiniband = Some(Box::new(InfiniBand::default()));
        let adapter = DeviceInfo { name: "mlx4_0".to_owned(), infiniband, ..test_device() };
        let host = names(&[adapter], true, &[]);
        assert!(["mlx4_core", "mlx4_ib", "ib_umad", "ib_ipoib"].iter().all(|name| host.contains(name)), "{host:?}");
        assert!(!host.contains(&"weft_ib") && !host.contains(&"rdma_rxe"), "{host:?}");
    }

    #[test]
    fn a_module_brings_those_it_uses() {
        let mlx5 = names(&[], false, &["mlx5_ib", "unknown"]);
        assert!(mlx5.contains(&"mlx5_core") && mlx5.contains(&"mlx5_ib"), "{mlx5:?}");
    }

    #[test]
    fn names_have_dashes_or_underscores_and_aliases() {
        for name in ["rdma_rxe", "rdma-rxe", "rdma-link-rxe", "rdma_link_rxe"] {
            assert_eq!(find(name).map(|module| module.name), Some("rdma_rxe"), "{name}");
        }
        assert_eq!(find("rdma-link-siw").map(|module| module.name), Some("siw"));
        let module = find("ib_core").unwrap();
        assert_eq!(module.holders(&loaded(&[], false, &[])), ["ib_cm", "iw_cm", "rdma_cm", "ib_uverbs", "rdma_ucm"]);
        assert_eq!(module.file(), "kernel/drivers/infiniband/core/ib_core.ko");
    }
}
