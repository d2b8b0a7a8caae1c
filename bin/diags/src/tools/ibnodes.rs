//! `ibhosts`, `ibswitches`, `ibrouters` and `ibnodes`: short node lists of a topology file or of the fabric.

use std::ffi::OsString;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::Tool;
use super::ibnetdiscover::discovered;
use super::ibnetdiscover::topology::{self, Writer};
use crate::ib::config;
use crate::ib::names::NodeNames;
use crate::ib::number::number;
use crate::ib::options::Common;
use crate::ib::report::End;
use crate::ibnet::Config;
use crate::named_file;
use crate::output;
use weft_client::Which;

/// Channel adapters.
pub const HOSTS: Tool = Tool { name: "ibhosts", about: "list the hosts of an InfiniBand fabric", run: hosts };
/// Hosts and switches.
pub const NODES: Tool = Tool { name: "ibnodes", about: "list the hosts and switches of a fabric", run: nodes };
/// Routers.
pub const ROUTERS: Tool = Tool { name: "ibrouters", about: "list the routers of a fabric", run: routers };
/// Switches.
pub const SWITCHES: Tool = Tool { name: "ibswitches", about: "list the switches of a fabric", run: switches };

/// Exit code of the shell's `exit 255`.
const WRONG: u8 = 255;

fn hosts(args: &[OsString]) -> ExitCode {
    run("ibhosts", &["Ca"], args)
}

fn switches(args: &[OsString]) -> ExitCode {
    run("ibswitches", &["Switch"], args)
}

fn routers(args: &[OsString]) -> ExitCode {
    run("ibrouters", &["Rt"], args)
}

fn nodes(args: &[OsString]) -> ExitCode {
    run("ibnodes", &["Ca", "Switch"], args)
}

/// A parsed command line.
struct Line {
    common: Common,
    file: Option<String>,
}

fn run(program: &'static str, kinds: &[&str], args: &[OsString]) -> ExitCode {
    let args: Vec<String> = args.iter().map(|a| a.to_string_lossy().into_owned()).collect();
    let Some(line) = read(&args) else {
        crate::outln!("Usage: {program} [-h] [<topology-file> | -y mkey -C ca_name -P ca_port -t timeout_ms]");
        return ExitCode::from(WRONG);
    };
    let text = match topology_text(&line) {
        Ok(text) => text,
        Err(end) => return end.report(program, false, line.common.json),
    };
    let found = kinds.iter().flat_map(|&kind| text.lines().filter_map(move |line| short(line, kind)));
    if line.common.json {
        crate::outln!("{:#}", found.map(|f| f.json()).collect::<Value>());
    } else {
        output::print(&found.map(|f| f.text() + "\n").collect::<String>());
    }
    ExitCode::SUCCESS
}

/// Parses options like the original's shell script: each is a separate word, followed by its value.
fn read(args: &[String]) -> Option<Line> {
    let mut line = Line { common: Common::default(), file: None };
    config::read(config::PATH, &mut line.common);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().filter(|value| !value.is_empty() && !value.starts_with('-'));
        match arg.as_str() {
            "--json" => line.common.json = true,
            "--system" => line.common.which = Which::System,
            "-y" | "--m_key" => line.common.m_key = number(value()?),
            "-P" | "--Port" => line.common.port = i32::try_from(number(value()?)).ok()?,
            "-C" | "--Ca" => line.common.ca = Some(value()?.clone()),
            "-t" | "--timeout" => line.common.timeout_ms = Some(u32::try_from(number(value()?)).ok()?),
            option if option.starts_with('-') => return None,
            // An empty word ends the original's loop.
            "" => break,
            file if line.file.is_none() => line.file = Some(file.to_owned()),
            _ => return None,
        }
    }
    Some(line)
}

fn topology_text(line: &Line) -> Result<String, End> {
    if let Some(path) = &line.file {
        return named_file::read(path).map_err(|e| {
            crate::errln!("cat: {path}: {}", crate::errno::text(&e));
            End::Code(1)
        });
    }
    let config = Config { mlnx_ext_port_info: line.common.mlx_epi, ..Config::default() };
    let fabric = discovered(&line.common, config).ok_or_else(|| End::failed("discover failed"))?;
    let names = NodeNames::open(None);
    Ok(topology::text(&Writer { fabric: &fabric, names: &names, group: false, full: false }, 0, false))
}

/// The parts of a node's line.
#[derive(Debug, PartialEq, Eq)]
struct Short<'a> {
    kind: &'a str,
    guid: &'a str,
    ports: &'a str,
    rest: &'a str,
}

/// Parses a node's line; `None` if the node has another type.
fn short<'a>(line: &'a str, kind: &str) -> Option<Short<'a>> {
    let line = line.starts_with(kind).then_some(line)?;
    let mut words = line.split_whitespace();
    let (kind, ports, label) = (words.next()?, words.next()?, words.next()?);
    let guid = label.get(3..)?;
    let rest = line.split_once('#').map_or(line, |(_, rest)| rest.trim_start_matches([' ', '\t']));
    Some(Short { kind, guid: guid.get(..16).unwrap_or(guid), ports, rest })
}

impl Short<'_> {
    fn text(&self) -> String {
        format!("{}\t: 0x{} ports {} {}", self.kind, self.guid, self.ports, self.rest)
    }

    fn json(&self) -> Value {
        let name = self.rest.split('"').nth(1).unwrap_or(self.rest);
        let mut value = json!({
            "type": self.kind,
            "guid": format!("0x{}", self.guid),
            "ports": self.ports.parse::<u32>().ok(),
            "name": name,
        });
        let lid = self.rest.rsplit_once('"').and_then(|(_, tail)| tail.split_once(" lid "));
        if let Some(lid) = lid.and_then(|(_, tail)| tail.split(' ').next()?.parse::<u16>().ok()) {
            value["lid"] = lid.into();
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_cut_out_of_their_lines() {
        let line = "Switch\t8 \"S-0002c90300100001\"\t\t# \"leaf 2\" enhanced port 0 lid 3 lmc 0";
        assert_eq!(
            short(line, "Switch").unwrap().text(),
            "Switch\t: 0x0002c90300100001 ports 8 \"leaf 2\" enhanced port 0 lid 3 lmc 0"
        );
        assert_eq!(short(line, "Switch").unwrap().json()["lid"], 3);
        let line = "Ca\t1 \"H-0002c9030a000000\"\t\t# \"h00001 HCA-1\"";
        assert_eq!(short(line, "Ca").unwrap().text(), "Ca\t: 0x0002c9030a000000 ports 1 \"h00001 HCA-1\"");
        for line in ["", "Ca", "Ca\t1", "vendid=0x2c9", "Switch 1 \"S-1\""] {
            assert!(short(line, "Ca").is_none(), "{line}");
        }
    }

    #[test]
    fn options_are_words_with_their_values_after_them() {
        let read = |line: &str| read(&line.split(' ').filter(|w| !w.is_empty()).map(str::to_owned).collect::<Vec<_>>());
        let line = read("-C mlx5_0 -P 2 -t 50 --m_key 0x10 --json").unwrap();
        assert_eq!((line.common.ca.as_deref(), line.common.port), (Some("mlx5_0"), 2));
        assert_eq!((line.common.timeout_ms, line.common.m_key, line.common.json), (Some(50), 16, true));
        assert_eq!(read("file").unwrap().file.as_deref(), Some("file"));
        for wrong in ["-h", "-C", "-C -P", "-x", "a b"] {
            assert!(read(wrong).is_none(), "{wrong}");
        }
    }
}
