//! `vendstat`: queries Mellanox switches through their vendor-specific management class.

mod info;

use std::ffi::OsString;
use std::process::ExitCode;

use serde_json::{Value, json};

use self::info::GeneralInfo;
use super::Tool;
use crate::ib::address::PortId;
use crate::ib::mad::{ATTR_CLASS_PORT_INFO, CLASS_MLX, CLASS_SUBN_ADM, GET, SET};
use crate::ib::number;
use crate::ib::options::{CommandLine, Spec, opt, opt_arg};
use crate::ib::port::Port;
use crate::ib::report::{End, Outcome, failed};
use crate::ib::vendor::Call;
use crate::output;

/// The tool.
pub const TOOL: Tool = Tool { name: "vendstat", about: "query switches through their vendor-specific class", run };

const SPEC: Spec = Spec {
    program: TOOL.name,
    options: &[
        opt("N", 'N', "show IS3 or IS4 general information"),
        opt("w", 'w', "show IS3 port xmit wait counters"),
        opt("i", 'i', "show IS4 counter group info"),
        opt_arg("c", 'c', "<num,num>", "configure IS4 counter groups"),
        opt_arg("Read", 'R', "<addr,mask>", "Read configuration space record at addr"),
        opt_arg("Write", 'W', "<addr,val,mask>", "Write configuration space record at addr"),
    ],
    exclude: "DKy",
    own: "",
    usage: "<lid|guid> [port]",
    examples: &[
        "-N 6\t\t# read IS3 or IS4 general information",
        "-w 6\t\t# read IS3 port xmit wait counters",
        "-i 6 12\t# read IS4 port 12 counter group info",
        "-c 0,1 6 12\t# configure IS4 port 12 counter groups for PortXmitDataSL",
        "-c 2,8 6 12\t# configure IS4 port 12 counter groups for PortRcvDataSL",
    ],
};

const GENERAL_INFO: u16 = 0x17;
const CONFIG_SPACE: u16 = 0x50;
const COUNTER_GROUP_INFO: u16 = 0x90;
const CONFIG_COUNTER_GROUP: u16 = 0x91;
/// Address of the first port's PortXmitWait, and the distance between two ports' counters.
const XMIT_WAIT_ADDRESS: u32 = 0x10_013c;
const PORT_STRIDE: u32 = 1 << 12;
/// The only device with PortXmitWait at this address.
const IS3_DEVICE: u16 = 47396;
/// Maximum number of records in one request.
const RECORDS_MAX: usize = 18;
/// Bytes before an attribute's records or other contents.
const HEAD_LEN: usize = 8;

fn run(args: &[OsString]) -> ExitCode {
    SPEC.main(args, work)
}

/// A record of the configuration space: address, data, mask.
type Record = [u32; 3];

struct Session<'a> {
    line: &'a CommandLine,
    port: Port,
    to: PortId,
    json: serde_json::Map<String, Value>,
}

/// The switch did not answer; the error is already printed.
struct Refused;

fn work(line: &CommandLine) -> Outcome<()> {
    let reads = records(line, 'R')?;
    let writes = records(line, 'W')?;
    let groups = line.arg('c').map(group_numbers).transpose()?;
    let mut port = Port::open(&line.common, &[CLASS_SUBN_ADM, CLASS_MLX])?;
    let (to, number) = match line.operands.first() {
        Some(text) => {
            let to = line.common.destination(&mut port, text)?;
            (to.ok_or_else(|| End::failed(format!("can't resolve destination port {text}")))?, line.number(1) as u32)
        }
        None => {
            let own = line.common.own_port()?.ok_or_else(|| End::failed("can't resolve self port (null)"))?;
            (PortId { lid: own.base_lid, sl: own.sm_sl, ..PortId::default() }, u32::from(own.number))
        }
    };
    let mut session = Session { line, port, to, json: serde_json::Map::new() };
    // A refusal by the switch is already printed and does not fail the tool, as in the original.
    if line.has('i') {
        let _ = session.counter_groups(number);
    } else if let Some(groups) = groups {
        let _ = session.configure_groups(number, groups);
    } else if !reads.is_empty() || !writes.is_empty() {
        for (method, records) in [(GET, &reads), (SET, &writes)] {
            if !records.is_empty() {
                let _ = session.config_space(method, records);
            }
        }
    } else {
        session.general()?;
    }
    if line.common.json {
        output::print(&format!("{}\n", Value::from(session.json)));
    }
    Ok(())
}

/// Parses records: `addr[,mask]` to read, `addr,value[,mask]` to write, all hexadecimal.
fn records(line: &CommandLine, letter: char) -> Outcome<Vec<Record>> {
    let typed = line.own.iter().filter(|(l, _)| *l == letter).take(RECORDS_MAX);
    typed.map(|(_, text)| record(text, letter == 'W').ok_or(End::Usage)).collect()
}

fn record(text: &str, is_write: bool) -> Option<Record> {
    let number = |word: &str| u32::from_str_radix(word.trim().trim_start_matches("0x"), 16).ok();
    let mut words = text.split(',').map(number);
    let address = words.next()??;
    let data = if is_write { words.next()?? } else { 0 };
    Some([address, data, words.next().flatten().unwrap_or(u32::MAX)])
}

fn group_numbers(text: &str) -> Outcome<[u8; 2]> {
    let mut words = text.split(',').map(|word| number::leading_decimal(word) as u8);
    match (words.next(), words.next()) {
        (Some(first), Some(second)) => Ok([first, second]),
        _ => Err(End::Usage),
    }
}

impl Session<'_> {
    fn print(&self, text: &str) {
        if !self.line.common.json {
            output::print(text);
        }
    }

    fn keep(&mut self, name: &str, value: impl Into<Value>) {
        self.json.insert(name.to_owned(), value.into());
    }

    fn ask(&mut self, method: u8, attribute: u16, modifier: u32, data: &[u8]) -> Result<Vec<u8>, Refused> {
        let timeout_ms = self.line.common.timeout_ms.unwrap_or(0);
        let call = Call { class: CLASS_MLX, method, attribute, modifier, data, timeout_ms, oui: 0 };
        self.port.vendor_call(&self.to, &call).map_err(|_| {
            crate::errln!("vendstat: method {method}, attribute {attribute} failure");
            Refused
        })
    }

    fn counter_groups(&mut self, number: u32) -> Result<(), Refused> {
        let info = self.ask(GET, COUNTER_GROUP_INFO, number, &[]);
        let info = info.inspect_err(|Refused| crate::errln!("counter group info query failure"))?;
        let count = info[HEAD_LEN + 3];
        let masks: Vec<u32> = (0..usize::from(count)).map_while(|i| info::word(&info, HEAD_LEN + 4 + i * 4)).collect();
        self.print(&format!("counter_group_info:\n{count} counter groups\n"));
        for (group, mask) in masks.iter().enumerate() {
            let mask = if *mask == 0 { "0".to_owned() } else { format!("0x{mask:x}") };
            self.print(&format!("group{group} mask {mask}\n"));
        }
        self.keep("counter_group_masks", masks);
        Ok(())
    }

    fn configure_groups(&mut self, number: u32, [first, second]: [u8; 2]) -> Result<(), Refused> {
        self.print(&format!("counter_groups_config: configuring group0 {first} group1 {second}\n"));
        let mut data = [0; HEAD_LEN + 12];
        data[HEAD_LEN + 7] = first;
        data[HEAD_LEN + 11] = second;
        let set = self.ask(SET, CONFIG_COUNTER_GROUP, number, &data);
        set.inspect_err(|Refused| crate::errln!("config counter group set failure"))?;
        let asked = self.ask(GET, CONFIG_COUNTER_GROUP, number, &[]);
        asked.inspect_err(|Refused| crate::errln!("config counter group query failure"))?;
        self.keep("counter_groups", vec![first, second]);
        Ok(())
    }

    fn config_space(&mut self, method: u8, records: &[Record]) -> Result<(), Refused> {
        let answer = self.records(method, records).inspect_err(|Refused| {
            let verb = if method == SET { "set" } else { "get" };
            crate::errln!("cannot {verb} config space records");
        })?;
        let mut kept = Vec::new();
        for [address, data, mask] in answer {
            let value = data & mask;
            self.print(&format!("Config space record at 0x{address:x}: 0x{value:x}\n"));
            kept.push(json!({"address": address, "value": value}));
        }
        self.keep(if method == SET { "written" } else { "read" }, kept);
        Ok(())
    }

    /// Reads or writes records, and returns their resulting values.
    fn records(&mut self, method: u8, records: &[Record]) -> Result<Vec<Record>, Refused> {
        let mut data = vec![0; HEAD_LEN];
        data.extend(records.iter().flatten().flat_map(|word| word.to_be_bytes()));
        let modifier = 2 << 22 | (records.len() as u32) << 16;
        let answer = self.ask(method, CONFIG_SPACE, modifier, &data)?;
        let word = |at| info::word(&answer, at).unwrap_or(0);
        let at = |i| HEAD_LEN + i * 12;
        Ok((0..records.len()).map(|i| [word(at(i)), word(at(i) + 4), word(at(i) + 8)]).collect())
    }

    fn general(&mut self) -> Outcome<()> {
        let (shows_info, shows_wait) = (self.line.has('N'), self.line.has('w'));
        if !shows_info && !shows_wait {
            return failed("at least one of -N and -w must be specified");
        }
        self.ask(GET, ATTR_CLASS_PORT_INFO, 0, &[]).map_err(|Refused| End::failed("classportinfo query"))?;
        let info = self.ask(GET, GENERAL_INFO, 0, &[]).map_err(|Refused| End::failed("generalinfo query"))?;
        let info = GeneralInfo::parse(&info);
        if shows_info {
            self.print(&info.text());
            self.keep("general_info", info.json());
        }
        if shows_wait {
            if info.device_id != IS3_DEVICE {
                return failed(format!("Unsupported device ID 0x{:x}", info.device_id));
            }
            self.xmit_wait()?;
        }
        Ok(())
    }

    /// Shows PortXmitWait of 24 ports, in two requests; the chip's numbering starts at the fourth port.
    fn xmit_wait(&mut self) -> Outcome<()> {
        let mut kept = serde_json::Map::new();
        for (first, count) in [(1u32, 16u32), (17, 8)] {
            let records: Vec<Record> =
                (first..first + count).map(|i| [XMIT_WAIT_ADDRESS + i * PORT_STRIDE, 0, 0]).collect();
            let answer = self.records(GET, &records).map_err(|Refused| End::failed("vendstat"))?;
            for (i, [_, wait, _]) in (first..).zip(answer).filter(|(_, [_, wait, _])| *wait != 0) {
                let number = port_number(i);
                self.print(&format!("Port {number}: PortXmitWait 0x{wait:x}\n"));
                kept.insert(number.to_string(), wait.into());
            }
        }
        self.keep("port_xmit_wait", kept);
        Ok(())
    }
}

/// The port number that the original assigns to the chip's counter `i`.
fn port_number(i: u32) -> u32 {
    match i {
        ..=16 => i + 3,
        17..=20 => i + 4,
        _ => i - 20,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_belong_to_ports_as_in_the_original() {
        assert_eq!([1, 16, 17, 20, 21, 24].map(port_number), [4, 19, 21, 24, 1, 4]);
    }

    #[test]
    fn records_are_read_in_hexadecimal() {
        assert_eq!(record("10013c", false), Some([0x10_013c, 0, u32::MAX]));
        assert_eq!(record("0x10,ff", false), Some([0x10, 0, 0xff]));
        assert_eq!(record("10,2,f", true), Some([0x10, 2, 0xf]));
        assert_eq!((record("10", true), record("x", false)), (None, None));
    }
}
