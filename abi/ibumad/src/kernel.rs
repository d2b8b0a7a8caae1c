//! Adapters that the kernel shows in sysfs.

use libc::{EIO, ENOENT, c_int};
use weft_abi_types::{UMAD_CA_MAX_PORTS, UMAD_CA_NAME_LEN, UMAD_MAX_PORTS};

use crate::adapter::{Ca, Port};
use crate::files;

const CLASS: &str = "/sys/class/infiniband";
const CLASS_MAD: &str = "/sys/class/infiniband_mad";

/// Node types that carry InfiniBand management: adapter, switch, router (IBA 14.2.5.3).
const NODE_TYPES: std::ops::RangeInclusive<u32> = 1..=3;

fn dir_of(ca: &[u8]) -> Result<String, c_int> {
    let name = std::str::from_utf8(ca).map_err(|_| ENOENT)?;
    if name.contains('/') || name.len() >= UMAD_CA_NAME_LEN {
        return Err(ENOENT);
    }
    Ok(format!("{CLASS}/{name}"))
}

/// Returns the names of the adapters, in the system's order.
pub(crate) fn ca_names() -> Result<Vec<Vec<u8>>, c_int> {
    let mut names = files::entries(CLASS)?;
    names.retain(|name| {
        dir_of(name).and_then(|dir| files::number(&format!("{dir}/node_type"))).is_ok_and(|t| NODE_TYPES.contains(&t))
    });
    Ok(names)
}

/// Returns the adapter with this name.
pub(crate) fn ca(name: &[u8]) -> Result<Ca, c_int> {
    let dir = dir_of(name)?;
    let optional = |file: &str| files::text(&format!("{dir}/{file}")).unwrap_or_default();
    let node_type = files::number(&format!("{dir}/node_type"))?;
    let node_guid = files::guid(&format!("{dir}/node_guid"))?;
    let system_guid = files::guid(&format!("{dir}/sys_image_guid"))?;
    let mut ports = Vec::new();
    for entry in files::entries(&format!("{dir}/ports")).map_err(|_| ENOENT)? {
        let number: Option<u8> = std::str::from_utf8(&entry).ok().and_then(|n| n.parse().ok());
        let number = number.filter(|n| usize::from(*n) < UMAD_CA_MAX_PORTS).ok_or(EIO)?;
        ports.push(port(name, number)?);
    }
    ports.sort_by_key(|port| port.number);
    Ok(Ca {
        name: name.to_vec(),
        node_type,
        fw_ver: optional("fw_ver"),
        hw_ver: optional("hw_rev"),
        ca_type: optional("hca_type"),
        node_guid,
        system_guid,
        ports,
    })
}

/// Returns a port; EIO if it cannot be read in full.
pub(crate) fn port(ca: &[u8], number: u8) -> Result<Port, c_int> {
    read_port(&format!("{}/ports/{number}", dir_of(ca)?), number).map_err(|_| EIO)
}

fn read_port(dir: &str, number: u8) -> Result<Port, c_int> {
    let value = |file: &str| files::number(&format!("{dir}/{file}"));
    let gid = files::groups::<8>(&format!("{dir}/gids/0"))?;
    let (prefix, guid) = gid.split_at(4);
    Ok(Port {
        number,
        lid: value("lid")?,
        lmc: value("lid_mask_count")?,
        sm_lid: value("sm_lid")?,
        sm_sl: value("sm_sl")?,
        state: value("state")?,
        phys_state: value("phys_state")?,
        rate: value("rate")?,
        capabilities: value("cap_mask")?,
        gid_prefix: files::join(prefix),
        guid: files::join(guid),
        pkeys: read_pkeys(&format!("{dir}/pkeys"))?,
        link_layer: files::text(&format!("{dir}/link_layer")).unwrap_or_else(|_| b"IB".to_vec()),
    })
}

/// Reads the P_Key table: one file for each row, named by its number.
fn read_pkeys(dir: &str) -> Result<Vec<u16>, c_int> {
    let rows = files::entries(dir)?;
    let rows = rows.iter().filter(|name| name.iter().all(u8::is_ascii_digit)).count();
    if rows == 0 {
        return Err(EIO);
    }
    (0..rows).map(|row| Ok(files::number(&format!("{dir}/{row}"))? as u16)).collect()
}

/// Returns the number N of `/dev/infiniband/umadN` for a port.
pub(crate) fn node_number(ca: &[u8], port: c_int) -> Option<usize> {
    (0..UMAD_MAX_PORTS).find(|n| {
        let dir = format!("{CLASS_MAD}/umad{n}");
        files::text(&format!("{dir}/ibdev")).is_ok_and(|name| name == ca)
            && files::number(&format!("{dir}/port")).is_ok_and(|p| c_int::try_from(p) == Ok(port))
    })
}

/// Returns the version of the kernel interface, or the failed path and its errno.
pub(crate) fn abi_version() -> Result<u32, (String, c_int)> {
    let path = format!("{CLASS_MAD}/abi_version");
    files::number(&path).map_err(|errno| (path, errno))
}
