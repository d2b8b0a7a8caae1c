//! Queries that combine several kinds of records: nodes by name, groups with their members' names, subnet managers.

use serde_json::{Value, json};
use weft_wire::mad::sa::{McMemberRecord, NodeRecord};
use weft_wire::mad::subn::{NodeInfo, NodeType};
use weft_wire::span;

use super::attribute;
use super::options::{Asked, Show};
use super::printers;
use super::query::{Template, capability};
use super::record::{Bytes, Record, Shown, gid_text};
use super::session::Session;
use crate::ib::names::NodeNames;
use crate::ib::number::number;
use crate::ib::report::{End, Outcome};

/// PortInfo:CapabilityMask bits: the port has an SM; its SM is disabled.
const IS_SM: u32 = 1 << 1;
const IS_SM_DISABLED: u32 = 1 << 10;
/// The attribute modifier for matching a capability mask bit by bit.
const MATCH_BITS: u32 = 1 << 31;

/// The nodes to show, and their attributes to show.
#[derive(Debug)]
pub struct Choice {
    show: Show,
    name: Option<String>,
    number: u64,
}

impl Choice {
    /// Reads the choice from the options and the first operand.
    ///
    /// # Errors
    /// An operand is missing or invalid; the error is already printed.
    pub fn of(asked: &Asked, operands: &[String]) -> Outcome<Choice> {
        let first = operands.first();
        let wrong = |what: &str| {
            crate::errln!("ERROR: {what}");
            Err(End::Usage)
        };
        let by_number = matches!(asked.show, Show::NameOfLid | Show::NameOfGuid);
        let named = first.filter(|_| !by_number);
        let value = first.map_or(0, |text| number(text));
        match asked.show {
            Show::Lids | Show::Lid | Show::Guids if named.is_none() => return wrong("name not specified"),
            Show::NameOfLid if first.is_none() => return wrong("lid not specified"),
            Show::NameOfGuid if first.is_none() => return wrong("guid not specified"),
            Show::NameOfLid if value as u16 == 0 => return wrong("lid invalid"),
            _ => {}
        }
        Ok(Choice { show: asked.show, name: named.cloned(), number: value })
    }
}

/// Shows the chosen nodes.
///
/// # Errors
/// The query failed; the error is already printed.
pub fn nodes(session: &mut Session<'_>, choice: &Choice) -> Outcome<()> {
    let answer = session.table(attribute::NODE, 0, &Template::default())?;
    if choice.show == Show::Names {
        session.say("   LID \"name\"\n================\n", Value::Null);
    }
    for record in answer.records().map(Bytes) {
        let (name, info) = (name_of(record, &session.context.names), record.part(span!(NodeRecord.node_info)));
        let lid = record.get(span!(NodeRecord.lid));
        let wanted = match choice.show {
            Show::Names => info.get(span!(NodeInfo.node_type)) == u64::from(NodeType::CA.0),
            Show::NameOfLid => u64::from(choice.number as u16) == lid,
            Show::NameOfGuid => choice.number == info.get(span!(NodeInfo.port_guid)),
            _ => choice.name.as_ref().is_none_or(|wanted| is_called(wanted, record, &name)),
        };
        if !wanted {
            continue;
        }
        match choice.show {
            Show::All => session.show(printers::node, record)?,
            Show::Lids => session.say(&format!("{lid}\n"), lid.into()),
            Show::Lid => {
                session.say(&format!("{lid}\n"), lid.into());
                return Ok(());
            }
            Show::Guids => {
                let guid = format!("0x{:016x}", info.get(span!(NodeInfo.port_guid)));
                session.say(&format!("{guid}\n"), guid.clone().into());
            }
            Show::Names => session.say(&format!("{lid:6}  \"{name}\"\n"), json!({"lid": lid, "name": name})),
            Show::NameOfLid | Show::NameOfGuid => session.say(&format!("{name}\n"), name.clone().into()),
        }
    }
    Ok(())
}

/// The name of a NodeRecord's node, by the administrator's map or its own description.
fn name_of(record: Bytes<'_>, names: &NodeNames) -> String {
    let guid = record.part(span!(NodeRecord.node_info)).get(span!(NodeInfo.node_guid));
    names.name(guid, record.part(span!(NodeRecord.node_description)).0)
}

/// The GUID of a NodeRecord's port.
fn port_guid(record: Bytes<'_>) -> u64 {
    record.part(span!(NodeRecord.node_info)).get(span!(NodeInfo.port_guid))
}

/// The last 64 bits of a member's GID: the GUID of its port.
fn interface_id(member: Bytes<'_>) -> u64 {
    let gid = member.gid(span!(McMemberRecord.port_gid));
    u128::from_be_bytes(gid) as u64
}

/// Whether a node has this name, by its own description or the administrator's map.
fn is_called(wanted: &str, record: Bytes<'_>, name: &str) -> bool {
    let description = record.part(span!(NodeRecord.node_description)).0;
    let len = description.iter().position(|&b| b == 0).unwrap_or(description.len());
    wanted.as_bytes() == &description[..len] || wanted == name
}

/// Shows the ports with an SM, and those with a disabled SM.
///
/// # Errors
/// The query failed; the error is already printed.
pub fn managers(session: &mut Session<'_>) -> Outcome<()> {
    let ports = |session: &mut Session<'_>, title: &str, bit: u32| {
        let answer = session.table(attribute::PORT_INFO, MATCH_BITS, &capability(bit))?;
        session.say(title, Value::Null);
        answer.records().try_for_each(|record| session.show(printers::port_info_short, Bytes(record)))
    };
    ports(session, "IsSM ports\n", IS_SM)?;
    ports(session, "\nIsSMdisabled ports\n", IS_SM_DISABLED)
}

/// Shows the members of multicast groups, with the names of their nodes.
///
/// # Errors
/// The query failed; the error is already printed.
pub fn members(session: &mut Session<'_>, choice: &Choice) -> Outcome<()> {
    let members = session.table(attribute::MEMBER, 0, &Template::default())?;
    let nodes = session.table(attribute::NODE, 0, &Template::default())?;
    for member in members.records().map(Bytes) {
        let node = nodes.records().map(Bytes).find(|node| port_guid(*node) == interface_id(member));
        let name = node.map_or_else(|| "<unknown>".to_owned(), |node| name_of(node, &session.context.names));
        match &choice.name {
            Some(group) => {
                if number(group) == member.get(span!(McMemberRecord.mlid)) {
                    let gid = gid_text(member.gid(span!(McMemberRecord.port_gid)));
                    let text = format!("\t\tPortGid.................{gid} ({name})\n");
                    session.say(&text, json!({"PortGid": gid, "NodeDescription": name}));
                }
            }
            None => {
                let record = member_record(member, name);
                session.say(&record.text(), record.json());
            }
        }
    }
    Ok(())
}

fn member_record(r: Bytes<'_>, name: String) -> Record {
    use super::record::{gid, hex};
    let scope_state = span!(McMemberRecord.scope).through(span!(McMemberRecord.join_state));
    Record::new("MCMemberRecord member dump:", 24)
        .field("MGID", gid(r.gid(span!(McMemberRecord.mgid))))
        .field("Mlid", hex(r.get(span!(McMemberRecord.mlid))))
        .field("PortGid", gid(r.gid(span!(McMemberRecord.port_gid))))
        .field("ScopeState", hex(r.get(scope_state)))
        .field("ProxyJoin", hex(r.get(printers::PROXY_JOIN)))
        .field("NodeDescription", Shown::Text(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told() {
        let asked = |show| Asked { show, ..Asked::default() };
        assert!(Choice::of(&asked(Show::Lid), &[]).is_err());
        assert!(Choice::of(&asked(Show::NameOfLid), &["0".to_owned()]).is_err());
        let choice = Choice::of(&asked(Show::NameOfLid), &["0x2".to_owned()]).unwrap();
        assert_eq!((choice.number, choice.name), (2, None));
    }
}
