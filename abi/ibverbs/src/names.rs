//! Names of values: statuses, events, states, node types. Tools print them and scripts search for them, so they equal
//! rdma-core's.

use crate::operations::WR_OPCODES;
use libc::c_char;
use std::ffi::CStr;

const WC_STATUS: [&CStr; 24] = [
    c"success",
    c"local length error",
    c"local QP operation error",
    c"local EE context operation error",
    c"local protection error",
    c"Work Request Flushed Error",
    c"memory management operation error",
    c"bad response error",
    c"local access error",
    c"remote invalid request error",
    c"remote access error",
    c"remote operation error",
    c"transport retry counter exceeded",
    c"RNR retry counter exceeded",
    c"local RDD violation error",
    c"remote invalid RD request",
    c"aborted error",
    c"invalid EE context number",
    c"invalid EE context state",
    c"fatal error",
    c"response timeout error",
    c"general error",
    c"TM error",
    c"TM software rendezvous",
];

const EVENT_TYPES: [&CStr; 21] = [
    c"CQ error",
    c"local work queue catastrophic error",
    c"invalid request local work queue error",
    c"local access violation work queue error",
    c"communication established",
    c"send queue drained",
    c"path migrated",
    c"path migration request error",
    c"local catastrophic error",
    c"port active",
    c"port error",
    c"LID change",
    c"P_Key change",
    c"SM change",
    c"SRQ catastrophic error",
    c"SRQ limit reached",
    c"last WQE reached",
    c"client reregistration",
    c"GID table change",
    c"WQ fatal",
    c"device speed change",
];

const PORT_STATES: [&CStr; 6] = [c"no state change (NOP)", c"down", c"init", c"armed", c"active", c"active defer"];

/// Names of node types from 1 on.
const NODE_TYPES: [&CStr; 7] = [
    c"InfiniBand channel adapter",
    c"InfiniBand switch",
    c"InfiniBand router",
    c"iWARP NIC",
    c"usNIC",
    c"usNIC UDP",
    c"unspecified",
];

const UNKNOWN: &CStr = c"unknown";

fn name(names: &[&'static CStr], index: usize, unknown: &'static CStr) -> *const c_char {
    names.get(index).copied().unwrap_or(unknown).as_ptr()
}

/// Returns the meaning of a completion status.
pub extern "C" fn ibv_wc_status_str(status: u32) -> *const c_char {
    name(&WC_STATUS, status as usize, UNKNOWN)
}

/// Returns the meaning of an asynchronous event.
pub extern "C" fn ibv_event_type_str(event: u32) -> *const c_char {
    name(&EVENT_TYPES, event as usize, UNKNOWN)
}

/// Returns the meaning of a port state.
pub extern "C" fn ibv_port_state_str(port_state: u32) -> *const c_char {
    name(&PORT_STATES, port_state as usize, UNKNOWN)
}

/// Returns the name of a node type.
pub extern "C" fn ibv_node_type_str(node_type: i32) -> *const c_char {
    match usize::try_from(node_type) {
        Ok(n @ 1..) => name(&NODE_TYPES, n - 1, UNKNOWN),
        _ => UNKNOWN.as_ptr(),
    }
}

/// Returns the name of a send operation's constant.
pub extern "C" fn ibv_wr_opcode_str(opcode: u32) -> *const c_char {
    name(&WR_OPCODES, opcode as usize, c"IBV_WR_UNKNOWN")
}
