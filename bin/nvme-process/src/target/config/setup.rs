//! Setup of a target: subsystems and ports, checked, with all files open.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use weft_nvme::limits::{IN_CAPSULE_BYTES, IN_CAPSULE_BYTES_MAX, NAMESPACE_ID_MAX};
use weft_nvme::wire::nqn_error;
use weft_nvme::{Namespace, Port, Referral, Subsystem, TargetConfig};
use weft_rdma_service::Store;
use weft_tool::errln;

use super::nvmetcli::{ConfigFile, DeviceEntry, PortEntry, ReferralEntry, SubsystemEntry};
use crate::identifier::{identifier, parse_identifier, uuid_text};
use crate::limits::CONFIG_BYTES_MAX;
use crate::target::args::TargetArgs;

/// Stores of a subsystem by namespace identifier.
pub type Stores = BTreeMap<u32, Arc<Store>>;

/// Place where the target listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listen {
    /// Address; `None`: all.
    pub address: Option<IpAddr>,
    /// Port of RDMA CM.
    pub service: u16,
}

/// Target that can start.
#[derive(Debug)]
pub struct Setup {
    /// Configuration of the state machines.
    pub target: TargetConfig,
    /// Stores of each subsystem.
    pub stores: Vec<Stores>,
    /// Place of each port.
    pub listens: Vec<Listen>,
}

/// Reads the configuration, and opens the files.
///
/// # Errors
/// The configuration cannot be read or served.
pub fn setup(args: &TargetArgs) -> Result<Setup> {
    let setup = match &args.config {
        Some(path) => of_file(path, args).with_context(|| path.display().to_string())?,
        None => of_arguments(args)?,
    };
    for subsystem in &setup.target.subsystems {
        if let Some(error) = nqn_error(&subsystem.nqn) {
            bail!("subsystem `{}`: not an NQN: {error}", subsystem.nqn);
        }
    }
    Ok(setup)
}

/// Returns the one subsystem of the command line.
fn of_arguments(args: &TargetArgs) -> Result<Setup> {
    let first = args.namespaces.first().context("--namespace FILE or --config FILE is required")?;
    let uuid = identifier(first, "subsystem");
    let nqn = args.nqn.clone().unwrap_or_else(|| format!("nqn.2014-08.org.nvmexpress:uuid:{}", uuid_text(&uuid)));
    let (mut namespaces, mut stores) = (Vec::new(), Stores::new());
    let block_size = args.block_size.as_deref().and_then(|size| size.parse().ok());
    ensure!(args.namespaces.len() <= NAMESPACE_ID_MAX as usize, "more than {NAMESPACE_ID_MAX} namespaces");
    for (path, id) in args.namespaces.iter().zip(1..) {
        let (store, geometry) = Store::open(path, args.read_only, block_size).context("--namespace")?;
        namespaces.push(Namespace {
            id,
            blocks: geometry.blocks,
            block_shift: geometry.block_shift,
            nguid: of_namespace(&nqn, path, "nguid"),
            uuid: of_namespace(&nqn, path, "uuid"),
            read_only: args.read_only,
        });
        stores.insert(id, Arc::new(store));
    }
    for host in &args.allowed_hosts {
        if let Some(error) = nqn_error(host) {
            bail!("--allow-host `{host}`: not an NQN: {error}");
        }
    }
    let allowed: BTreeSet<String> = args.allowed_hosts.iter().cloned().collect();
    let subsystem = Subsystem {
        nqn,
        serial: serial(&uuid),
        model: "Weft".to_owned(),
        allowed_hosts: Some(allowed).filter(|hosts| !hosts.is_empty()),
        namespaces,
    };
    Ok(Setup {
        target: TargetConfig {
            subsystems: vec![subsystem],
            ports: vec![Port { id: 1, subsystems: vec![0], referrals: Vec::new() }],
            in_capsule_bytes: IN_CAPSULE_BYTES,
            io_queues_max: args.io_queues,
            firmware: env!("CARGO_PKG_VERSION").to_owned(),
        },
        stores: vec![stores],
        listens: vec![Listen { address: args.bind, service: args.port }],
    })
}

/// Returns a serial number: 20 characters at most.
fn serial(uuid: &[u8; 16]) -> String {
    uuid_text(uuid).replace('-', "").chars().take(20).collect()
}

/// Returns the subsystems and ports of a file.
fn of_file(path: &Path, args: &TargetArgs) -> Result<Setup> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(CONFIG_BYTES_MAX).read_to_string(&mut text)?;
    let file = ConfigFile::parse(&text)?;
    let (mut subsystems, mut stores) = (Vec::new(), Vec::new());
    for entry in &file.subsystems {
        let (subsystem, found) = subsystem(entry).with_context(|| format!("subsystem {}", entry.nqn))?;
        ensure!(!subsystems.iter().any(|other: &Subsystem| other.nqn == subsystem.nqn), "two subsystems {}", entry.nqn);
        subsystems.push(subsystem);
        stores.push(found);
    }
    let (mut ports, mut listens) = (Vec::new(), Vec::new());
    for entry in &file.ports {
        if entry.address.transport != "rdma" {
            errln!("weft nvme target: port {}: transport {}: not served", entry.id, entry.address.transport);
            continue;
        }
        let (port, listen) = port(entry, &subsystems).with_context(|| format!("port {}", entry.id))?;
        ports.push(port);
        listens.push(listen);
    }
    ensure!(!ports.is_empty(), "no port with `\"trtype\": \"rdma\"`");
    let in_capsule_bytes = file.ports.iter().filter_map(PortEntry::in_capsule_bytes).max().unwrap_or(IN_CAPSULE_BYTES);
    Ok(Setup {
        target: TargetConfig {
            subsystems,
            ports,
            in_capsule_bytes: in_capsule_bytes.min(IN_CAPSULE_BYTES_MAX).next_multiple_of(16),
            io_queues_max: args.io_queues,
            firmware: env!("CARGO_PKG_VERSION").to_owned(),
        },
        stores,
        listens,
    })
}

fn subsystem(entry: &SubsystemEntry) -> Result<(Subsystem, Stores)> {
    let (mut namespaces, mut stores) = (Vec::new(), Stores::new());
    for found in entry.namespaces.iter().filter(|namespace| namespace.enable.is_on()) {
        let id = found.nsid;
        ensure!((1..=NAMESPACE_ID_MAX).contains(&id), "namespace {id}: identifiers are 1 to {NAMESPACE_ID_MAX}");
        let (store, geometry) =
            Store::open(&found.device.path, false, None).with_context(|| format!("namespace {id}"))?;
        let (nguid, uuid) = identifiers(&entry.nqn, &found.device).with_context(|| format!("namespace {id}"))?;
        let (blocks, block_shift) = (geometry.blocks, geometry.block_shift);
        namespaces.push(Namespace { id, blocks, block_shift, nguid, uuid, read_only: false });
        ensure!(stores.insert(id, Arc::new(store)).is_none(), "namespace {id}: twice");
    }
    namespaces.sort_by_key(|namespace| namespace.id);
    let allowed = entry.allowed_hosts.iter().cloned().collect();
    let subsystem = Subsystem {
        nqn: entry.nqn.clone(),
        serial: entry.attribute("serial").unwrap_or_else(|| serial(&identifier(Path::new(&entry.nqn), "serial"))),
        model: entry.attribute("model").unwrap_or_else(|| "Weft".to_owned()),
        allowed_hosts: if entry.allows_any_host() { None } else { Some(allowed) },
        namespaces,
    };
    Ok((subsystem, stores))
}

/// Returns an identifier of a file in a subsystem: two subsystems with the same file have two namespaces, which a host must not
/// take for one.
fn of_namespace(nqn: &str, path: &Path, purpose: &str) -> [u8; 16] {
    identifier(path, &format!("{purpose}\0{nqn}"))
}

/// Returns NGUID and UUID of a namespace: the file's, or the same ones at each start.
fn identifiers(nqn: &str, device: &DeviceEntry) -> Result<([u8; 16], [u8; 16])> {
    let read = |name: &str, text: &Option<String>| match text.as_deref() {
        None | Some("") => Ok([0; 16]),
        Some(text) => parse_identifier(text).with_context(|| format!("{name}: `{text}` has not 32 hexadecimal digits")),
    };
    let (nguid, uuid) = (read("nguid", &device.nguid)?, read("uuid", &device.uuid)?);
    let is_nameless = nguid == [0; 16] && uuid == [0; 16];
    Ok((nguid, if is_nameless { of_namespace(nqn, &device.path, "uuid") } else { uuid }))
}

fn port(entry: &PortEntry, subsystems: &[Subsystem]) -> Result<(Port, Listen)> {
    let address = entry.address.address.parse::<IpAddr>();
    let address = address.with_context(|| format!("traddr: `{}` is no IP address", entry.address.address))?;
    let service = entry.address.service.trim().parse::<u16>();
    let service = service.with_context(|| format!("trsvcid: `{}` is no port", entry.address.service))?;
    let mut indices = Vec::new();
    for nqn in &entry.subsystems {
        let index = subsystems.iter().position(|subsystem| subsystem.nqn == *nqn);
        indices.push(index.with_context(|| format!("unknown subsystem {nqn}"))?);
    }
    let referrals = entry.referrals.iter().filter(|referral| referral.enable.is_on()).map(referral).collect();
    let listen = Listen { address: Some(address).filter(|address| !address.is_unspecified()), service };
    Ok((Port { id: entry.id, subsystems: indices, referrals }, listen))
}

fn referral(entry: &ReferralEntry) -> Referral {
    Referral {
        port_id: entry.port_id,
        is_ipv6: entry.address.family == "ipv6",
        address: entry.address.address.clone(),
        service: entry.address.service.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_becomes_subsystems_and_ports() {
        let dir = std::env::temp_dir().join(format!("weft-nvme-setup-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let disk = dir.join("disk");
        std::fs::write(&disk, [0; 8192]).expect("a file");
        let json = format!(
            r#"{{"hosts": [],
              "ports": [{{"portid": 2, "addr": {{"trtype": "tcp", "traddr": "0.0.0.0", "trsvcid": "4420"}}}},
                        {{"portid": 1, "addr": {{"trtype": "rdma", "adrfam": "ipv4", "traddr": "0.0.0.0", "trsvcid": "4421"}},
                          "subsystems": ["nqn.2026-01.io.weft:disk"], "param": {{"inline_data_size": "100000"}}}}],
              "subsystems": [{{"nqn": "nqn.2026-01.io.weft:disk", "attr": {{"allow_any_host": "1"}}, "namespaces": [
                {{"nsid": 3, "enable": 1, "device": {{"path": "{0}"}}}}, {{"nsid": 2, "enable": 0, "device": {{"path": "/none"}}}}]}}]}}"#,
            disk.display()
        );
        let path = dir.join("config.json");
        std::fs::write(&path, json).expect("a file");
        let args = arguments(&path);
        let setup = setup(&args).expect("a setup");
        assert_eq!(setup.listens, [Listen { address: None, service: 4421 }]);
        let target = &setup.target;
        assert_eq!((target.in_capsule_bytes, target.ports[0].subsystems.len()), (IN_CAPSULE_BYTES_MAX, 1));
        let [namespace] = &target.subsystems[0].namespaces[..] else { panic!("{target:?}") };
        assert_eq!((namespace.id, namespace.blocks, namespace.block_shift), (3, 2, 12));
        assert!(namespace.uuid != [0; 16] && setup.stores[0].contains_key(&3));
        // The same file in another subsystem is another namespace.
        let of = |nqn| of_namespace(nqn, &disk, "uuid");
        assert!(of("nqn.2026-01.io.weft:disk") == namespace.uuid && of("nqn.2026-01.io.weft:other") != namespace.uuid);
        std::fs::remove_dir_all(dir).expect("removed");
    }

    fn arguments(config: &Path) -> TargetArgs {
        TargetArgs {
            config: Some(config.to_owned()),
            namespaces: Vec::new(),
            nqn: None,
            allowed_hosts: Vec::new(),
            read_only: false,
            block_size: None,
            bind: None,
            port: 4420,
            io_queues: 4,
            connections: 8,
            system: false,
        }
    }
}
