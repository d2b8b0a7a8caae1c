//! Attribute IDs of records that options select.

pub const CLASS_PORT_INFO: u16 = 0x01;
pub const INFORM_INFO: u16 = 0xf3;
pub const LINK: u16 = 0x20;
pub const MEMBER: u16 = 0x38;
pub const NODE: u16 = 0x11;
pub const PATH: u16 = 0x35;
pub const PORT_INFO: u16 = 0x12;
pub const SERVICE: u16 = 0x31;
pub const SWITCH_INFO: u16 = 0x14;
