//! Ports: state, speed, P_Keys.

use libc::c_int;
use weft_abi_types::{
    _compat_ibv_port_attr, IBV_LINK_LAYER_ETHERNET, IBV_LINK_LAYER_INFINIBAND, IBV_MTU_4096, IBV_PORT_CM_SUP,
    IBV_PORT_DEVICE_MGMT_SUP, IBV_PORT_IP_BASED_GIDS, IBV_QPF_GRH_REQUIRED, be16, ibv_context, ibv_port_attr,
};
use weft_verbs::{
    DEFAULT_PKEY, DeviceAttr, GID_TABLE_LEN, IbPortAttr, MSG_SIZE_MAX, Mtu, PKEY_TABLE_LEN, PortAttr, PortState,
};

use crate::context::Context;
use crate::errors::{code, fail_minus_one};
use crate::object::zeroed;

/// Length that the exported call may write: the structure's size when the call was frozen.
const OLD_PORT_ATTR_LEN: usize = 48;

/// `phys_state` of IBA 14.2.5.6.
const PHYS_DISABLED: u8 = 3;
const PHYS_LINK_UP: u8 = 5;

/// The fastest speed that fits in eight bits.
const SPEED_NDR: u8 = 128;

/// Interface speeds, each up to this many Mbit/s: width code and lane speed code of IBA 14.2.5.6.
const SPEEDS: [(u32, u8, u8); 10] = [
    (1_000, 1, 1),
    (10_000, 1, 8),
    (20_000, 2, 2),
    (25_000, 1, 32),
    (40_000, 2, 8),
    (50_000, 16, 32),
    (100_000, 2, 32),
    (200_000, 2, 64),
    (400_000, 2, 128),
    (u32::MAX, 8, 128),
];

/// Rows of an RNIC's GID table: its port has no address but the hardware's.
const RNIC_GID_TABLE_LEN: c_int = 1;

/// Width and speed of an RNIC's port: Linux's siw reports 1x and 2.5 Gb/s, whatever its interface has.
const RNIC_LINK: (u8, u8, u32) = (1, 1, 1);

/// Assumed speed of an interface that does not know its own (the loopback, a tunnel).
const SPEED_UNKNOWN_MBPS: u32 = 1_000;

/// Describes a port on a fabric.
fn describe_fabric(port: &PortAttr, fabric: &IbPortAttr) -> ibv_port_attr {
    let mut attr: ibv_port_attr = zeroed();
    attr.state = u32::from(fabric.state);
    attr.max_mtu = Mtu::at_most(usize::from(fabric.max_mtu)).unwrap_or(Mtu::Mtu4096) as u32;
    attr.active_mtu = port.active_mtu as u32;
    attr.gid_tbl_len = fabric.gid_rows as c_int;
    attr.port_cap_flags = fabric.capabilities;
    attr.port_cap_flags2 = fabric.capabilities2;
    attr.max_msg_sz = MSG_SIZE_MAX;
    attr.bad_pkey_cntr = u32::from(fabric.pkey_violations);
    attr.qkey_viol_cntr = u32::from(fabric.qkey_violations);
    attr.pkey_tbl_len = fabric.pkeys.len() as u16;
    attr.lid = fabric.lid;
    attr.sm_lid = fabric.sm_lid;
    attr.lmc = fabric.lmc;
    attr.max_vl_num = fabric.vl_cap;
    attr.sm_sl = fabric.sm_sl;
    attr.subnet_timeout = fabric.subnet_timeout;
    attr.init_type_reply = fabric.init_type_reply;
    attr.active_width = fabric.active_width;
    attr.active_speed = u8::try_from(fabric.active_speed).unwrap_or(SPEED_NDR);
    attr.active_speed_ex = u32::from(fabric.active_speed);
    attr.phys_state = fabric.phys_state;
    let link_layer = if fabric.is_ethernet { IBV_LINK_LAYER_ETHERNET } else { IBV_LINK_LAYER_INFINIBAND };
    attr.link_layer = link_layer as u8;
    if fabric.is_ethernet {
        attr.flags = IBV_QPF_GRH_REQUIRED;
    }
    attr
}

fn describe(port: &PortAttr) -> ibv_port_attr {
    if let Some(fabric) = &port.infiniband {
        return describe_fabric(port, fabric);
    }
    let mbps = port.link_speed_mbps.unwrap_or(SPEED_UNKNOWN_MBPS);
    let (_, width, speed) = SPEEDS.into_iter().find(|(at_most, ..)| mbps <= *at_most).unwrap_or(SPEEDS[0]);
    let mut attr: ibv_port_attr = zeroed();
    attr.state = port.state as u32;
    attr.max_mtu = IBV_MTU_4096;
    attr.active_mtu = port.active_mtu as u32;
    attr.gid_tbl_len = GID_TABLE_LEN as c_int;
    attr.port_cap_flags = IBV_PORT_IP_BASED_GIDS;
    attr.max_msg_sz = MSG_SIZE_MAX;
    attr.pkey_tbl_len = PKEY_TABLE_LEN;
    attr.max_vl_num = 1;
    attr.active_width = width;
    attr.active_speed = speed;
    attr.active_speed_ex = u32::from(speed);
    attr.phys_state = if port.state == PortState::Active { PHYS_LINK_UP } else { PHYS_DISABLED };
    attr.link_layer = IBV_LINK_LAYER_ETHERNET as u8;
    attr.flags = IBV_QPF_GRH_REQUIRED;
    attr
}

/// Changes the attributes that differ at an RNIC's port, as Linux's siw has them.
fn describe_rnic(attr: &mut ibv_port_attr) {
    attr.max_mtu = attr.active_mtu;
    attr.gid_tbl_len = RNIC_GID_TABLE_LEN;
    (attr.pkey_tbl_len, attr.max_vl_num, attr.flags) = (0, 0, 0);
    attr.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_DEVICE_MGMT_SUP;
    (attr.active_width, attr.active_speed, attr.active_speed_ex) = RNIC_LINK;
}

/// Returns the context's device and one of its ports.
fn device_and_port(context: *mut ibv_context, port_num: u32) -> Result<(DeviceAttr, PortAttr), c_int> {
    let number = u8::try_from(port_num).ok().filter(|_| !context.is_null()).ok_or(libc::EINVAL)?;
    // SAFETY: a context of ours.
    let device = unsafe { Context::of(context) }.device_attr()?;
    let port = device.port(number).cloned().ok_or(libc::EINVAL)?;
    Ok((device, port))
}

/// Returns a port of the context's device.
pub(crate) fn port_of(context: *mut ibv_context, port_num: u32) -> Result<PortAttr, c_int> {
    device_and_port(context, port_num).map(|(_, port)| port)
}

fn query(context: *mut ibv_context, port_num: u8, out: *mut u8, len: usize) -> Result<(), c_int> {
    if out.is_null() {
        return Err(libc::EINVAL);
    }
    let (device, port) = device_and_port(context, port_num.into())?;
    let mut attr = describe(&port);
    if device.is_iwarp {
        describe_rnic(&mut attr);
    }
    let known = size_of::<ibv_port_attr>().min(len);
    // SAFETY: the caller has room for `len` bytes; fields that only the caller knows are zero.
    unsafe {
        out.write_bytes(0, len);
        out.copy_from_nonoverlapping((&raw const attr).cast(), known);
    }
    Ok(())
}

pub(crate) unsafe extern "C" fn query_port(
    context: *mut ibv_context,
    port_num: u8,
    attr: *mut ibv_port_attr,
    len: usize,
) -> c_int {
    code(query(context, port_num, attr.cast(), len))
}

/// Returns the attributes of a port. Current programs reach it through the inline of that name, old ones directly.
pub extern "C" fn ibv_query_port(context: *mut ibv_context, port_num: u8, attr: *mut _compat_ibv_port_attr) -> c_int {
    code(query(context, port_num, attr.cast(), OLD_PORT_ATTR_LEN))
}

/// Returns the speed of a port, in units of 100 Mbit/s.
pub unsafe extern "C" fn ibv_query_port_speed(context: *mut ibv_context, port_num: u32, port_speed: *mut u64) -> c_int {
    if port_speed.is_null() {
        return code(Err(libc::EINVAL));
    }
    match port_of(context, port_num) {
        Err(errno) => code(Err(errno)),
        Ok(port) => {
            let mbps = port.link_speed_mbps.unwrap_or(SPEED_UNKNOWN_MBPS);
            // SAFETY: the caller's place for the answer.
            unsafe { *port_speed = u64::from(mbps) / 100 };
            0
        }
    }
}

/// Returns a row of the P_Key table, in network order.
pub unsafe extern "C" fn ibv_query_pkey(
    context: *mut ibv_context,
    port_num: u8,
    index: c_int,
    pkey: *mut be16,
) -> c_int {
    let row = match pkeys(context, port_num) {
        Ok(rows) if !pkey.is_null() => usize::try_from(index).ok().and_then(|index| rows.get(index).copied()),
        Ok(_) => None,
        Err(errno) => return fail_minus_one(errno),
    };
    let Some(row) = row else { return fail_minus_one(libc::EINVAL) };
    // SAFETY: the caller's place for the answer.
    unsafe { *pkey = row.to_be() };
    0
}

/// Returns the P_Key table.
fn pkeys(context: *mut ibv_context, port_num: u8) -> Result<Vec<u16>, c_int> {
    let (device, port) = device_and_port(context, port_num.into())?;
    if device.is_iwarp {
        return Ok(Vec::new());
    }
    let roce = || vec![DEFAULT_PKEY; usize::from(PKEY_TABLE_LEN)];
    Ok(port.infiniband.map_or_else(roce, |fabric| fabric.pkeys))
}

/// Returns the row of a P_Key, given in network order, or -1.
pub extern "C" fn ibv_get_pkey_index(context: *mut ibv_context, port_num: u8, pkey: be16) -> c_int {
    let wanted = u16::from_be(pkey);
    match pkeys(context, port_num).map(|rows| rows.iter().position(|row| *row == wanted)) {
        Ok(Some(row)) => row as c_int,
        Ok(None) => fail_minus_one(libc::EINVAL),
        Err(errno) => fail_minus_one(errno),
    }
}
