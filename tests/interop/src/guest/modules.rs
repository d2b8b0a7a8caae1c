//! The modules that a guest loads, in a valid load order.
//!
//! Each module contains its dependencies; depmod's index is not needed.

use super::kernel::{files, unpacked_by};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Required modules. Newer kernels have some of them built in, and then no such module.
const WANTED: &[&str] = &[
    "virtio_pci",
    "virtio_net",
    "virtio_console",
    // Virtual cables inside the guest.
    "veth",
    "ib_uverbs",
    "rdma_ucm",
    "ib_umad",
];

/// Returns names and contents, in load order; `further` are wanted too, and may be among the `added` files.
pub fn closure(dir: &Path, further: &[&str], added: Option<PathBuf>) -> Result<Vec<(String, Vec<u8>)>> {
    let mut index = BTreeMap::new();
    for path in files(dir).into_iter().chain(added) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Some((name, _)) = name.split_once(".ko") {
            index.insert(name.replace('-', "_"), path);
        }
    }
    let mut walk = Walk { index, seen: BTreeSet::new(), order: Vec::new() };
    for name in WANTED.iter().chain(further) {
        walk.visit(name)?;
    }
    Ok(walk.order)
}

struct Walk {
    index: BTreeMap<String, PathBuf>,
    seen: BTreeSet<String>,
    order: Vec<(String, Vec<u8>)>,
}

impl Walk {
    fn visit(&mut self, name: &str) -> Result<()> {
        if !self.seen.insert(name.to_owned()) {
            return Ok(());
        }
        let Some(path) = self.index.get(name) else { return Ok(()) };
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let bytes = match path.extension().and_then(|e| e.to_str()) {
            Some("xz") => unpacked_by(&["xz", "-dc"], &bytes)?,
            Some("zst") => unpacked_by(&["zstd", "-dc"], &bytes)?,
            _ => bytes,
        };
        for below in depends(&bytes) {
            self.visit(&below)?;
        }
        self.order.push((name.to_owned(), bytes));
        Ok(())
    }
}

/// Returns the names in the module's `depends=` (a zero-terminated string of its .modinfo section).
fn depends(module: &[u8]) -> Vec<String> {
    let key = b"\0depends=";
    let Some(at) = module.windows(key.len()).position(|window| window == key) else { return Vec::new() };
    let value = module[at + key.len()..].split(|&byte| byte == 0).next().unwrap_or_default();
    let names = value.split(|&byte| byte == b',').filter(|name| !name.is_empty());
    names.map(|name| String::from_utf8_lossy(name).replace('-', "_")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_module_needs_comes_before_it() {
        let dir = std::env::temp_dir().join(format!("weft-modules-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("deep")).expect("a directory");
        let module = |name: &str, depends: &str| {
            std::fs::write(dir.join(name), format!("\x7fELF\0license=GPL\0depends={depends}\0")).expect("a file");
        };
        module("rdma_rxe.ko", "ib_uverbs,ib_core,udp_tunnel");
        module("ib_uverbs.ko", "ib_core");
        module("deep/ib_core.ko", "");
        module("deep/udp-tunnel.ko", "");
        let order: Vec<_> =
            closure(&dir, &["rdma_rxe"], None).expect("modules").into_iter().map(|(name, _)| name).collect();
        assert_eq!(order, ["ib_core", "ib_uverbs", "udp_tunnel", "rdma_rxe"]);
        std::fs::remove_dir_all(&dir).expect("it was there");
    }
}
