//! Operations that print the fields of one attribute.

use super::operation::Query;
use crate::ib::field::{self, Field};
use crate::ib::fields::subn;
use crate::ib::names::clean;
use crate::ib::{port_info, smp};

/// Gets an attribute and prints all its fields under a headline.
fn fields(
    query: &mut Query<'_>,
    attribute: u16,
    number: Option<u32>,
    title: &str,
    table: &[Field],
    failure: &'static str,
) -> Result<(), &'static str> {
    let data = query.port.smp_get(&query.to, attribute, number.unwrap_or(0)).map_err(|_| failure)?;
    let port = number.map_or(String::new(), |number| format!(" port {number}"));
    query.print(&format!("# {title}: {}{port}\n{}", query.to, field::lines(table, &data)));
    if let Some(number) = number {
        query.keep("port", number);
    }
    query.keep("fields", field::json(table, &data));
    Ok(())
}

/// NodeInfo.
pub fn node_info(query: &mut Query<'_>) -> Result<(), &'static str> {
    fields(query, smp::NODE_INFO, None, "Node info", subn::node_info::ALL, "node info query failed")
}

/// NodeDescription.
pub fn node_desc(query: &mut Query<'_>) -> Result<(), &'static str> {
    let info = query.port.smp_get(&query.to, smp::NODE_INFO, 0).map_err(|_| "node info query failed")?;
    let desc = query.port.smp_get(&query.to, smp::NODE_DESC, 0).map_err(|_| "node desc query failed")?;
    let name = query.names.name(subn::node_info::GUID.value(&info), &desc);
    let dots = ".".repeat(32usize.saturating_sub(name.len()).max(1));
    query.print(&format!("Node Description:{dots}{name}\n"));
    query.keep("node_description", clean(&desc));
    query.keep("name", name);
    Ok(())
}

/// PortInfo, with the M_Key hidden.
pub fn port_info(query: &mut Query<'_>) -> Result<(), &'static str> {
    let speeds = if query.line.has('x') { smp::SUPPORTS_EXTENDED_SPEEDS } else { 0 };
    let number = query.number;
    let data = query.port.smp_get(&query.to, smp::PORT_INFO, number | speeds).map_err(|_| "port info query failed")?;
    let show_keys = query.line.common.show_keys;
    let lines = port_info::lines(subn::port_info::ALL, &data, show_keys);
    query.print(&format!("# Port info: {} port {number}\n{lines}", query.to));
    query.keep("port", number);
    query.keep("fields", port_info::json(subn::port_info::ALL, &data, show_keys));
    Ok(())
}

/// PortInfoExtended, if the port supports it.
pub fn port_info_extended(query: &mut Query<'_>) -> Result<(), &'static str> {
    let has = port_info::has_extended(&mut query.port, &query.to, query.number);
    let has = has.map_err(|error| {
        query.names_operation = false;
        error.text()
    })?;
    if !has {
        return Err("port info extended not supported");
    }
    let table = subn::port_info_extended::ALL;
    let failure = "port info extended query failed";
    fields(query, smp::PORT_INFO_EXTENDED, Some(query.number), "Port info Extended", table, failure)
}

/// SwitchInfo.
pub fn switch_info(query: &mut Query<'_>) -> Result<(), &'static str> {
    fields(query, smp::SWITCH_INFO, None, "Switch info", subn::switch_info::ALL, "switch info query failed")
}

/// The vendor's ExtendedPortInfo.
pub fn mlnx_ext_port_info(query: &mut Query<'_>) -> Result<(), &'static str> {
    let table = subn::mlnx_ext_port_info::ALL;
    let failure = "Mellanox ext port info query failed";
    fields(query, smp::MLNX_EXT_PORT_INFO, Some(query.number), "MLNX ext Port info", table, failure)
}
