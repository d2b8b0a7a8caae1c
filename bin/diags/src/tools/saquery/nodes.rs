//! Queries that combine several kinds of records: nodes by name, groups with their members' names, subnet managers.

use serde_json::{Value, json};

use super::attribute;
use super::options::{Asked, Show};
use super::printers;
use super::query::{Template, capability};
use super::record::{Bytes, Record, Shown, gid_text};
use super::session::Session;
use crate::ib::number::number;
use crate::ib::report::{End, Outcome};

/// PortInfo:CapabilityMask bits: the port has an SM; its SM is disabled.
const IS_SM: u32 = 1 << 1;
const IS_SM_DISABLED: u32 = 1 << 10;
/// The attribute modifier for matching a capability mask bit by bit.
const MATCH_BITS: u32 = 1 << 31;
/// NodeType of a channel adapter.
const CA: u8 = 1;

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
        let name = session.context.names.name(record.u64(16), record.slice(44, 64));
        let lid = record.u16(0);
        let wanted = match choice.show {
            Show::Names => record.u8(6) == CA,
            Show::NameOfLid => choice.number as u16 == lid,
            Show::NameOfGuid => choice.number == record.u64(24),
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
                let guid = format!("0x{:016x}", record.u64(24));
                session.say(&format!("{guid}\n"), guid.clone().into());
            }
            Show::Names => session.say(&format!("{lid:6}  \"{name}\"\n"), json!({"lid": lid, "name": name})),
            Show::NameOfLid | Show::NameOfGuid => session.say(&format!("{name}\n"), name.clone().into()),
        }
    }
    Ok(())
}

/// Whether a node has this name, by its own description or the administrator's map.
fn is_called(wanted: &str, record: Bytes<'_>, name: &str) -> bool {
    let description = record.slice(44, 64);
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
        let node = nodes.records().map(Bytes).find(|node| node.u64(24) == member.u64(24));
        let name = node.map_or_else(
            || "<unknown>".to_owned(),
            |node| session.context.names.name(node.u64(16), node.slice(44, 64)),
        );
        match &choice.name {
            Some(group) => {
                if number(group) == u64::from(member.u16(36)) {
                    let gid = gid_text(member.gid(16));
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
    Record::new("MCMemberRecord member dump:", 24)
        .field("MGID", gid(r.gid(0)))
        .field("Mlid", hex(r.u16(36)))
        .field("PortGid", gid(r.gid(16)))
        .field("ScopeState", hex(r.u8(48)))
        .field("ProxyJoin", hex(r.u8(49) & 1))
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
