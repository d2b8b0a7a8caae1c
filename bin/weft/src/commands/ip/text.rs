//! Corrects the text that `ip link` and `ip address` print of IPoIB interfaces.

use std::fmt::Write;

use weft_ipc::IpoibInterface;

use crate::commands::run::interfaces::address_text;

/// Largest MTU of an IPoIB interface.
pub const MTU_MAX: u32 = 65_520;
/// Column widths of names and states with `-brief`.
const NAME_WIDTH: usize = 16;

/// Returns the flags of an interface without those that a TUN alone has.
pub fn flags<'a>(of_tun: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut flags: Vec<&str> = of_tun.filter(|flag| !matches!(*flag, "POINTOPOINT" | "NOARP")).collect();
    let place = flags.iter().take_while(|flag| matches!(**flag, "NO-CARRIER" | "LOOPBACK")).count();
    flags.insert(place, "BROADCAST");
    flags
}

/// Returns the name of an interface, with that of the one that it was made from.
pub fn full_name(interface: &IpoibInterface, all: &[IpoibInterface]) -> String {
    let parent = interface.parent.and_then(|parent| all.iter().find(|other| other.ifindex == parent));
    parent.map_or_else(|| interface.name.clone(), |parent| format!("{}@{}", interface.name, parent.name))
}

/// The mode's name.
pub fn mode(interface: &IpoibInterface) -> &'static str {
    if interface.is_connected() { "connected" } else { "datagram" }
}

/// Corrects long output: each interface begins a line with its index.
pub fn correct(output: &str, all: &[IpoibInterface]) -> String {
    let mut blocks: Vec<String> = Vec::new();
    for line in output.split_inclusive('\n') {
        match blocks.last_mut() {
            Some(block) if index_of(line).is_none() => block.push_str(line),
            _ => blocks.push(line.to_owned()),
        }
    }
    let correct = |block: String| {
        let found = index_of(&block).and_then(|index| all.iter().find(|one| one.ifindex == index));
        found.map_or(block.clone(), |interface| correct_block(&block, interface, all))
    };
    blocks.into_iter().map(correct).collect()
}

fn index_of(line: &str) -> Option<u32> {
    line.split_once(": ").and_then(|(index, _)| index.parse().ok())
}

fn correct_block(block: &str, interface: &IpoibInterface, all: &[IpoibInterface]) -> String {
    let mut out = correct_flags(block);
    out = out.replacen(&format!("{}: ", interface.name), &format!("{}: ", full_name(interface, all)), 1);
    let addresses =
        format!("link/infiniband {} brd {}", address_text(&interface.address), address_text(&interface.broadcast));
    out = out.replacen("link/infiniband ", &addresses, 1);
    out = out.replacen("maxmtu 65535 ", &format!("maxmtu {MTU_MAX} "), 1);
    // The options of a TUN are followed by those of every interface.
    if let Some(from) = out.find(" tun type ")
        && let Some(rest) = out.get(from + 1..)
        && let Some(length) = ["addrgenmode ", "numtxqueues "].iter().filter_map(|next| rest.find(next)).min()
    {
        let mut options = String::new();
        let _ = write!(options, "ipoib pkey {:#06x} mode {} umcast 0000 ", interface.pkey, mode(interface));
        out.replace_range(from + 1..from + 1 + length, &options);
    }
    out
}

/// Corrects the flags between the first angle brackets of the first line.
fn correct_flags(text: &str) -> String {
    let line = text.split(['\n', '\\']).next().unwrap_or_default();
    let (Some(from), Some(to)) = (line.find('<'), line.find('>')) else { return text.to_owned() };
    let (Some(before), Some(names), Some(after)) = (text.get(..=from), text.get(from + 1..to), text.get(to..)) else {
        return text.to_owned();
    };
    format!("{before}{}{after}", flags(names.split(',')).join(","))
}

/// Corrects output with `-brief`: each line begins with a name.
pub fn correct_brief(output: &str, all: &[IpoibInterface], has_flags: bool) -> String {
    let correct = |line: &str| {
        let name = line.split(' ').next().unwrap_or_default();
        let Some(interface) = all.iter().find(|one| one.name == name) else { return line.to_owned() };
        let mut line = line.to_owned();
        let full = format!("{:<NAME_WIDTH$} ", full_name(interface, all));
        line.replace_range(..line.len().min(name.len().max(NAME_WIDTH) + 1), &full);
        if has_flags {
            line = correct_flags(&line).replacen('<', &format!("{} <", address_text(&interface.address)), 1);
        }
        line
    };
    output.split_inclusive('\n').map(correct).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use weft_ipc::LINK_ADDRESS_BYTES;

    pub fn interfaces() -> Vec<IpoibInterface> {
        let mut address = [0; LINK_ADDRESS_BYTES];
        (address[3], address[4], address[5], address[19]) = (0x48, 0xfe, 0x80, 7);
        let ib0 = IpoibInterface {
            name: "ib0".to_owned(),
            ifindex: 2,
            device: "weft0".to_owned(),
            port: 1,
            pkey: 0xffff,
            parent: None,
            address,
            broadcast: [0xff; LINK_ADDRESS_BYTES],
        };
        let child =
            IpoibInterface { name: "ib0.8002".to_owned(), ifindex: 3, pkey: 0x8002, parent: Some(2), ..ib0.clone() };
        vec![ib0, child]
    }

    pub const ADDRESS: &str = "00:00:00:48:fe:80:00:00:00:00:00:00:00:00:00:00:00:00:00:07";
    pub const BROADCAST: &str = "ff:ff:ff:ff:ff:ff:ff:ff:ff:ff:ff:ff:ff:ff:ff:ff:ff:ff:ff:ff";

    const LO: &str = "1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN mode DEFAULT\n    \
                      link/loopback 00:00:00:00:00:00 brd 00:00:00:00:00:00\n";

    #[test]
    fn long_output_shows_interfaces_of_infiniband() {
        let tun = "2: ib0: <POINTOPOINT,MULTICAST,NOARP,UP,LOWER_UP> mtu 2044 qdisc pfifo_fast state UNKNOWN\n    \
                   link/infiniband  promiscuity 0  allmulti 0 minmtu 68 maxmtu 65535 \n    \
                   tun type tun pi off vnet_hdr off persist off addrgenmode eui64 numtxqueues 1 \n";
        let expected = format!(
            "{LO}2: ib0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 2044 qdisc pfifo_fast state UNKNOWN\n    \
             link/infiniband {ADDRESS} brd {BROADCAST} promiscuity 0  allmulti 0 minmtu 68 maxmtu 65520 \n    \
             ipoib pkey 0xffff mode datagram umcast 0000 addrgenmode eui64 numtxqueues 1 \n"
        );
        assert_eq!(correct(&format!("{LO}{tun}"), &interfaces()), expected);
        let one_line = "3: ib0.8002: <NO-CARRIER,POINTOPOINT,MULTICAST,NOARP,UP> mtu 2044\\    link/infiniband \n";
        let expected = format!(
            "3: ib0.8002@ib0: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 2044\\    link/infiniband {ADDRESS} brd {BROADCAST}\n"
        );
        assert_eq!(correct(one_line, &interfaces()), expected);
    }

    #[test]
    fn brief_output_has_the_address_before_the_flags() {
        let link = "lo               UNKNOWN        00:00:00:00:00:00 <LOOPBACK,UP,LOWER_UP> \n\
                    ib0              UP             <POINTOPOINT,MULTICAST,NOARP,UP,LOWER_UP> \n\
                    ib0.8002         DOWN           <POINTOPOINT,MULTICAST,NOARP> \n";
        let expected = format!(
            "lo               UNKNOWN        00:00:00:00:00:00 <LOOPBACK,UP,LOWER_UP> \n\
             ib0              UP             {ADDRESS} <BROADCAST,MULTICAST,UP,LOWER_UP> \n\
             ib0.8002@ib0     DOWN           {ADDRESS} <BROADCAST,MULTICAST> \n"
        );
        assert_eq!(correct_brief(link, &interfaces(), true), expected);
        let address = "ib0              UP             10.0.0.1/8 \n";
        assert_eq!(correct_brief(address, &interfaces(), false), address);
    }

    #[test]
    fn other_interfaces_stay_as_they_are() {
        for text in [LO, "2: ib0    inet 10.0.0.1/8 scope global ib0\\       valid_lft forever\n", "", "Usage: ip\n"] {
            assert_eq!(correct(text, &interfaces()), text);
        }
    }
}
