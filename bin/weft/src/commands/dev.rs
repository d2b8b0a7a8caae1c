//! `weft dev`: RDMA devices, as iproute2's `rdma dev`.

use std::fmt::Write;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::Value;
use weft_ipc::stat::{DeviceObjects, PathName};
use weft_ipc::{Client, DeviceInfo};

use super::devices::{self, HostArg, Listed, Scope};
use super::iproute::{self, Members, OutputArgs};
use super::link::{failure, merged};
use super::own_view::await_device;
use crate::output;
use weft_client::Which;
use weft_client::verbs::{DeviceList, Library};

/// Options of `weft dev`.
#[derive(Args, Debug)]
pub struct DevArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    host: HostArg,
    #[command(subcommand)]
    command: Option<DevCommand>,
}

#[derive(Subcommand, Debug)]
enum DevCommand {
    /// Show devices
    #[command(visible_aliases = ["list", "lst"])]
    Show {
        /// Show only this device
        dev: Option<String>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Change a device: weft dev set DEV name NEWNAME
    Set {
        /// Device
        dev: String,
        /// The property to change: `name`
        #[arg(value_parser = ["name"])]
        what: String,
        /// The new name
        value: String,
    },
}

/// Runs the command.
pub fn run(args: DevArgs) -> ExitCode {
    let result = match args.command {
        None => show(None, &args.host, args.output),
        Some(DevCommand::Show { dev, output }) => show(dev.as_deref(), &args.host, merged(args.output, output)),
        Some(DevCommand::Set { dev, value, .. }) => rename(&dev, &value, &args.host),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            crate::errln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn rename(old: &str, new: &str, host: &HostArg) -> Result<(), String> {
    let mut client = devices::connect(host.host.as_deref()).map_err(|e| format!("weft dev: {e}"))?;
    client.dev_rename(old, new).map_err(|e| failure(&e))?;
    await_device(Some(new), Some(old));
    Ok(())
}

fn show(wanted: Option<&str>, host: &HostArg, output: OutputArgs) -> Result<(), String> {
    let (mut client, mut devices) = devices::list("weft dev", host, Scope::Machine)?;
    if let Some(wanted) = wanted {
        if devices.iter().all(|device| device.name != wanted) {
            return Err(devices::wrong_name(wanted, &devices));
        }
        devices.retain(|device| device.name == wanted);
    }
    let more =
        if output.details { Details { caps: capabilities(), paths: paths(&mut client) } } else { Details::default() };
    output::print(&if output.json { json(&devices, output, &more) } else { text(&devices, output, &more) });
    Ok(())
}

/// Details that cost a query, fetched only when they are shown.
#[derive(Debug, Default)]
struct Details {
    /// `device_cap_flags`, the same for all devices.
    caps: Option<u32>,
    /// Numbers of connected queue pairs by path, for each device.
    paths: Vec<DeviceObjects>,
}

impl Details {
    fn paths_of(&self, device: u32) -> &[(PathName, u32)] {
        self.paths.iter().find(|objects| objects.device == device).map_or(&[], |objects| &objects.paths)
    }
}

/// Counts of queue pairs by path. A failed query yields none, and the details are left out.
fn paths(client: &mut Client) -> Vec<DeviceObjects> {
    let report = client.refresh_ledgers().and_then(|()| client.stat()).unwrap_or_default();
    report.devices.into_iter().map(|stat| stat.objects).collect()
}

/// `device_cap_flags` as verbs reports them; all of Weft's devices have the same.
fn capabilities() -> Option<u32> {
    let list = DeviceList::new(Library::load(Which::Ours).ok()?).ok()?;
    let context = list.find(None)?.open().ok()?;
    Some(context.query_device().ok()?.orig_attr.device_cap_flags)
}

/// Names of the capability bits by bit number, in `rdma`'s spelling.
const CAP_NAMES: [&str; 32] = [
    "RESIZE_MAX_WR",
    "BAD_PKEY_CNTR",
    "BAD_QKEY_CNTR",
    "RAW_MULTI",
    "AUTO_PATH_MIG",
    "CHANGE_PHY_PORT",
    // iproute2's own typo, kept because scripts may match it.
    "UD_AV_PORT_ENFORCE_PORT_ENFORCE",
    "CURR_QP_STATE_MOD",
    "SHUTDOWN_PORT",
    "INIT_TYPE",
    "PORT_ACTIVE_EVENT",
    "SYS_IMAGE_GUID",
    "RC_RNR_NAK_GEN",
    "SRQ_RESIZE",
    "N_NOTIFY_CQ",
    "LOCAL_DMA_LKEY",
    "UNKNOWN",
    "MEM_WINDOW",
    "UD_IP_CSUM",
    "UD_TSO",
    "XRC",
    "MEM_MGT_EXTENSIONS",
    "BLOCK_MULTICAST_LOOPBACK",
    "MEM_WINDOW_TYPE_2A",
    "MEM_WINDOW_TYPE_2B",
    "RC_IP_CSUM",
    "RAW_IP_CSUM",
    "CROSS_CHANNEL",
    "UNKNOWN",
    "MANAGED_FLOW_STEERING",
    "SIGNATURE_HANDOVER",
    "ON_DEMAND_PAGING",
];

fn cap_names(caps: u32) -> Vec<&'static str> {
    CAP_NAMES.iter().enumerate().filter(|(bit, _)| caps & (1 << bit) != 0).map(|(_, name)| *name).collect()
}

fn node_type(device: &DeviceInfo) -> &'static str {
    if device.is_iwarp() { "rnic" } else { "ca" }
}

/// The firmware version that fabric adapters report everywhere; Linux's software devices report none here.
fn firmware(device: &DeviceInfo) -> Option<&'static str> {
    device.infiniband.as_ref().map(|_| env!("CARGO_PKG_VERSION"))
}

fn system_image_guid(device: &DeviceInfo) -> u64 {
    device.infiniband.as_ref().map_or(device.node_guid, |adapter| adapter.system_image_guid)
}

fn text(devices: &[Listed], output: OutputArgs, more: &Details) -> String {
    let mut out = String::new();
    for d in devices {
        let _ = write!(out, "{}: {}: node_type {} ", d.number, d.name, node_type(d));
        if let Some(firmware) = firmware(d) {
            let _ = write!(out, "fw {firmware} ");
        }
        let (node, system) = (iproute::guid(d.node_guid), iproute::guid(system_image_guid(d)));
        let _ = write!(out, "node_guid {node} sys_image_guid {system} ");
        if output.details {
            out.push_str("adaptive-moderation off ");
            if let Some(caps) = more.caps {
                let _ = write!(out, "\n    caps: <{}>", cap_names(caps).join(", "));
            }
            let paths = more.paths_of(d.index);
            if !paths.is_empty() {
                let paths: Vec<String> = paths.iter().map(|(path, count)| format!("{path} {count}")).collect();
                let _ = write!(out, "\n    queue pairs by path: {}", paths.join(", "));
            }
        }
        out.push('\n');
    }
    out
}

fn json(devices: &[Listed], output: OutputArgs, more: &Details) -> String {
    let objects: Vec<Members> = devices
        .iter()
        .map(|d| {
            let mut members: Members = vec![
                ("ifindex", d.number.into()),
                ("ifname", d.name.as_str().into()),
                ("node_type", node_type(d).into()),
            ];
            members.extend(firmware(d).map(|firmware| ("fw", firmware.into())));
            members.push(("node_guid", iproute::guid(d.node_guid).into()));
            members.push(("sys_image_guid", iproute::guid(system_image_guid(d)).into()));
            if output.details {
                members.push(("adaptive-moderation", false.into()));
                if let Some(caps) = more.caps {
                    members.push(("caps", cap_names(caps).into_iter().map(Value::from).collect()));
                }
                let paths = more.paths_of(d.index);
                if !paths.is_empty() {
                    let paths = paths.iter().map(|(path, count)| (path.to_string(), (*count).into()));
                    members.push(("paths", Value::Object(paths.collect())));
                }
            }
            members
        })
        .collect();
    iproute::json(&objects, output.pretty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::link::tests::{rxe0, weft0};

    /// The capabilities that Linux's rxe reports.
    fn rxe() -> Details {
        Details { caps: Some(0x0122_3c76), paths: Vec::new() }
    }

    fn output(json: bool, pretty: bool, details: bool) -> OutputArgs {
        OutputArgs { json, pretty, details }
    }

    #[test]
    fn text_is_what_rdma_dev_prints() {
        let plain = text(&[rxe0().into()], output(false, false, false), &Details::default());
        assert_eq!(plain, include_str!("../../testdata/rdma-dev.txt"));
        let details = text(&[rxe0().into()], output(false, false, true), &rxe());
        assert_eq!(details, include_str!("../../testdata/rdma-dev-d.txt"));
    }

    #[test]
    fn adapters_of_a_fabric_tell_their_firmware_and_their_system() {
        let version = env!("CARGO_PKG_VERSION");
        let plain = text(&[weft0().into()], output(false, false, false), &Details::default());
        let expected = format!(
            "0: weft0: node_type ca fw {version} node_guid 0257:4501:0000:0100 sys_image_guid 0257:4501:0000:0099 \n"
        );
        assert_eq!(plain, expected);
        let json = json(&[weft0().into()], output(true, false, false), &Details::default());
        assert!(json.contains(&format!(r#""node_type":"ca","fw":"{version}","node_guid":"#)), "{json}");
    }

    #[test]
    fn json_is_what_rdma_dev_prints() {
        let plain = json(&[rxe0().into()], output(true, false, false), &Details::default());
        assert_eq!(plain, include_str!("../../testdata/rdma-dev-j.txt"));
        let pretty = json(&[rxe0().into()], output(true, true, false), &Details::default());
        assert_eq!(pretty, include_str!("../../testdata/rdma-dev-jp.txt"));
        let details = json(&[rxe0().into()], output(true, false, true), &rxe());
        assert_eq!(details, include_str!("../../testdata/rdma-dev-dj.txt"));
    }

    #[test]
    fn paths_are_a_line_of_their_own() {
        let objects =
            DeviceObjects { paths: vec![("wire".into(), 2), ("same-host".into(), 1)], ..DeviceObjects::default() };
        let more = Details { caps: None, paths: vec![objects] };
        let details = text(&[rxe0().into()], output(false, false, true), &more);
        assert!(details.ends_with("\n    queue pairs by path: wire 2, same-host 1\n"), "{details}");
        let details = json(&[rxe0().into()], output(true, false, true), &more);
        assert!(details.contains(r#""paths":{"same-host":1,"wire":2}"#), "{details}");
    }
}
