//! Configuration of a target: subsystems with namespaces, and ports that lead to them.

use std::collections::BTreeSet;

/// Namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Namespace {
    /// Identifier, 1 to [`NAMESPACE_ID_MAX`](crate::limits::NAMESPACE_ID_MAX).
    pub id: u32,
    /// Number of blocks.
    pub blocks: u64,
    /// Size of a block as a power of two, 9 to 16.
    pub block_shift: u8,
    /// Globally unique identifier; zeros: none.
    pub nguid: [u8; 16],
    /// UUID; zeros: none.
    pub uuid: [u8; 16],
    /// Writes are refused.
    pub read_only: bool,
}

/// Subsystem.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subsystem {
    /// Name.
    pub nqn: String,
    /// Serial number, up to 20 characters.
    pub serial: String,
    /// Model number, up to 40 characters.
    pub model: String,
    /// Hosts that may connect; `None`: all.
    pub allowed_hosts: Option<BTreeSet<String>>,
    /// Namespaces, in ascending order of their identifiers.
    pub namespaces: Vec<Namespace>,
}

impl Subsystem {
    /// Whether a host may connect.
    pub fn allows(&self, host: &str) -> bool {
        self.allowed_hosts.as_ref().is_none_or(|hosts| hosts.contains(host))
    }

    /// Returns a namespace.
    pub fn namespace(&self, id: u32) -> Option<&Namespace> {
        self.namespaces.iter().find(|namespace| namespace.id == id)
    }
}

/// Other discovery service that the discovery log mentions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Referral {
    /// Number of its port.
    pub port_id: u16,
    /// Whether the address is of IPv6.
    pub is_ipv6: bool,
    /// Address.
    pub address: String,
    /// Port of RDMA CM.
    pub service: String,
}

/// Port: an address with the subsystems that hosts reach through it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// Number.
    pub id: u16,
    /// Indices of subsystems.
    pub subsystems: Vec<usize>,
    /// Other discovery services.
    pub referrals: Vec<Referral>,
}

/// Address at which a host reached the target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalAddress {
    /// Whether it is of IPv6.
    pub is_ipv6: bool,
    /// Address.
    pub address: String,
    /// Port of RDMA CM.
    pub service: String,
}

/// Configuration of a target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TargetConfig {
    /// Subsystems.
    pub subsystems: Vec<Subsystem>,
    /// Ports.
    pub ports: Vec<Port>,
    /// Data that a capsule has room for, in bytes: a multiple of 16.
    pub in_capsule_bytes: u32,
    /// I/O queues of a controller, at least one.
    pub io_queues_max: u16,
    /// Firmware revision, up to 8 characters.
    pub firmware: String,
}
