//! `nmcli device`: the host's interfaces.

use std::fs;

use serde_json::Value;
use weft_ipc::IpoibInterface;

use super::failure::{Failure, Refused};
use super::options::{Options, abbreviated};
use super::table;
use crate::commands::ip::query;
use crate::commands::profiles::activate;
use crate::commands::profiles::session::{Session, Stored};
use crate::commands::run::interfaces::address_text;

/// The commands in the order in which an abbreviation is looked up.
const COMMANDS: [&str; 12] =
    ["status", "show", "set", "connect", "reapply", "modify", "disconnect", "delete", "monitor", "wifi", "up", "down"];

const USUAL: [&str; 4] = ["DEVICE", "TYPE", "STATE", "CONNECTION"];
const ALL: [&str; 5] = ["DEVICE", "TYPE", "STATE", "CONNECTION", "CON-UUID"];

/// Interfaces that are shown.
const INTERFACES_MAX: usize = 1024;

/// An interface of the host.
struct Device {
    name: String,
    /// Link-layer address and MTU, as /sys has them.
    address: String,
    mtu: String,
    kind: &'static str,
    profile: Option<Stored>,
}

impl Device {
    /// Returns NetworkManager's number and name of its state.
    fn state(&self) -> (u32, &'static str) {
        match (&self.profile, self.kind) {
            (Some(_), _) => (100, "connected"),
            (None, "infiniband") => (30, "disconnected"),
            (None, _) => (10, "unmanaged"),
        }
    }
}

/// Runs `nmcli device`.
pub fn run(options: &Options, words: &[String]) -> Result<(), Failure> {
    let (command, rest) = match words.split_first() {
        None => ("status", words),
        Some((word, rest)) => (abbreviated(word, &COMMANDS).ok_or_else(|| Failure::not_understood(word))?, rest),
    };
    if !matches!(command, "status" | "show" | "disconnect" | "down") {
        return Err(Failure::unsupported(&format!("device {command}")));
    }
    let mut session = Session::open("nmcli").refused()?;
    match command {
        "status" => status(options, &mut session),
        "show" => details(options, &mut session, rest),
        _ => disconnect(&mut session, rest),
    }
}

fn devices(session: &mut Session) -> Result<Vec<Device>, Failure> {
    let (interfaces, profiles) = (session.interfaces().refused()?, session.profiles().refused()?);
    let names = fs::read_dir("/sys/class/net").into_iter().flatten().flatten().take(INTERFACES_MAX);
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let mut all: Vec<Device> = names.map(|name| device(name, &interfaces, &profiles)).collect();
    all.sort_by(|a, b| (b.state().0, &a.name).cmp(&(a.state().0, &b.name)));
    Ok(all)
}

fn device(name: String, interfaces: &[IpoibInterface], profiles: &[Stored]) -> Device {
    let read = |file: &str| fs::read_to_string(format!("/sys/class/net/{name}/{file}")).unwrap_or_default();
    let ipoib = interfaces.iter().find(|one| one.name == name);
    let is_active = |one: &&Stored| one.active.as_ref().is_some_and(|active| active.interface == name);
    Device {
        address: ipoib
            .map_or_else(|| read("address").trim().to_owned(), |one| address_text(&one.address))
            .to_uppercase(),
        mtu: read("mtu").trim().to_owned(),
        kind: match ipoib {
            Some(_) => "infiniband",
            None if name == "lo" => "loopback",
            None => "generic",
        },
        profile: profiles.iter().find(is_active).cloned(),
        name,
    }
}

fn status(options: &Options, session: &mut Session) -> Result<(), Failure> {
    let row = |device: Device| {
        let of_profile =
            |field: fn(&Stored) -> &String| device.profile.as_ref().map(field).cloned().unwrap_or_default();
        vec![
            ("TYPE", device.kind.to_owned()),
            ("STATE", device.state().1.to_owned()),
            ("CONNECTION", of_profile(|one| &one.profile.id)),
            ("CON-UUID", of_profile(|one| &one.profile.uuid)),
            ("DEVICE", device.name),
        ]
    };
    let rows: Vec<_> = devices(session)?.into_iter().map(row).collect();
    table::print(options, &USUAL, &ALL, &rows)
}

fn details(options: &Options, session: &mut Session, words: &[String]) -> Result<(), Failure> {
    let all = devices(session)?;
    let meant: Vec<&Device> = all.iter().filter(|one| words.is_empty() || words.contains(&one.name)).collect();
    if let Some(missing) = words.iter().find(|word| all.iter().all(|one| one.name != **word)) {
        return Err(Failure::missing(&format!("Device '{missing}' not found.")));
    }
    for (number, device) in meant.into_iter().enumerate() {
        if number > 0 {
            crate::outln!("");
        }
        table::print_properties(options, &table::chosen(options, rows(device))?);
    }
    Ok(())
}

fn rows(device: &Device) -> Vec<(String, String)> {
    let (number, state) = device.state();
    let path = device.profile.as_ref().and_then(|one| one.active.as_ref()).map(|active| active.path());
    let mut rows: Vec<(String, String)> = [
        ("GENERAL.DEVICE", device.name.clone()),
        ("GENERAL.TYPE", device.kind.to_owned()),
        ("GENERAL.HWADDR", device.address.clone()),
        ("GENERAL.MTU", device.mtu.clone()),
        ("GENERAL.STATE", format!("{number} ({state})")),
        ("GENERAL.CONNECTION", device.profile.as_ref().map(|one| one.profile.id.clone()).unwrap_or_default()),
        ("GENERAL.CON-PATH", path.unwrap_or_default()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec();
    rows.extend(ip_rows(&device.name));
    rows
}

/// Returns the addresses and routes of an interface, as `ip` lists them.
pub fn ip_rows(interface: &str) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    for (option, setting, family) in [("-4", "IP4", "inet"), ("-6", "IP6", "inet6")] {
        let addresses = query(&[option, "-j", "address", "show", "dev", interface]);
        let list = addresses.get(0).and_then(|one| one.get("addr_info")?.as_array().cloned()).unwrap_or_default();
        let addresses = list.iter().filter(|one| one.get("family").and_then(Value::as_str) == Some(family));
        for (number, address) in (1..).zip(addresses) {
            let text = |key: &str| address.get(key).and_then(Value::as_str).unwrap_or_default();
            let prefix = address.get("prefixlen").and_then(Value::as_u64).unwrap_or_default();
            rows.push((format!("{setting}.ADDRESS[{number}]"), format!("{}/{prefix}", text("local"))));
        }
        let routes = query(&[option, "-j", "route", "show", "dev", interface]);
        let routes = routes.as_array().cloned().unwrap_or_default();
        let text = |route: &Value, key: &str| route.get(key).and_then(Value::as_str).map(str::to_owned);
        let default = routes.iter().find(|route| text(route, "dst").as_deref() == Some("default"));
        let gateway = default.and_then(|route| text(route, "gateway")).unwrap_or_default();
        rows.push((format!("{setting}.GATEWAY"), gateway));
        for (number, route) in (1..).zip(&routes) {
            let any = if family == "inet" { ("0.0.0.0/0", "0.0.0.0") } else { ("::/0", "::") };
            let to = text(route, "dst").filter(|to| to != "default").unwrap_or_else(|| any.0.to_owned());
            let via = text(route, "gateway").unwrap_or_else(|| any.1.to_owned());
            let metric = route.get("metric").and_then(Value::as_u64).unwrap_or_default();
            rows.push((format!("{setting}.ROUTE[{number}]"), format!("dst = {to}, nh = {via}, mt = {metric}")));
        }
    }
    rows
}

fn disconnect(session: &mut Session, words: &[String]) -> Result<(), Failure> {
    if words.is_empty() {
        return Err(Failure::input("No interface specified."));
    }
    for word in words {
        let all = devices(session)?;
        let device = all.iter().find(|one| one.name == *word);
        let device = device.ok_or_else(|| Failure::missing(&format!("Device '{word}' not found.")))?;
        let Some(profile) = &device.profile else {
            return Err(Failure::deactivation(&format!("Device '{word}' is not an active device.")));
        };
        activate::deactivate(session, profile).map_err(|why| Failure::deactivation(&why))?;
        crate::outln!("Device '{word}' successfully disconnected.");
    }
    Ok(())
}
