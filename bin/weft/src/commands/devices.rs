//! The devices that a command shows: the machine's, or the adapters of one of the fabric's hosts, with the numbers and
//! names that users know them by.

use std::ops::Deref;

use clap::Args;
use weft_ipc::{Client, ConnectError, ConnectOptions, DeviceInfo, HOST_VARIABLE, RequestError};

/// The host whose devices a command is about.
#[derive(Args, Clone, Debug, Default)]
pub struct HostArg {
    /// Act on this fabric host [default: the host that the command runs as, or the machine]
    #[arg(long, value_name = "NODE", global = true)]
    pub host: Option<String>,
}

/// A device in a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    device: DeviceInfo,
    /// Index of the device on its host, as `rdma` shows it; [`DeviceInfo::index`] is unique across all hosts.
    pub number: u32,
    /// Name of the host, in listings that span several hosts.
    pub host: Option<String>,
}

impl Deref for Listed {
    type Target = DeviceInfo;

    fn deref(&self) -> &DeviceInfo {
        &self.device
    }
}

impl From<DeviceInfo> for Listed {
    fn from(device: DeviceInfo) -> Listed {
        Listed { number: device.index, device, host: None }
    }
}

/// Which devices a command shows when it runs outside any host while a fabric is up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// The machine's only; a line on standard error says how to see those of the hosts.
    Machine,
    /// The machine's, plus the hosts' adapters that programs have open or that have non-zero counters. The processes
    /// update their ledgers first.
    InUse,
}

/// Opens a session with the daemon and lists the devices that `command` shows.
pub fn list(command: &str, host: &HostArg, scope: Scope) -> Result<(Client, Vec<Listed>), String> {
    let failed = |error: &dyn std::fmt::Display| format!("{command}: {error}");
    let mut client = connect(host.host.as_deref()).map_err(|e| failed(&e))?;
    let listed = match scope {
        Scope::InUse => in_use(&mut client).map_err(|e| failed(&e))?,
        Scope::Machine => own(&mut client).map_err(|e| failed(&e))?,
    };
    if scope == Scope::Machine
        && runs_as_machine(host)
        && let Some(status) = client.fabric_status().map_err(|e| failed(&e))?
    {
        crate::errln!("{command}: {}; --host NODE shows those of a host", unshown(status.hosts));
    }
    Ok((client, listed))
}

/// The devices of [`Scope::InUse`].
pub fn in_use(client: &mut Client) -> Result<Vec<Listed>, RequestError> {
    client.refresh_ledgers()?;
    let mut listed = own(client)?;
    let adapters = client.list_adapters()?.into_iter();
    listed.extend(adapters.map(|a| Listed { device: a.device, number: a.number, host: Some(a.host) }));
    Ok(listed)
}

/// The devices that programs of the session's host, or of the machine, can open.
fn own(client: &mut Client) -> Result<Vec<Listed>, RequestError> {
    let devices = client.list_devices()?;
    Ok((0..).zip(devices).map(|(place, device)| numbered(place, device)).collect())
}

/// Opens a session as this host, or as the host that `WEFT_HOST` names.
pub fn connect(host: Option<&str>) -> Result<Client, ConnectError> {
    crate::rdma_dir::announce_daemon();
    let mut options = ConnectOptions { program: "weft".to_owned(), ..ConnectOptions::default() };
    if let Some(host) = host {
        options.host = host.to_owned();
    }
    Client::connect(&options)
}

fn runs_as_machine(host: &HostArg) -> bool {
    let named = host.host.clone().or_else(|| std::env::var(HOST_VARIABLE).ok());
    named.is_none_or(|name| name.is_empty())
}

fn unshown(hosts: u32) -> String {
    match hosts {
        1 => "the fabric's host has adapters of its own, which are not shown".to_owned(),
        hosts => format!("the fabric's {hosts} hosts have adapters of their own, which are not shown"),
    }
}

/// Numbers a device for a listing. A host's adapters count from 0, as on a separate machine; devices on interfaces keep
/// their permanent index.
fn numbered(place: u32, device: DeviceInfo) -> Listed {
    let number = if device.infiniband.is_some() { place } else { device.index };
    Listed { device, number, host: None }
}

/// The error for an unknown device: iproute2's text first, which scripts match, then the given name and the valid
/// names.
pub fn wrong_name(wanted: &str, devices: &[Listed]) -> String {
    /// Maximum number of names in the hint.
    const NAMES_MAX: usize = 8;
    let mut names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
    names.dedup();
    let more = if names.len() > NAMES_MAX { ", ..." } else { "" };
    let names = names[..names.len().min(NAMES_MAX)].join(", ");
    match devices {
        [] => format!("Wrong device name: {wanted}: there is no device here; `weft link add` makes one"),
        [_] => format!("Wrong device name: {wanted}: no such device; the device is {names}"),
        _ => format!("Wrong device name: {wanted}: no such device; devices are {names}{more}"),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::commands::link::tests::{rxe0, weft0};

    /// One device of the machine, and one adapter of a host.
    pub fn both() -> Vec<Listed> {
        let adapter = DeviceInfo { index: weft_ipc::IB_DEVICE_INDEX_BASE | 5, ..weft0() };
        vec![rxe0().into(), Listed { device: adapter, number: 0, host: Some("node2".to_owned()) }]
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_right_ones() {
        assert_eq!(wrong_name("x", &[]), "Wrong device name: x: there is no device here; `weft link add` makes one");
        let one = [Listed::from(rxe0())];
        assert_eq!(wrong_name("x", &one), "Wrong device name: x: no such device; the device is rxe0");
        assert_eq!(wrong_name("x", &both()), "Wrong device name: x: no such device; devices are rxe0, weft0");
    }

    #[test]
    fn adapters_count_from_zero_on_their_host() {
        let adapter = DeviceInfo { index: weft_ipc::IB_DEVICE_INDEX_BASE | 5, ..weft0() };
        assert_eq!(numbered(1, adapter).number, 1);
        assert_eq!(numbered(1, DeviceInfo { index: 7, ..rxe0() }).number, 7);
    }

    #[test]
    fn one_host_is_singular() {
        assert!(unshown(1).starts_with("the fabric's host has"));
        assert!(unshown(3).starts_with("the fabric's 3 hosts have"));
    }
}
