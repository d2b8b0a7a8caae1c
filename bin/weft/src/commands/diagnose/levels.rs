//! Service levels of paths. The service level decides which VL a packet takes, and senders get it from subnet
//! administration, so the checks query it there too.

use std::collections::BTreeMap;

use weft_diags::ib::address::PortId;
use weft_diags::ib::mad::GET_TABLE;
use weft_diags::ib::port::Port;
use weft_diags::ib::sa::{PATH_RECORD, Query, SaError};
use weft_diags::ibnet::Kind;

use super::survey::Survey;
use crate::errno;

/// PathRecord's component mask: SLID.
const PATH_SLID: u64 = 1 << 5;
/// Byte offsets of DLID, SLID and SL in a PathRecord.
const DLID_AT: usize = 40;
const SLID_AT: usize = 42;
const SL_AT: usize = 53;
/// Answer timeout.
const TIMEOUT_MS: u32 = 20_000;
/// Up to this many paths, every source is queried; with more, only one adapter at each switch.
const PATHS_MAX: usize = 1 << 18;
/// Marks a pair of LIDs without a path.
const NONE: u8 = u8::MAX;

/// Source of the service levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Levels {
    /// One level for all paths, given by the user.
    Given(u8),
    /// One level for all paths, assumed because subnet administration gave none; with the reason.
    Assumed(u8, String),
    /// Levels from subnet administration's path records.
    Told(Table),
}

/// The service level of each path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// By source LID, then by destination LID.
    pub levels: BTreeMap<u16, Vec<u8>>,
    /// LIDs of adapters that were not queried, each with the queried LID at the same switch that stands in for it.
    pub stand_ins: BTreeMap<u16, u16>,
}

impl Levels {
    /// The service level of the path between two LIDs; `None` if there is no path.
    pub fn of(&self, from: u16, to: u16) -> Option<u8> {
        match self {
            Levels::Given(level) | Levels::Assumed(level, _) => Some(*level),
            Levels::Told(table) => {
                let asked = table.stand_ins.get(&from).unwrap_or(&from);
                table.levels.get(asked)?.get(usize::from(to)).copied().filter(|level| *level != NONE)
            }
        }
    }

    /// Short description of the source.
    pub fn source(&self) -> String {
        match self {
            Levels::Given(level) => format!("SL {level}"),
            Levels::Assumed(level, _) => format!("SL {level} assumed"),
            Levels::Told(table) if table.stand_ins.is_empty() => "SLs of path records".to_owned(),
            Levels::Told(table) => format!("SLs of path records from {} ports", table.levels.len()),
        }
    }

    /// Queries subnet administration.
    pub fn ask(survey: &Survey, port: &mut Port, sm: Option<PortId>) -> Levels {
        let told = match sm.filter(|sm| sm.lid != 0) {
            Some(sm) => ask(survey, port, &sm),
            None => Err("this port knows of no subnet manager".to_owned()),
        };
        told.map_or_else(|why| Levels::Assumed(0, why), Levels::Told)
    }
}

fn ask(survey: &Survey, port: &mut Port, sm: &PortId) -> Result<Table, String> {
    let mut table = Table { levels: BTreeMap::new(), stand_ins: stand_ins(survey) };
    let hosts = hosts(survey).into_iter().map(|(lid, _)| lid);
    for lid in hosts.filter(|lid| !table.stand_ins.contains_key(lid)).collect::<Vec<_>>() {
        table.levels.insert(lid, ask_from(port, sm, lid)?);
    }
    if table.levels.values().flatten().all(|level| *level == NONE) {
        return Err("subnet administration knows of no path".to_owned());
    }
    Ok(table)
}

/// LIDs of adapters, each with the switch that it is attached to.
fn hosts(survey: &Survey) -> Vec<(u16, usize)> {
    let ends = survey.ends().into_iter().filter(|(_, end)| survey.fabric.node(end.node).kind != Kind::SWITCH);
    ends.filter_map(|(lid, end)| Some((lid, survey.fabric.port(end)?.remote?.node))).collect()
}

fn stand_ins(survey: &Survey) -> BTreeMap<u16, u16> {
    let hosts = hosts(survey);
    if hosts.len() * hosts.len() <= PATHS_MAX {
        return BTreeMap::new();
    }
    let mut first = BTreeMap::new();
    let stands = hosts.into_iter().map(|(lid, switch)| (lid, *first.entry(switch).or_insert(lid)));
    stands.filter(|(lid, first)| lid != first).collect()
}

/// Service levels of all paths from a port, indexed by destination LID.
fn ask_from(port: &mut Port, sm: &PortId, lid: u16) -> Result<Vec<u8>, String> {
    let mut data = [0; 64];
    data[SLID_AT..SLID_AT + 2].copy_from_slice(&lid.to_be_bytes());
    let (method, attribute, component_mask) = (GET_TABLE, PATH_RECORD, PATH_SLID);
    let query = Query { method, attribute, component_mask, data: &data, ..Query::default() };
    let answer = port.sa_query(sm, &query, TIMEOUT_MS).map_err(|error| match error {
        SaError::Send(error) | SaError::Recv(error) => format!("subnet administration: {}", errno::text(&error)),
        SaError::Status(_) => format!("subnet administration at LID {} does not answer", sm.lid),
    })?;
    if answer.status != 0 {
        return Err(format!("subnet administration refuses path records: status 0x{:04x}", answer.status));
    }
    let mut levels = Vec::new();
    for record in answer.records().filter(|record| record.len() > SL_AT) {
        let to = usize::from(u16::from_be_bytes([record[DLID_AT], record[DLID_AT + 1]]));
        levels.resize(levels.len().max(to + 1), NONE);
        levels[to] = record[SL_AT] & 0xf;
    }
    Ok(levels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_not_asked_about_has_the_levels_of_one_beside_it() {
        let levels = BTreeMap::from([(4, vec![NONE, 0, NONE, NONE, NONE, 3])]);
        let told = Levels::Told(Table { levels, stand_ins: BTreeMap::from([(5, 4)]) });
        assert_eq!((told.of(4, 1), told.of(5, 5), told.of(4, 2), told.of(4, 9), told.of(6, 1)), {
            (Some(0), Some(3), None, None, None)
        });
        assert_eq!(Levels::Given(2).of(1, 9), Some(2));
    }
}
