//! `perfquery`: reads and resets port counters.

mod counters;
mod details;
mod session;

use std::ffi::OsString;
use std::process::ExitCode;

use serde_json::Value;

use self::session::Session;
use super::Tool;
use crate::ib::address::PortId;
use crate::ib::fields::subn::{node_info, switch_info};
use crate::ib::mad::{ATTR_CLASS_PORT_INFO, CLASS_PERF, CLASS_SUBN_ADM, CLASS_SUBN_LID};
use crate::ib::number;
use crate::ib::options::{CommandLine, Spec, opt};
use crate::ib::pma::{self, ALL_PORTS};
use crate::ib::port::Port;
use crate::ib::report::{End, Outcome, failed, warn};
use crate::ib::smp;
use crate::output;

/// The tool.
pub const TOOL: Tool = Tool { name: "perfquery", about: "read and reset counters of ports", run };

const SPEC: Spec = Spec {
    program: TOOL.name,
    options: &[
        opt("extended", 'x', "show extended port counters"),
        opt("xmtsl", 'X', "show Xmt SL port counters"),
        opt("rcvsl", 'S', "show Rcv SL port counters"),
        opt("xmtdisc", 'D', "show Xmt Discard Details"),
        opt("rcverr", 'E', "show Rcv Error Details"),
        opt("extended_speeds", 'T', "show port extended speeds counters"),
        opt("oprcvcounters", '\u{1}', "show Rcv Counters per Op code"),
        opt("flowctlcounters", '\u{2}', "show flow control counters"),
        opt("vloppackets", '\u{3}', "show packets received per Op code per VL"),
        opt("vlopdata", '\u{4}', "show data received per Op code per VL"),
        opt("vlxmitflowctlerrors", '\u{5}', "show flow control update errors per VL"),
        opt("vlxmitcounters", '\u{6}', "show ticks waiting to transmit counters per VL"),
        opt("swportvlcong", '\u{7}', "show sw port VL congestion"),
        opt("rcvcc", '\u{8}', "show Rcv congestion control counters"),
        opt("slrcvfecn", '\u{9}', "show SL Rcv FECN counters"),
        opt("slrcvbecn", '\u{a}', "show SL Rcv BECN counters"),
        opt("xmitcc", '\u{b}', "show Xmit congestion control counters"),
        opt("vlxmittimecc", '\u{c}', "show VL Xmit Time congestion control counters"),
        opt("smplctl", 'c', "show samples control"),
        opt("all_ports", 'a', "show aggregated counters"),
        opt("loop_ports", 'l', "iterate through each port"),
        opt("reset_after_read", 'r', "reset counters after read"),
        opt("Reset_only", 'R', "only reset counters"),
    ],
    exclude: "DK",
    own: "",
    usage: " [<lid|guid> [[port(s)] [reset_mask]]]",
    examples: &[
        "\t\t# read local port's performance counters",
        "32 1\t\t# read performance counters from lid 32, port 1",
        "-x 32 1\t# read extended performance counters from lid 32, port 1",
        "-a 32\t\t# read performance counters from lid 32, all ports",
        "-r 32 1\t# read performance counters and reset",
        "-x -r 32 1\t# read extended performance counters and reset",
        "-R 0x20 1\t# reset performance counters of port 1 only",
        "-x -R 0x20 1\t# reset extended performance counters of port 1 only",
        "-R -a 32\t# reset performance counters of all ports",
        "-R 32 2 0x0fff\t# reset only error counters of port 2",
        "-R 32 2 0xf000\t# reset only non-error counters of port 2",
        "-a 32 1-10\t# read performance counters from lid 32, port 1-10, aggregate output",
        "-l 32 1-10\t# read performance counters from lid 32, port 1-10, output each port",
        "-a 32 1,4,8\t# read performance counters from lid 32, port 1, 4, and 8, aggregate output",
        "-l 32 1,4,8\t# read performance counters from lid 32, port 1, 4, and 8, output each port",
    ],
};

fn run(args: &[OsString]) -> ExitCode {
    SPEC.main(args, work)
}

fn work(line: &CommandLine) -> Outcome<()> {
    let (first, numbers) = ports_of(line)?;
    let mut port = Port::open(&line.common, &[CLASS_SUBN_LID, CLASS_SUBN_ADM, CLASS_PERF])?;
    let (to, number) = match line.operands.first() {
        Some(text) => {
            let to = line.common.destination(&mut port, text)?;
            (to.ok_or_else(|| End::failed(format!("can't resolve destination port {text}")))?, first)
        }
        None => {
            let own = line.common.own_port()?.ok_or_else(|| End::failed("can't resolve self port (null)"))?;
            (PortId { lid: own.base_lid, sl: own.sm_sl, ..PortId::default() }, own.number)
        }
    };
    let info = port.pma_get(&to, ATTR_CLASS_PORT_INFO, number, line.common.timeout_ms.unwrap_or(0));
    let info = info.map_err(|_| End::failed("classportinfo query"))?;
    let mut session = Session {
        line,
        port,
        to,
        number,
        numbers,
        cap_mask: u16::from_be_bytes([info[2], info[3]]),
        cap_mask2: u32::from_be_bytes([info[4], info[5], info[6], info[7]]) >> 5,
        mask: line.operands.get(2).map(|text| number::number(text)),
        json: Vec::new(),
    };
    answer(&mut session)?;
    if line.common.json {
        output::print(&format!("{}\n", Value::from(session.json)));
    }
    Ok(())
}

/// The first port, and all ports if the command line names several: `1,4,8` or `1-10`.
fn ports_of(line: &CommandLine) -> Outcome<(u8, Vec<u8>)> {
    let all = if line.has('a') { ALL_PORTS } else { 0 };
    let Some(text) = line.operands.get(1) else { return Ok((all, Vec::new())) };
    let port = |text: &str| u8::try_from(number::number(text)).unwrap_or(ALL_PORTS);
    let several: Vec<u8> = if text.contains(',') {
        text.split(',').filter(|word| !word.is_empty()).map(port).collect()
    } else if let Some((first, last)) = text.split_once('-') {
        let (first, last) = (port(first), port(last));
        if first >= last {
            return failed("max port must be greater than min port in range");
        }
        (first..=last).collect()
    } else {
        return Ok((port(text), Vec::new()));
    };
    Ok((several.first().copied().unwrap_or(all), several))
}

fn answer(session: &mut Session<'_>) -> Outcome<()> {
    let wants_all = session.line.has('a');
    let wants_each = session.line.has('l');
    let is_all = session.number == ALL_PORTS;
    let selects_all = session.cap_mask & pma::CAP_ALL_PORT_SELECT != 0;
    if !selects_all && !wants_all && is_all {
        return failed("AllPortSelect not supported");
    }
    let emulates = !selects_all && wants_all && is_all;
    if details::answer(session)? {
        return Ok(());
    }
    let is_aggregate = emulates && !wants_each;
    let each = emulates || wants_each && (wants_all || is_all);
    let numbers = if each { each_port(session)? } else { Vec::new() };
    if is_aggregate {
        warn("main", "Emulating AllPortSelect by iterating through all ports");
    }
    let (numbers, is_aggregate) = match (each, session.numbers.len()) {
        (true, _) => (numbers, is_aggregate),
        (false, 2..) => (session.numbers.clone(), wants_all && !wants_each),
        (false, _) => (vec![session.number], false),
    };
    if !session.resets_only() {
        counters::read(session, &numbers, is_aggregate)?;
    }
    if session.resets() { counters::reset(session, &numbers) } else { Ok(()) }
}

/// A node's ports; a switch's port 0 only if it is an enhanced one.
fn each_port(session: &mut Session<'_>) -> Outcome<Vec<u8>> {
    let to = session.to;
    let node = session.port.smp_get(&to, smp::NODE_INFO, 0).map_err(|_| End::failed("smp query nodeinfo failed"))?;
    let last = node_info::NUM_PORTS.value(&node) as u8;
    if last == 0 {
        return failed("smp query nodeinfo: num ports invalid");
    }
    let mut first = 1;
    if node_info::NODE_TYPE.value(&node) == smp::TYPE_SWITCH {
        let switch = session.port.smp_get(&to, smp::SWITCH_INFO, 0);
        let switch = switch.map_err(|_| End::failed("smp query nodeinfo failed"))?;
        first = u8::from(switch_info::ENHANCED_PORT0.value(&switch) == 0);
    }
    Ok((first..=last).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(line: &str) -> Outcome<(u8, Vec<u8>)> {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        ports_of(&SPEC.read(&args).unwrap())
    }

    #[test]
    fn ports_are_one_or_several() {
        assert_eq!(ports("32").unwrap(), (0, vec![]));
        assert_eq!(ports("-a 32").unwrap(), (255, vec![]));
        assert_eq!(ports("32 7").unwrap(), (7, vec![]));
        assert_eq!(ports("32 1,4,8").unwrap(), (1, vec![1, 4, 8]));
        assert_eq!(ports("32 2-4").unwrap(), (2, vec![2, 3, 4]));
        assert!(ports("32 4-4").is_err());
        assert_eq!(ports("32 1-9999").unwrap().1.len(), 255);
    }
}
