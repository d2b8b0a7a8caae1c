//! `weft monitor`: prints a line for each device that is added, removed or renamed, as iproute2's `rdma monitor`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Args;
use weft_ipc::{Client, DeviceInfo, Event};
use weft_sys::epoll::{Epoll, Interest};

use super::devices::{self, HostArg};
use super::iproute::{self, Members};
use crate::output;

/// Options of `weft monitor`.
#[derive(Args, Debug)]
pub struct MonitorArgs {
    /// Print JSON, one array per event
    #[arg(short, long)]
    json: bool,
    #[command(flatten)]
    host: HostArg,
    /// Exit after this many events [default: when interrupted]
    #[arg(short, long, value_name = "EVENTS")]
    count: Option<u64>,
}

/// Runs the command.
pub fn run(args: &MonitorArgs) -> ExitCode {
    match watch(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            crate::errln!("weft monitor: {message}");
            ExitCode::FAILURE
        }
    }
}

fn watch(args: &MonitorArgs) -> Result<(), String> {
    let mut client = devices::connect(args.host.host.as_deref()).map_err(|e| e.to_string())?;
    let mut known = Known::default();
    for device in client.subscribe().map_err(|e| e.to_string())? {
        known.changed(device);
    }
    let mut left = args.count.unwrap_or(u64::MAX);
    loop {
        for event in next_events(&mut client)? {
            let told = match event {
                Event::DeviceChanged(device) => known.changed(device),
                Event::DeviceRemoved { index } => known.removed(index),
                Event::Disconnected => return Err("the daemon ended".to_owned()),
                _ => Vec::new(),
            };
            for members in told {
                output::print(&if args.json { iproute::json(&[members], false) } else { line(&members) });
                left = left.saturating_sub(1);
            }
            if left == 0 {
                return Ok(());
            }
        }
    }
}

/// Waits for events.
fn next_events(client: &mut Client) -> Result<Vec<Event>, String> {
    let events = client.poll_events();
    if !events.is_empty() {
        return Ok(events);
    }
    let epoll = Epoll::new().map_err(|e| e.to_string())?;
    epoll.add(client.fd(), 0, Interest::READ).map_err(|e| e.to_string())?;
    epoll.wait(&mut Vec::new(), None).map_err(|e| e.to_string())?;
    Ok(client.poll_events())
}

/// Devices by index, in their last reported state.
#[derive(Default)]
struct Known(BTreeMap<u32, DeviceInfo>);

impl Known {
    /// The events that a device's new state implies.
    fn changed(&mut self, device: DeviceInfo) -> Vec<Members> {
        let before = self.0.insert(device.index, device.clone());
        let about_netdev = |event: &'static str| {
            let mut members = about(event, &device);
            members.extend([
                ("port", 1.into()),
                ("netdev_idx", device.ifindex.into()),
                ("netdev_name", device.netdev.as_str().into()),
            ]);
            members
        };
        match before {
            None if device.netdev.is_empty() => vec![about("[REGISTER]", &device)],
            None => vec![about("[REGISTER]", &device), about_netdev("[NETDEV_ATTACH]")],
            Some(before) => {
                let mut told = Vec::new();
                told.extend((before.name != device.name).then(|| about("[RENAME]", &device)));
                told.extend((before.netdev != device.netdev).then(|| about_netdev("[NETDEV_RENAME]")));
                told
            }
        }
    }

    fn removed(&mut self, index: u32) -> Vec<Members> {
        self.0.remove(&index).iter().map(|device| about("[UNREGISTER]", device)).collect()
    }
}

fn about(event: &'static str, device: &DeviceInfo) -> Members {
    vec![("event_type", event.into()), ("rdma_index", device.index.into()), ("rdma_dev", device.name.as_str().into())]
}

/// `[REGISTER]<tab>dev 3 rxe0`, and for an interface ` port 1 netdev 7 eth3`.
fn line(members: &Members) -> String {
    let of = |wanted: &str| members.iter().find(|(key, _)| *key == wanted).map(|(_, value)| value);
    let text = |wanted: &str| of(wanted).and_then(|value| value.as_str()).unwrap_or_default();
    let number = |wanted: &str| of(wanted).map(|value| value.to_string()).unwrap_or_default();
    let mut line = format!("{}\tdev {} {}", text("event_type"), number("rdma_index"), text("rdma_dev"));
    if of("netdev_idx").is_some() {
        line += &format!(" port {} netdev {} {}", number("port"), number("netdev_idx"), text("netdev_name"));
    }
    line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::link::tests::rxe0;

    #[test]
    fn devices_come_change_and_go() {
        let mut known = Known::default();
        let lines = |told: Vec<Members>| told.iter().map(line).collect::<String>();
        let came = known.changed(rxe0());
        assert_eq!(lines(came), "[REGISTER]\tdev 0 rxe0\n[NETDEV_ATTACH]\tdev 0 rxe0 port 1 netdev 2 eth0\n");
        assert!(known.changed(DeviceInfo { active_mtu: 4096, ..rxe0() }).is_empty(), "rdma has no event for it");
        let renamed = known.changed(DeviceInfo { name: "mlx4_0".to_owned(), ..rxe0() });
        assert_eq!(lines(renamed), "[RENAME]\tdev 0 mlx4_0\n");
        assert_eq!(lines(known.removed(0)), "[UNREGISTER]\tdev 0 mlx4_0\n");
        assert!(known.removed(0).is_empty());
    }
}
