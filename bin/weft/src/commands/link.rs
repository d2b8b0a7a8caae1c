//! `weft link`: RDMA ports and their network interfaces, as iproute2's `rdma link`.

use std::fmt::Write;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use weft_ipc::{IbPort, PhysState, PortState};

use super::devices::{self, HostArg, Listed, Scope};
use super::iproute::{self, Members, OutputArgs};
use super::own_view::await_device;
use crate::output;

/// Options of `weft link`.
#[derive(Args, Debug)]
pub struct LinkArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    host: HostArg,
    #[command(subcommand)]
    command: Option<LinkCommand>,
}

#[derive(Subcommand, Debug)]
enum LinkCommand {
    /// Show links (DEV or DEV/PORT: only that one)
    #[command(visible_aliases = ["list", "lst"])]
    Show {
        /// Device, or device and port
        dev: Option<String>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Add a RoCE device on a network interface: weft link add NAME type rxe netdev IF
    #[command(override_usage = "weft link add NAME type rxe netdev IF")]
    Add {
        /// NAME of the device to be; its type, which is rxe; IF, the interface
        #[arg(value_name = "NAME type rxe netdev IF", num_args = 1.., required = true)]
        words: Vec<String>,
    },
    /// Remove a device
    #[command(visible_alias = "delete")]
    Del {
        /// Name of the device
        name: String,
    },
}

/// Runs the command.
pub fn run(args: LinkArgs) -> ExitCode {
    let result = match args.command {
        Some(LinkCommand::Add { .. } | LinkCommand::Del { .. }) if args.host.host.is_some() => Err(
            "weft link: a host's adapters come with the fabric; only the machine's devices can be added and removed"
                .to_owned(),
        ),
        None => show(None, &args.host, args.output),
        Some(LinkCommand::Show { dev, output }) => show(dev.as_deref(), &args.host, merged(args.output, output)),
        Some(LinkCommand::Add { words }) => add(&words),
        Some(LinkCommand::Del { name }) => del(&name),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            crate::errln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// Merges the output options given before and after `show`.
pub(super) fn merged(a: OutputArgs, b: OutputArgs) -> OutputArgs {
    OutputArgs { json: a.json || b.json, pretty: a.pretty || b.pretty, details: a.details || b.details }
}

fn show(wanted: Option<&str>, host: &HostArg, output: OutputArgs) -> Result<(), String> {
    let (_, devices) = devices::list("weft link", host, Scope::Machine)?;
    let mut rows = rows(&devices);
    if let Some(wanted) = wanted {
        let (name, port) = wanted.split_once('/').unwrap_or((wanted, "-"));
        rows.retain(|row| row.device.name == name && (port == "-" || port == row.port.to_string()));
        if rows.is_empty() {
            return Err(devices::wrong_name(wanted, &devices));
        }
    }
    output::print(&if output.json { json(&rows, output) } else { text(&rows, output.details) });
    Ok(())
}

/// A row for one port: a device on an interface has one, an adapter on a fabric may have several.
struct Row<'a> {
    device: &'a Listed,
    port: u8,
    ib: Option<&'a IbPort>,
}

fn rows(devices: &[Listed]) -> Vec<Row<'_>> {
    devices.iter().flat_map(Row::of_device).collect()
}

impl Row<'_> {
    fn of_device(device: &Listed) -> Vec<Row<'_>> {
        match &device.infiniband {
            None => vec![Row { device, port: 1, ib: None }],
            Some(ib) => ib.ports.iter().map(|port| Row { device, port: port.number, ib: Some(port) }).collect(),
        }
    }

    /// Returns the port of an InfiniBand link.
    fn infiniband(&self) -> Option<&IbPort> {
        self.ib.filter(|port| !port.is_ethernet())
    }

    /// Returns the network interface of an Ethernet port; empty without one.
    fn netdev(&self) -> &str {
        let link = self.ib.and_then(|port| port.ethernet.as_ref());
        link.map_or(&self.device.netdev, |link| &link.netdev)
    }

    fn state(&self) -> &'static str {
        self.ib.map_or_else(|| state(self.device.state), |port| word(IB_STATES, port.state))
    }

    fn physical_state(&self) -> &'static str {
        self.ib.map_or_else(|| physical_state(self.device.phys_state), |port| word(IB_PHYS_STATES, port.phys_state))
    }
}

/// PortState names by number, in `rdma`'s spelling.
const IB_STATES: &[&str] = &["NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"];
/// PortPhysicalState names by number.
const IB_PHYS_STATES: &[&str] =
    &["NOP", "SLEEP", "POLLING", "DISABLED", "ARMED", "LINK_UP", "LINK_ERROR_RECOVER", "PHY_TEST"];

fn word(words: &[&'static str], number: u8) -> &'static str {
    words.get(usize::from(number)).copied().unwrap_or("UNKNOWN")
}

/// Names of the CapabilityMask bits by number, in `rdma`'s spelling; its typos stay, because scripts may match them.
const IB_CAPS: [&str; 32] = [
    "RESERVED",
    "SM",
    "NOTICE",
    "TRAP",
    "OPT_IPD",
    "AUTO_MIGR",
    "SL_MAP",
    "MKEY_NVRAM",
    "PKEY_NVRAM",
    "LED_INFO",
    "SM_DISABLED",
    "SYS_IMAGE_GUID",
    "PKEY_SW_EXT_PORT_TRAP",
    "CABLE_INFO",
    "EXTENDED_SPEEDS",
    "CAP_MASK2",
    "CM",
    "SNMP_TUNNEL",
    "REINIT",
    "DEVICE_MGMT",
    "VENDOR_CLASS",
    "DR_NOTICE",
    "CAP_MASK_NOTICE",
    "BOOT_MGMT",
    "LINK_LATENCY",
    "CLIENT_REG",
    "OTHER_LOCAL_CHANGES",
    "LINK_SPPED_WIDTH",
    "VENDOR_SPECIFIC_MADS",
    "MULT_PKER_TRAP",
    "MULT_FDB",
    "HIERARCHY_INFO",
];
/// Names of the CapabilityMask2 bits, which the kernel places above those of CapabilityMask.
const IB_CAPS2: [&str; 6] =
    ["SET_NODE_DESC", "EXT_INFO", "VIRT", "SWITCH_POR_STATE_TABLE", "LINK_WIDTH_2X", "LINK_SPEED_HDR"];

fn ib_caps(port: &IbPort) -> Vec<&'static str> {
    let caps = u64::from(port.capabilities) | u64::from(port.capabilities2) << 32;
    let names = IB_CAPS.into_iter().chain(IB_CAPS2).chain(std::iter::repeat("UNKNOWN"));
    (0..u64::BITS).zip(names).filter(|(bit, _)| caps >> bit & 1 == 1).map(|(_, name)| name).collect()
}

fn state(state: PortState) -> &'static str {
    match state {
        PortState::Down => "DOWN",
        PortState::Active => "ACTIVE",
    }
}

fn physical_state(state: PhysState) -> &'static str {
    match state {
        PhysState::Polling => "POLLING",
        PhysState::Disabled => "DISABLED",
        PhysState::LinkUp => "LINK_UP",
    }
}

fn text(rows: &[Row<'_>], details: bool) -> String {
    let mut out = String::new();
    for row in rows {
        let d = row.device;
        let _ = write!(out, "link {}/{} ", d.name, row.port);
        if let Some(port) = row.infiniband() {
            let prefix = iproute::guid(port.gid_prefix);
            let _ = write!(out, "subnet_prefix {prefix} lid {} sm_lid {} lmc {} ", port.lid, port.sm_lid, port.lmc);
        }
        let _ = write!(out, "state {} physical_state {} ", row.state(), row.physical_state());
        match row.infiniband() {
            None if row.netdev().is_empty() => {}
            None => {
                let _ = write!(out, "netdev {} ", row.netdev());
                if details && d.ifindex != 0 {
                    let _ = write!(out, "netdev_index {} ", d.ifindex);
                }
            }
            Some(port) if details => {
                let _ = write!(out, "\n    caps: <{}>", ib_caps(port).join(", "));
            }
            Some(_) => {}
        }
        out.push('\n');
    }
    out
}

fn json(rows: &[Row<'_>], output: OutputArgs) -> String {
    let objects: Vec<Members> = rows.iter().map(|row| members(row, output.details)).collect();
    iproute::json(&objects, output.pretty)
}

fn members(row: &Row<'_>, details: bool) -> Members {
    let d = row.device;
    let mut members: Members =
        vec![("ifindex", d.number.into()), ("ifname", d.name.as_str().into()), ("port", row.port.into())];
    if let Some(port) = row.infiniband() {
        members.push(("subnet_prefix", iproute::guid(port.gid_prefix).into()));
        members.extend([("lid", port.lid.into()), ("sm_lid", port.sm_lid.into()), ("lmc", port.lmc.into())]);
    }
    members.extend([("state", row.state().into()), ("physical_state", row.physical_state().into())]);
    match row.infiniband() {
        None if row.netdev().is_empty() => {}
        None => {
            members.push(("netdev", row.netdev().into()));
            // Of a host's interface on a fabric the name alone is known.
            members.extend((d.ifindex != 0).then(|| ("netdev_index", d.ifindex.into())));
        }
        Some(port) if details => members.push(("caps", ib_caps(port).into())),
        Some(_) => {}
    }
    members
}

fn add(words: &[String]) -> Result<(), String> {
    let usage = || "Usage: weft link add NAME type rxe netdev IF".to_owned();
    let (name, rest) = words.split_first().ok_or_else(usage)?;
    let (mut kind, mut netdev) = (None, None);
    for pair in rest.chunks(2) {
        match pair {
            [key, value] if key == "type" => kind = Some(value),
            [key, value] if key == "netdev" => netdev = Some(value),
            _ => return Err(usage()),
        }
    }
    let (Some(kind), Some(netdev)) = (kind, netdev) else { return Err(usage()) };
    let mut client = super::connect().map_err(|e| format!("weft link: {e}"))?;
    client.link_add(name, kind, netdev).map_err(|e| failure(&e))?;
    await_device(Some(name), None);
    Ok(())
}

fn del(name: &str) -> Result<(), String> {
    let mut client = super::connect().map_err(|e| format!("weft link: {e}"))?;
    client.link_del(name).map_err(|e| failure(&e))?;
    await_device(None, Some(name));
    Ok(())
}

/// iproute2's error line, which scripts match, and an explanation on a second line.
pub(super) fn failure(error: &weft_ipc::RequestError) -> String {
    match super::refusal_lines(error) {
        (errno, Some(text)) => format!("error: {errno}\n{text}"),
        (errno, None) => format!("error: {errno}"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use weft_ipc::DeviceInfo;

    /// The device in the golden files.
    pub fn rxe0() -> DeviceInfo {
        DeviceInfo {
            index: 0,
            name: "rxe0".to_owned(),
            kind: "rxe".to_owned(),
            node_guid: 0x5054_00ff_fe77_0001,
            netdev: "eth0".to_owned(),
            ifindex: 2,
            mac: [0x52, 0x54, 0, 0x77, 0, 1],
            netdev_mtu: 1500,
            active_mtu: 1024,
            state: PortState::Active,
            phys_state: PhysState::LinkUp,
            gids: Vec::new(),
            pkeys: vec![0xffff],
            link_speed_mbps: None,
            auto: false,
            infiniband: None,
        }
    }

    /// An adapter of a virtual host, with one managed and one unmanaged port.
    pub fn weft0() -> DeviceInfo {
        let port = |number, state, phys_state| IbPort {
            number,
            state,
            phys_state,
            gid_prefix: 0xfe80 << 48,
            ..IbPort::default()
        };
        let managed =
            IbPort { lid: 817, sm_lid: 762, capabilities: 1 << 1 | 1 << 3, capabilities2: 1 << 4, ..port(1, 4, 5) };
        let adapter = weft_ipc::InfiniBand {
            system_image_guid: 0x0257_4501_0000_0099,
            ports: vec![managed, port(2, 2, 2)],
            ..Default::default()
        };
        let (name, netdev) = ("weft0".to_owned(), String::new());
        let node_guid = 0x0257_4501_0000_0100;
        DeviceInfo { name, netdev, ifindex: 0, node_guid, infiniband: Some(Box::new(adapter)), ..rxe0() }
    }

    #[test]
    fn text_is_what_rdma_link_prints() {
        let plain = "link rxe0/1 state ACTIVE physical_state LINK_UP netdev eth0 \n";
        let device = [rxe0().into()];
        assert_eq!(text(&rows(&device), false), plain);
        let details = "link rxe0/1 state ACTIVE physical_state LINK_UP netdev eth0 netdev_index 2 \n";
        assert_eq!(text(&rows(&device), true), details);
    }

    #[test]
    fn json_is_what_rdma_link_prints() {
        let output = OutputArgs { json: true, ..OutputArgs::default() };
        let device = [rxe0().into()];
        assert_eq!(json(&rows(&device), output), include_str!("../../testdata/rdma-link-j.txt"));
        let output = OutputArgs { pretty: true, ..output };
        assert_eq!(json(&rows(&device), output), include_str!("../../testdata/rdma-link-jp.txt"));
    }

    #[test]
    fn ports_of_a_fabric_have_the_fields_of_infiniband() {
        let devices = [weft0().into()];
        let rows = rows(&devices);
        let first = "link weft0/1 subnet_prefix fe80:0000:0000:0000 lid 817 sm_lid 762 lmc 0 state ACTIVE \
                     physical_state LINK_UP ";
        let second = "link weft0/2 subnet_prefix fe80:0000:0000:0000 lid 0 sm_lid 0 lmc 0 state INIT \
                      physical_state POLLING ";
        assert_eq!(text(&rows, false), format!("{first}\n{second}\n"));
        let caps = "\n    caps: <SM, TRAP, LINK_WIDTH_2X>";
        assert_eq!(text(&rows[..1], true), format!("{first}{caps}\n"));
        let output = OutputArgs { json: true, details: true, ..OutputArgs::default() };
        let json: serde_json::Value = serde_json::from_str(&json(&rows, output)).unwrap();
        assert_eq!((&json[0]["lid"], &json[0]["caps"][1], &json[1]["port"]), (&817.into(), &"TRAP".into(), &2.into()));
        assert!(json[0].get("netdev").is_none());
    }

    #[test]
    fn the_words_of_add_are_checked() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for wrong in ["x", "x type rxe", "x netdev eth0", "x type rxe netdev", "x kind rxe netdev eth0"] {
            assert!(add(&words(wrong)).unwrap_err().starts_with("Usage"), "{wrong}");
        }
    }
}
