//! Setup of a target: its names, and its disks with all files open.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use weft_rdma_service::{Store, identifier};
use weft_srp::TargetConfig;
use weft_srp::scsi::limits::UNITS_MAX;
use weft_srp::scsi::{Identity, LogicalUnit};
use weft_srp::wire::PortId;

use super::args::TargetArgs;

/// Target that can start.
#[derive(Debug)]
pub struct Setup {
    /// Configuration of the state machine.
    pub target: TargetConfig,
    /// Stores of the logical units.
    pub stores: Vec<Arc<Store>>,
    /// GUID by which initiators log in.
    pub guid: u64,
}

/// Opens the files.
///
/// # Errors
/// A file cannot be served.
pub fn setup(args: &TargetArgs) -> Result<Setup> {
    ensure!(args.luns.len() <= UNITS_MAX, "--lun: more than {UNITS_MAX} logical units");
    let first = args.luns.first().context("--lun FILE is required")?;
    let block_size = args.block_size.as_deref().and_then(|size| size.parse().ok());
    let (mut units, mut stores) = (Vec::new(), Vec::new());
    for path in &args.luns {
        let (store, geometry) = Store::open(path, args.read_only, block_size).context("--lun")?;
        units.push(LogicalUnit {
            blocks: geometry.blocks,
            block_shift: geometry.block_shift,
            identifier: half(identifier(path, "naa")),
            serial: format!("{:016x}", half(identifier(path, "serial"))),
            read_only: args.read_only,
        });
        stores.push(Arc::new(store));
    }
    let guid = args.guid.unwrap_or_else(|| half(identifier(first, "srp")));
    let mut port = [0; 16];
    port[..8].copy_from_slice(&guid.to_be_bytes());
    port[8..].copy_from_slice(&guid.to_be_bytes());
    let allowed = args.allowed.iter().copied().collect();
    Ok(Setup {
        target: TargetConfig {
            port: PortId(port),
            allowed: Some(allowed).filter(|allowed: &std::collections::BTreeSet<_>| !allowed.is_empty()),
            identity: Identity {
                vendor: "Weft".to_owned(),
                product: "Virtual disk".to_owned(),
                revision: concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR")).to_owned(),
            },
            units,
        },
        stores,
        guid,
    })
}

/// Returns both halves of an identifier in one.
fn half(bytes: [u8; 16]) -> u64 {
    let number = u128::from_be_bytes(bytes);
    (number >> 64) as u64 ^ number as u64
}
