//! Actions of a page, as JSON, and the daemon's requests for them.

use serde::Deserialize;
use weft_ipc::fabric::{CableChange, FabricRequest, NodeChange, PortName};

use crate::limits::NAME_BYTES_MAX;

/// An action of a person.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// A change of the fabric, and a sentence about it for the log.
    Fabric(FabricRequest, String),
    /// A sweep of the subnet by its manager.
    Sweep,
    /// A measurement of the quality of the manager's routes.
    Routing,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
enum Wish {
    Cable { a: End, b: Option<End>, change: Change },
    Node { name: String, change: Power },
    Drop { ppm: u32 },
    Sweep,
    Routing,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    node: String,
    port: u8,
}

#[derive(Deserialize)]
#[serde(tag = "to", rename_all = "lowercase", deny_unknown_fields)]
enum Change {
    Cut,
    Join,
    Flap { ms: u32 },
    Degrade { lanes: Option<u8>, speed: Option<String> },
    Mend,
    Errors { ppm: u32 },
    Drop { ppm: u32 },
}

#[derive(Deserialize)]
#[serde(tag = "to", rename_all = "lowercase", deny_unknown_fields)]
enum Power {
    Off,
    On,
    Reboot { ms: u32 },
    Agent { silent: bool, ms: u32 },
}

impl Action {
    /// Parses an action.
    ///
    /// # Errors
    /// It is malformed; the text is for the page.
    pub fn parse(body: &[u8]) -> Result<Action, String> {
        let wish: Wish = serde_json::from_slice(body).map_err(|error| format!("malformed action: {error}"))?;
        Ok(match wish {
            Wish::Cable { a, b, change } => {
                let (a, b) = (a.checked()?, b.map(End::checked).transpose()?);
                let spell = |end: &PortName| format!("{}:{}", end.node, end.port);
                let cable = b.as_ref().map_or(spell(&a), |b| format!("{} - {}", spell(&a), spell(b)));
                let (change, done) = change.request();
                Action::Fabric(FabricRequest::Cable { a, b, change }, format!("{done} {cable}"))
            }
            Wish::Node { name, change } => {
                let name = checked(name)?;
                let (change, done) = change.request();
                let text = format!("{done} {name}");
                Action::Fabric(FabricRequest::Node { name, change }, text)
            }
            Wish::Drop { ppm } => Action::Fabric(
                FabricRequest::Drop { ppm },
                format!("drop {ppm} ppm of management datagrams everywhere"),
            ),
            Wish::Sweep => Action::Sweep,
            Wish::Routing => Action::Routing,
        })
    }
}

impl End {
    fn checked(self) -> Result<PortName, String> {
        Ok(PortName { node: checked(self.node)?, port: self.port })
    }
}

fn checked(name: String) -> Result<String, String> {
    if name.len() > NAME_BYTES_MAX { Err("malformed action: the name is too long".to_owned()) } else { Ok(name) }
}

impl Change {
    fn request(self) -> (CableChange, String) {
        let text = match &self {
            Change::Cut => "cut".to_owned(),
            Change::Join => "join".to_owned(),
            Change::Flap { ms } => format!("flap for {ms} ms:"),
            Change::Degrade { .. } => "limit".to_owned(),
            Change::Mend => "repair".to_owned(),
            Change::Errors { ppm } => format!("damage {ppm} ppm of packets on"),
            Change::Drop { ppm } => format!("drop {ppm} ppm of management datagrams on"),
        };
        let change = match self {
            Change::Cut => CableChange::Cut,
            Change::Join => CableChange::Join,
            Change::Flap { ms } => CableChange::Flap { down_ms: ms },
            Change::Degrade { lanes, speed } => CableChange::Degrade { lanes, speed },
            Change::Mend => CableChange::Mend,
            Change::Errors { ppm } => CableChange::Errors { ppm },
            Change::Drop { ppm } => CableChange::Drop { ppm },
        };
        (change, text)
    }
}

impl Power {
    fn request(self) -> (NodeChange, String) {
        match self {
            Power::Off => (NodeChange::Off, "power off".to_owned()),
            Power::On => (NodeChange::On, "power on".to_owned()),
            Power::Reboot { ms } => (NodeChange::Reboot { down_ms: ms }, format!("power off for {ms} ms:")),
            Power::Agent { silent, ms } => {
                let text = match (silent, ms) {
                    (true, _) => "silence the agents of".to_owned(),
                    (false, 0) => "restore the agents of".to_owned(),
                    (false, ms) => format!("delay by {ms} ms the agents of"),
                };
                (NodeChange::Agent { silent, delay_ms: ms, guid: None, ports: None }, text)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(node: &str, port: u8) -> PortName {
        PortName { node: node.to_owned(), port }
    }

    #[test]
    fn actions_are_requests_of_the_daemon() {
        let cut =
            br#"{"kind":"cable","a":{"node":"leaf1","port":3},"b":{"node":"node3","port":1},"change":{"to":"cut"}}"#;
        let request = FabricRequest::Cable { a: port("leaf1", 3), b: Some(port("node3", 1)), change: CableChange::Cut };
        assert_eq!(Action::parse(cut), Ok(Action::Fabric(request, "cut leaf1:3 - node3:1".to_owned())));
        let errors = br#"{"kind":"cable","a":{"node":"leaf1","port":3},"b":null,"change":{"to":"errors","ppm":9}}"#;
        let request = FabricRequest::Cable { a: port("leaf1", 3), b: None, change: CableChange::Errors { ppm: 9 } };
        assert_eq!(Action::parse(errors), Ok(Action::Fabric(request, "damage 9 ppm of packets on leaf1:3".to_owned())));
        let off = br#"{"kind":"node","name":"spine1","change":{"to":"off"}}"#;
        let request = FabricRequest::Node { name: "spine1".to_owned(), change: NodeChange::Off };
        assert_eq!(Action::parse(off), Ok(Action::Fabric(request, "power off spine1".to_owned())));
        assert_eq!(Action::parse(br#"{"kind":"sweep"}"#), Ok(Action::Sweep));
    }

    #[test]
    fn malformed_actions_are_refused() {
        let long = format!(r#"{{"kind":"node","name":"{}","change":{{"to":"off"}}}}"#, "n".repeat(NAME_BYTES_MAX + 1));
        for wrong in [
            "",
            "{}",
            "[]",
            r#"{"kind":"fly"}"#,
            r#"{"kind":"node","name":7,"change":{"to":"off"}}"#,
            r#"{"kind":"node","name":"a","change":{"to":"explode"}}"#,
            r#"{"kind":"cable","a":{"node":"leaf1","port":300},"change":{"to":"cut"}}"#,
            r#"{"kind":"cable","a":{"node":"leaf1","port":3},"change":{"to":"errors","ppm":-1}}"#,
            r#"{"kind":"drop","ppm":4294967296}"#,
            long.as_str(),
        ] {
            assert!(Action::parse(wrong.as_bytes()).unwrap_err().starts_with("malformed action"), "{wrong}");
        }
    }
}
