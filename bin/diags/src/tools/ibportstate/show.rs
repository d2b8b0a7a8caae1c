//! Querying and printing a port's attributes.

use serde_json::json;

use super::session::{Asked, Session};
use crate::ib::field::{self, Field};
use crate::ib::fields::subn::{mlnx_ext_port_info, port_info as fields};
use crate::ib::port_info::{ExtendedSpeeds, json, lines};
use crate::ib::report::{End, Outcome};
use crate::ib::smp;

/// Fields of every port.
const STATE: &[Field] = &[
    fields::LINK_STATE,
    fields::PHYS_LINK_STATE,
    fields::LID,
    fields::SM_LID,
    fields::LMC,
    fields::LINK_WIDTH_SUPPORTED,
    fields::LINK_WIDTH_ENABLED,
    fields::LINK_WIDTH_ACTIVE,
    fields::LINK_SPEED_SUPPORTED,
    fields::LINK_SPEED_ENABLED,
    fields::LINK_SPEED_ACTIVE,
];
/// Additional fields of ports with extended speeds.
const SPEEDS: &[Field] =
    &[fields::LINK_SPEED_EXT_SUPPORTED, fields::LINK_SPEED_EXT_ENABLED, fields::LINK_SPEED_EXT_ACTIVE];
/// Additional fields of ports with the second set of extended speeds.
const SPEEDS2: &[Field] =
    &[fields::LINK_SPEED_EXT_SUPPORTED2, fields::LINK_SPEED_EXT_ENABLED2, fields::LINK_SPEED_EXT_ACTIVE2];
/// Additional fields of managed ports.
const KEYS: &[Field] = &[fields::MKEY, fields::MKEY_LEASE_PERIOD, fields::PROTECT_BITS];

/// Gets PortInfo; for a switch, port 0 reports the support of extended speeds.
pub fn ask(session: &mut Session<'_>, asked: &mut Asked) -> Outcome<()> {
    let failed = |text: &str| End::Failed { function: "get_port_info", text: text.to_owned() };
    let zero = match asked.is_switch {
        true => {
            let info = session.port.smp_get(&asked.to, smp::PORT_INFO, 0);
            Some(info.map_err(|_| failed("smp query port 0 portinfo failed"))?)
        }
        false => None,
    };
    let info = session.port.smp_get(&asked.to, smp::PORT_INFO, asked.number);
    asked.info = info.map_err(|_| failed("smp query portinfo failed"))?;
    asked.extended_speeds = ExtendedSpeeds::of(&zero.unwrap_or(asked.info));
    Ok(())
}

/// Gets the vendor's ExtendedPortInfo.
pub fn ask_mlnx_ext(session: &mut Session<'_>, asked: &mut Asked) -> Outcome<()> {
    let info = session.port.smp_get(&asked.to, smp::MLNX_EXT_PORT_INFO, asked.number);
    asked.mlnx_ext = info.map_err(|_| End::Failed {
        function: "get_mlnx_ext_port_info",
        text: "smp query ext portinfo failed".to_owned(),
    })?;
    Ok(())
}

/// Prints PortInfo; keeps it under `name` for JSON output.
pub fn tell(session: &mut Session<'_>, asked: &Asked, name: &str) {
    let speeds = if asked.extended_speeds.first { SPEEDS } else { &[] };
    let speeds2 = if asked.extended_speeds.second { SPEEDS2 } else { &[] };
    let keys = if asked.is_switch && asked.number != 0 { &[] } else { KEYS };
    let shown = [STATE, speeds, speeds2, keys].concat();
    let show_keys = session.line.common.show_keys;
    let text = lines(&shown, &asked.info, show_keys);
    session.print(&format!("# Port info: {} port {}\n{text}", asked.to, asked.number));
    let value = json!({
        "address": asked.to.to_string(),
        "port": asked.number,
        "is_switch": asked.is_switch,
        "fields": json(&shown, &asked.info, show_keys),
    });
    session.json.insert(name.to_owned(), value);
}

/// Prints the vendor's ExtendedPortInfo; for JSON output, adds it to the values under `name`.
pub fn tell_mlnx_ext(session: &mut Session<'_>, asked: &Asked, name: &str) {
    let table = mlnx_ext_port_info::ALL;
    let text = field::lines(table, &asked.mlnx_ext);
    session.print(&format!("# MLNX ext Port info: {} port {}\n{text}", asked.to, asked.number));
    if let Some(kept) = session.json.get_mut(name).and_then(|kept| kept.as_object_mut()) {
        kept.insert("mlnx_ext".to_owned(), field::json(table, &asked.mlnx_ext).into());
    }
}
