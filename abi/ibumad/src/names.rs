//! Names of management classes, methods, attributes and status values (IBA 13.4, 14.2, 15.2).

use libc::c_char;
use std::ffi::CStr;

type Names = &'static [(u16, &'static CStr)];

const UNKNOWN: &CStr = c"<unknown>";

const CLASS_SUBN_LID: u8 = 0x01;
const CLASS_SUBN_DIRECTED: u8 = 0x81;
const CLASS_SUBN_ADM: u8 = 0x03;
const CLASS_CM: u8 = 0x07;

const CLASSES: Names = &[
    (CLASS_SUBN_LID as u16, c"Subn"),
    (CLASS_SUBN_DIRECTED as u16, c"Subn"),
    (CLASS_SUBN_ADM as u16, c"SubnAdm"),
    (0x04, c"Perf"),
    (0x05, c"BM"),
    (0x06, c"DevMgt"),
    (CLASS_CM as u16, c"ComMgt"),
    (0x08, c"SNMP"),
    (0x10, c"DevAdm"),
    (0x11, c"BootMgt"),
    (0x12, c"BIS"),
    (0x21, c"CongestionManagment"),
];

const METHODS: Names = &[
    (0x01, c"Get"),
    (0x02, c"Set"),
    (0x81, c"GetResp"),
    (0x03, c"Send"),
    (0x05, c"Trap"),
    (0x06, c"Report"),
    (0x86, c"ReportResp"),
    (0x07, c"TrapRepress"),
];

const SA_METHODS: Names = &[
    (0x12, c"GetTable"),
    (0x92, c"GetTableResp"),
    (0x13, c"GetTraceTable"),
    (0x14, c"GetMulti"),
    (0x94, c"GetMultiResp"),
    (0x15, c"Delete"),
    (0x95, c"DeleteResp"),
];

const ATTRIBUTES: Names = &[(0x01, c"Class Port Info"), (0x02, c"Notice"), (0x03, c"Inform Info")];

const SM_ATTRIBUTES: Names = &[
    (0x10, c"NodeDescription"),
    (0x11, c"NodeInfo"),
    (0x12, c"SwitchInfo"),
    (0x14, c"GUIDInfo"),
    (0x15, c"PortInfo"),
    (0x16, c"P_KeyTable"),
    (0x17, c"SLtoVLMappingTable"),
    (0x18, c"VLArbitrationTable"),
    (0x19, c"LinearForwardingTable"),
    (0x1a, c"RandomForwardingTable"),
    (0x1b, c"MulticastForwardingTable"),
    (0x20, c"SMInfo"),
    (0x30, c"VendorDiag"),
    (0x31, c"LedInfo"),
    (0x1c, c"LinkSpeedWidthPairsTable"),
    (0x1d, c"VendorSpecificMadsTable"),
    (0x1e, c"HierarchyInfo"),
    (0x32, c"CableInfo"),
    (0x33, c"PortInfoExtended"),
];

const SA_ATTRIBUTES: Names = &[
    (0x11, c"NodeRecord"),
    (0x12, c"PortInfoRecord"),
    (0x13, c"SLtoVLMappingTableRecord"),
    (0x14, c"SwitchInfoRecord"),
    (0x15, c"LinearForwardingTableRecord"),
    (0x16, c"RandomForwardingTableRecord"),
    (0x17, c"MulticastForwardingTableRecord"),
    (0x18, c"SMInfoRecord"),
    (0xf3, c"InformInfoRecord"),
    (0x20, c"LinkRecord"),
    (0x30, c"GuidInfoRecord"),
    (0x31, c"ServiceRecord"),
    (0x33, c"P_KeyTableRecord"),
    (0x35, c"PathRecord"),
    (0x36, c"VLArbitrationTableRecord"),
    (0x38, c"MCMemberRecord"),
    (0x39, c"TraceRecord"),
    (0x3a, c"MultiPathRecord"),
    (0x3b, c"ServiceAssociationRecord"),
    (0x19, c"LinkSpeedWidthPairsTableRecord"),
    (0x3c, c"HierarchyInfoRecord"),
    (0x3d, c"CableInfoRecord"),
    (0x3e, c"PortInfoExtendedRecord"),
];

const CM_ATTRIBUTES: Names = &[
    (0x10, c"ConnectRequest"),
    (0x11, c"MsgRcptAck"),
    (0x12, c"ConnectReject"),
    (0x13, c"ConnectReply"),
    (0x14, c"ReadyToUse"),
    (0x15, c"DisconnectRequest"),
    (0x16, c"DisconnectReply"),
    (0x17, c"ServiceIDResReq"),
    (0x18, c"ServiceIDResReqResp"),
    (0x19, c"LoadAlternatePath"),
    (0x1a, c"AlternatePathResponse"),
    (0x1b, c"SuggestAlternatePath"),
    (0x1c, c"SuggestPathResponse"),
];

/// The low byte of a status, in steps of four: the code of an invalid field (IBA 13.4.7).
const INVALID_FIELDS: Names = &[
    (1, c"Bad Version"),
    (2, c"Method not supported"),
    (3, c"Method/Attribute combo not supported"),
    (7, c"Invalid attribute/modifier field"),
];

const SA_STATUS: Names = &[
    (0, c"Success"),
    (1, c"No Resources"),
    (2, c"Request Invalid"),
    (3, c"No Records"),
    (4, c"Too Many Records"),
    (5, c"Invalid GID"),
    (6, c"Insufficient Components"),
    (7, c"Request Denied"),
    (8, c"Priority Suggested"),
];

fn find(names: Names, value: u16) -> Option<&'static CStr> {
    names.iter().find(|(v, _)| *v == value).map(|(_, name)| *name)
}

/// Returns the name of a management class.
pub extern "C" fn umad_class_str(mgmt_class: u8) -> *const c_char {
    let name = match mgmt_class {
        0x09..=0x0f | 0x30..=0x4f => c"Vendor",
        0x22..=0x2f => c"Application",
        _ => find(CLASSES, u16::from(mgmt_class)).unwrap_or(UNKNOWN),
    };
    name.as_ptr()
}

/// Returns the name of a method of a class.
pub extern "C" fn umad_method_str(mgmt_class: u8, method: u8) -> *const c_char {
    let method = u16::from(method);
    let own = if mgmt_class == CLASS_SUBN_ADM { find(SA_METHODS, method) } else { None };
    own.or_else(|| find(METHODS, method)).unwrap_or(UNKNOWN).as_ptr()
}

/// Returns the name of an attribute of a class; the ID is in network order.
pub extern "C" fn umad_attribute_str(mgmt_class: u8, attr_id: u16) -> *const c_char {
    let id = u16::from_be(attr_id);
    let own = match mgmt_class {
        CLASS_SUBN_LID | CLASS_SUBN_DIRECTED => find(SM_ATTRIBUTES, id),
        CLASS_SUBN_ADM => find(SA_ATTRIBUTES, id),
        CLASS_CM => find(CM_ATTRIBUTES, id),
        _ => None,
    };
    own.or_else(|| find(ATTRIBUTES, id)).unwrap_or(UNKNOWN).as_ptr()
}

/// Returns the meaning of a status's class-independent part; the status is in network order.
pub extern "C" fn umad_common_mad_status_str(status: u16) -> *const c_char {
    let status = u16::from_be(status) & 0xff;
    let name = if status & 1 != 0 {
        c"Busy"
    } else if status & 2 != 0 {
        c"Redirection required"
    } else {
        find(INVALID_FIELDS, (status >> 2) & 7).unwrap_or(c"Success")
    };
    name.as_ptr()
}

/// Returns the meaning of a status's subnet administration part; the status is in network order.
pub extern "C" fn umad_sa_mad_status_str(status: u16) -> *const c_char {
    find(SA_STATUS, u16::from_be(status) >> 8).unwrap_or(c"Undefined Error").as_ptr()
}
