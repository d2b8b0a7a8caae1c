//! The neighbours of IPoIB interfaces, beside those that the kernel knows.

use std::fmt::Write;
use std::net::IpAddr;

use serde_json::Value;
use weft_ipc::{Client, IpoibInterface, IpoibNeighbour, IpoibNeighbourState};

use super::words::Words;
use crate::commands::iproute;
use crate::commands::run::interfaces::address_text;

/// Width of the column of addresses and of interfaces with `-brief`.
const IP_WIDTH: usize = 39;
const NAME_WIDTH: usize = 16;

/// A neighbour to show.
pub struct Neighbour {
    /// The interface's name, unless the user named it.
    device: Option<String>,
    neighbour: IpoibNeighbour,
}

impl Neighbour {
    fn state(&self) -> &'static str {
        match self.neighbour.state {
            IpoibNeighbourState::Reachable => "REACHABLE",
            IpoibNeighbourState::Stale => "STALE",
            IpoibNeighbourState::Probe => "PROBE",
            IpoibNeighbourState::Incomplete => "INCOMPLETE",
        }
    }
}

/// Finds the neighbours that the command shows; `None` if it selects them in a way that only the system's knows.
pub fn find(client: &mut Client, interfaces: &[IpoibInterface], words: &Words) -> Option<Vec<Neighbour>> {
    let (mut device, mut state) = (None, None);
    let mut rest = words.rest.iter().skip(1);
    while let Some(word) = rest.next() {
        match word.as_str() {
            "dev" => device = Some(rest.next()?),
            "nud" => state = Some(rest.next()?.to_uppercase()),
            _ => return None,
        }
    }
    let mut found = Vec::new();
    for interface in interfaces.iter().filter(|one| device.is_none_or(|device| *device == one.name)) {
        let family = |ip: IpAddr| if ip.is_ipv4() { 4 } else { 6 };
        let all = client.ipoib_neighbours(interface.ifindex).unwrap_or_default();
        let wanted = all.into_iter().filter(|one| words.family.is_none_or(|wanted| wanted == family(one.ip)));
        let named =
            wanted.map(|neighbour| Neighbour { device: device.is_none().then(|| interface.name.clone()), neighbour });
        found.extend(named.filter(|one| state.as_ref().is_none_or(|state| state == "ALL" || state == one.state())));
    }
    Some(found)
}

/// Adds neighbours to the output of the system's command.
pub fn add(output: &str, neighbours: &[Neighbour], words: &Words) -> String {
    match words.json {
        _ if neighbours.is_empty() => output.to_owned(),
        true => add_json(output, neighbours, words.pretty),
        false => neighbours.iter().fold(output.to_owned(), |out, one| out + &line(one, words.brief)),
    }
}

fn line(one: &Neighbour, brief: bool) -> String {
    let address = one.neighbour.address.as_ref().map(address_text);
    let mut out = String::new();
    if brief {
        let device = one.device.as_ref().map(|name| format!("{name:<NAME_WIDTH$} ")).unwrap_or_default();
        let ip = one.neighbour.ip.to_string();
        let _ = writeln!(out, "{ip:<IP_WIDTH$} {device}{}", address.unwrap_or_default());
        return out;
    }
    let device = one.device.as_ref().map(|name| format!("dev {name} ")).unwrap_or_default();
    let address = address.map(|address| format!("lladdr {address} ")).unwrap_or_default();
    let _ = writeln!(out, "{} {device}{address}{} ", one.neighbour.ip, one.state());
    out
}

fn add_json(output: &str, neighbours: &[Neighbour], pretty: bool) -> String {
    let object = |one: &Neighbour| {
        let mut members = vec![("dst", Value::from(one.neighbour.ip.to_string()))];
        members.extend(one.device.as_ref().map(|name| ("dev", Value::from(name.as_str()))));
        members.extend(one.neighbour.address.as_ref().map(|address| ("lladdr", Value::from(address_text(address)))));
        members.push(("state", Value::from(vec![one.state()])));
        members
    };
    let objects: Vec<iproute::Members> = neighbours.iter().map(object).collect();
    let ours = iproute::json(&objects, pretty);
    let (before, after) = if pretty { ("[ ", " ]") } else { ("[", "]") };
    let theirs = output.trim_end().strip_prefix(before).and_then(|list| list.strip_suffix(after));
    match theirs.filter(|list| !list.is_empty()) {
        Some(theirs) => format!("{before}{theirs},{}", ours.strip_prefix(before).unwrap_or(&ours)),
        None => ours,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn neighbour(address: bool) -> Neighbour {
        let address = address.then_some([0xfe; 20]);
        let state = if address.is_some() { IpoibNeighbourState::Stale } else { IpoibNeighbourState::Incomplete };
        let neighbour = IpoibNeighbour { ip: [10, 0, 0, 2].into(), address, state };
        Neighbour { device: Some("ib0".to_owned()), neighbour }
    }

    #[test]
    fn lines_and_objects_have_the_form_of_ip() {
        let address = ["fe"; 20].join(":");
        assert_eq!(line(&neighbour(true), false), format!("10.0.0.2 dev ib0 lladdr {address} STALE \n"));
        assert_eq!(line(&neighbour(false), false), "10.0.0.2 dev ib0 INCOMPLETE \n");
        let brief = format!("10.0.0.2                                ib0              {address}\n");
        assert_eq!(line(&neighbour(true), true), brief);
        let object = r#"{"dst":"10.0.0.2","dev":"ib0","state":["INCOMPLETE"]}"#;
        assert_eq!(add_json("[]\n", &[neighbour(false)], false), format!("[{object}]\n"));
        assert_eq!(add_json("[{\"a\":1}]\n", &[neighbour(false)], false), format!("[{{\"a\":1}},{object}]\n"));
    }
}
