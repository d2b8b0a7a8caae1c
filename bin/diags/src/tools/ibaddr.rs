//! `ibaddr`: prints the GID and LIDs of a port.

use std::ffi::OsString;
use std::net::Ipv6Addr;
use std::process::ExitCode;

use serde_json::json;

use super::Tool;
use crate::ib::address::PortId;
use crate::ib::fields::subn::{node_info, port_info};
use crate::ib::options::{CommandLine, SMP_CLASSES, Spec, opt};
use crate::ib::port::Port;
use crate::ib::report::{End, Outcome};
use crate::ib::smp;
use crate::output;

/// The tool.
pub const TOOL: Tool = Tool { name: "ibaddr", about: "print the GID and LIDs of a port", run };

const SPEC: Spec = Spec {
    program: TOOL.name,
    options: &[
        opt("gid_show", 'g', "show gid address only"),
        opt("lid_show", 'l', "show lid range only"),
        opt("Lid_show", 'L', "show lid range (in decimal) only"),
    ],
    exclude: "KL",
    own: "",
    usage: "[<lid|dr_path|guid>]",
    examples: &[
        "\t\t# local port's address",
        "32\t\t# show lid range and gid of lid 32",
        "-G 0x8f1040023\t# same but using guid address",
        "-l 32\t\t# show lid range only",
        "-L 32\t\t# show decimal lid range only",
        "-g 32\t\t# show gid address only",
    ],
};

fn run(args: &[OsString]) -> ExitCode {
    SPEC.main(args, work)
}

fn work(line: &CommandLine) -> Outcome<()> {
    let mut port = Port::open(&line.common, SMP_CLASSES)?;
    let (to, number) = match line.operands.first() {
        Some(text) => {
            let to = line.common.destination(&mut port, text)?;
            let to = to.ok_or_else(|| End::failed(format!("can't resolve destination port {text}")))?;
            (to, line.number(1) as u32)
        }
        None => {
            let own = line.common.own_port()?.ok_or_else(|| End::failed("can't resolve self port (null)"))?;
            (PortId { lid: own.base_lid, sl: own.sm_sl, ..PortId::default() }, u32::from(own.number))
        }
    };
    let address = Address::of(&mut port, &to, number).map_err(|()| End::failed("can't resolve requested address"))?;
    // As in the original, -L takes precedence over -l.
    let style = if line.has('L') { Lids::Decimal } else { Lids::Hexadecimal };
    let only = line.has('g') || line.has('l') || line.has('L');
    let shows_lids = !only || line.has('l') || line.has('L');
    if line.common.json {
        output::print(&format!("{}\n", address.json()));
    } else {
        output::print(&address.text(!only || line.has('g'), shows_lids.then_some(style)));
    }
    Ok(())
}

/// Number format of LIDs.
#[derive(Clone, Copy)]
enum Lids {
    Decimal,
    Hexadecimal,
}

struct Address {
    gid: Ipv6Addr,
    first: u32,
    last: u32,
}

impl Address {
    fn of(port: &mut Port, to: &PortId, number: u32) -> Result<Address, ()> {
        let node = port.smp_get(to, smp::NODE_INFO, 0).map_err(drop)?;
        let info = port.smp_get(to, smp::PORT_INFO, number).map_err(drop)?;
        let gid = u128::from(port_info::GID_PREFIX.value(&info)) << 64 | u128::from(node_info::PORT_GUID.value(&node));
        let first = port_info::LID.value(&info) as u32;
        Ok(Address { gid: gid.into(), first, last: first + (1 << port_info::LMC.value(&info)) - 1 })
    }

    fn text(&self, shows_gid: bool, lids: Option<Lids>) -> String {
        let Address { gid, first, last } = self;
        let gid = if shows_gid { format!("GID {gid} ") } else { String::new() };
        let lids = match lids {
            Some(Lids::Hexadecimal) => format!("LID start 0x{first:x} end 0x{last:x}"),
            Some(Lids::Decimal) => format!("LID start {first} end {last}"),
            None => String::new(),
        };
        format!("{gid}{lids}\n")
    }

    fn json(&self) -> serde_json::Value {
        json!({"gid": self.gid.to_string(), "lid_start": self.first, "lid_end": self.last})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_printed_as_the_original_does() {
        let address = Address { gid: "fe80::2:c903:a00:11".parse().unwrap(), first: 6, last: 7 };
        assert_eq!(address.text(true, Some(Lids::Hexadecimal)), "GID fe80::2:c903:a00:11 LID start 0x6 end 0x7\n");
        assert_eq!(address.text(false, Some(Lids::Decimal)), "LID start 6 end 7\n");
        assert_eq!(address.text(true, None), "GID fe80::2:c903:a00:11 \n");
    }
}
