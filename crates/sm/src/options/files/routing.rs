//! Files that configure routing.

use super::{by_guid, port};
use crate::options::{Diagnostic, Diagnostics, Options, clip, number};
use crate::routing::RoutingOptions;

/// Cost of a link (`hop_weights_file`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopWeight {
    /// GUID of the switch.
    pub switch: u64,
    /// Its port; the weight counts for packets that leave through it.
    pub port: u8,
    /// The weight; usually 1.
    pub weight: u32,
}

/// The contents of all routing files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RoutingFiles {
    /// For the engines.
    pub options: RoutingOptions,
    /// Link weights.
    pub hop_weights: Vec<HopWeight>,
    /// Ports whose load does not count: node GUID and port number.
    pub ignored_ports: Vec<(u64, u8)>,
    /// Numbers that `updn` uses for switches instead of GUIDs.
    pub ids: Vec<(u64, u64)>,
}

/// Parses lines of one GUID.
pub fn guids(text: &str, file: &str) -> (Vec<u64>, Vec<Diagnostic>) {
    by_guid(text, file, "a GUID a line, such as 0x0002c90300100000", |guid, rest| {
        if rest.is_empty() { Ok(guid) } else { Err(format!("{} stands behind a GUID", clip(rest))) }
    })
}

/// Parses lines of switch GUID, port and weight.
pub fn hop_weights(text: &str, file: &str) -> (Vec<HopWeight>, Vec<Diagnostic>) {
    by_guid(text, file, "switch GUID, port number and weight", |switch, rest| {
        let (out, weight) = rest.split_once(|c: char| c.is_whitespace()).ok_or("no port and weight follow the GUID")?;
        let value = number(weight.trim())?;
        let weight = u32::try_from(value).ok().filter(|weight| (1..=255).contains(weight));
        Ok(HopWeight { switch, port: port(out)?, weight: weight.ok_or("a weight is from 1 to 255")? })
    })
}

/// Parses lines of switch GUID and port numbers.
pub fn port_orders(text: &str, file: &str) -> (Vec<(u64, Vec<u8>)>, Vec<Diagnostic>) {
    by_guid(text, file, "switch GUID and port numbers, each once", |switch, rest| {
        let mut ports: Vec<u8> = Vec::new();
        for word in rest.split_whitespace() {
            let number = port(word)?;
            if ports.contains(&number) {
                return Err(format!("port {number} stands twice"));
            }
            ports.push(number);
        }
        if ports.is_empty() { Err("no ports follow the GUID".to_owned()) } else { Ok((switch, ports)) }
    })
}

/// Parses lines of node GUID and port number.
pub fn ignored_ports(text: &str, file: &str) -> (Vec<(u64, u8)>, Vec<Diagnostic>) {
    by_guid(text, file, "node GUID and port number", |node, rest| Ok((node, port(rest)?)))
}

/// Parses lines of GUID and number.
pub fn ids(text: &str, file: &str) -> (Vec<(u64, u64)>, Vec<Diagnostic>) {
    by_guid(text, file, "switch GUID and number", |guid, rest| Ok((guid, number(rest)?)))
}

/// Reads all routing options and their files; `read` fetches the text of a file, or says why it cannot.
pub fn routing(
    options: &Options,
    read: &mut dyn FnMut(&str) -> Result<String, String>,
) -> (RoutingFiles, Vec<Diagnostic>) {
    let said = &options.routing;
    let mut reader = Reader { read, diagnostics: Vec::new() };
    let lanes_max = match options.device.max_op_vls {
        code @ 1..=4 => 1 << (code - 1),
        _ => 15,
    };
    let engine = RoutingOptions {
        root_guids: reader.file(&said.root_guid_file, guids),
        cn_guids: reader.file(&said.cn_guid_file, guids),
        io_guids: reader.file(&said.io_guid_file, guids),
        max_reverse_hops: u8::try_from(said.max_reverse_hops).unwrap_or(u8::MAX),
        connect_roots: said.connect_roots,
        guid_routing_order: reader.file(&said.guid_routing_order_file, guids),
        guid_routing_order_no_scatter: said.guid_routing_order_no_scatter,
        scatter_ports: said.scatter_ports,
        port_shifting: said.port_shifting,
        lanes_max,
        lash_start_vl: said.lash_start_vl,
        do_mesh_analysis: said.do_mesh_analysis,
        nue_max_num_vls: said.nue_max_num_vls,
        nue_include_switches: said.nue_include_switches,
        dimn_ports: reader.file(&said.port_search_ordering_file, port_orders),
        torus_config: if said.engines().0.contains(&"torus-2QoS") {
            reader.text(&said.torus_config)
        } else {
            String::new()
        },
        lfts_file: reader.text(&said.lfts_file),
        ..RoutingOptions::default()
    };
    let files = RoutingFiles {
        options: engine,
        hop_weights: reader.file(&said.hop_weights_file, hop_weights),
        ignored_ports: reader.file(&said.port_prof_ignore_file, ignored_ports),
        ids: reader.file(&said.ids_guid_file, ids),
    };
    (files, reader.diagnostics)
}

/// Parses a file's text into values and diagnostics; the second argument names the file.
type Parser<T> = fn(&str, &str) -> (Vec<T>, Vec<Diagnostic>);

struct Reader<'a> {
    read: &'a mut dyn FnMut(&str) -> Result<String, String>,
    diagnostics: Vec<Diagnostic>,
}

impl Reader<'_> {
    fn text(&mut self, path: &Option<String>) -> String {
        let Some(path) = path else { return String::new() };
        match (self.read)(path) {
            Ok(text) => text,
            Err(why) => {
                let mut diagnostics = Diagnostics::of(path);
                diagnostics.error((0, 0), format!("cannot be read: {why}"), "routing goes on as if it were empty");
                self.diagnostics.extend(diagnostics.into_list());
                String::new()
            }
        }
    }

    fn file<T>(&mut self, path: &Option<String>, parse: Parser<T>) -> Vec<T> {
        let text = self.text(path);
        let (values, diagnostics) = parse(&text, path.as_deref().unwrap_or(""));
        self.diagnostics.extend(diagnostics);
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_mistakes_said() {
        let (found, diagnostics) = guids("# roots\n0x10\n 0x11 # second\nspine1\n0x12 0x13\n", "roots");
        assert_eq!(found, [0x10, 0x11]);
        let said: Vec<_> = diagnostics.iter().map(ToString::to_string).collect();
        let fix = "write a GUID a line, such as 0x0002c90300100000";
        assert_eq!(said[0], format!("roots:4:1: error: spine1 is not a number; the line is passed over; {fix}"));
        assert_eq!(said.len(), 2);
        let (found, diagnostics) = hop_weights("0x10 3 7\n0x10 0 1\n0x10 3\n0x10 3 999", "w");
        assert_eq!((found, diagnostics.len()), (vec![HopWeight { switch: 0x10, port: 3, weight: 7 }], 3));
        let (found, diagnostics) = port_orders("0x10 3 1 2\n0x11 1 1\n0x12", "o");
        assert_eq!((found, diagnostics.len()), (vec![(0x10, vec![3, 1, 2])], 2));
        assert_eq!(ignored_ports("0x10 3", "i").0, [(0x10, 3)]);
        assert_eq!(ids("0x10 1007", "i").0, [(0x10, 1007)]);
    }

    #[test]
    fn options_and_files_make_routing() {
        let text =
            "root_guid_file /r\ncn_guid_file /gone\nport_search_ordering_file /o\nmax_op_vls 3\nscatter_ports 8\n";
        let (options, _) = crate::options::parse(text, "f", Options::default());
        let mut read = |path: &str| match path {
            "/r" => Ok("0x10\n".to_owned()),
            "/o" => Ok("0x10 2 1\n".to_owned()),
            _ => Err("no such file".to_owned()),
        };
        let (files, diagnostics) = routing(&options, &mut read);
        assert_eq!((files.options.root_guids, files.options.lanes_max), (vec![0x10], 4));
        assert_eq!((files.options.dimn_ports, files.options.scatter_ports), (vec![(0x10, vec![2, 1])], 8));
        assert_eq!(diagnostics.len(), 1);
        assert!(diagnostics[0].to_string().starts_with("/gone: error: cannot be read: no such file"));
    }
}
