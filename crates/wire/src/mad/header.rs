//! The header common to all management datagrams (IBA 13.4.3):
//!
//! ```text
//! | base version  |  mgmt class   | class version |R|   method    |
//! |            status             |        class specific         |
//! |                    transaction ID (8 bytes)                   |
//! |         attribute ID          |           reserved            |
//! |                      attribute modifier                       |
//! ```

use std::fmt;

use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Management class; unknown values survive.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Hash, Debug)]
#[repr(transparent)]
pub struct Class(pub u8);

impl Class {
    /// Subnet management, routed by LID.
    pub const SUBN_LID_ROUTED: Class = Class(0x01);
    /// Subnet administration.
    pub const SUBN_ADM: Class = Class(0x03);
    /// Performance management.
    pub const PERF: Class = Class(0x04);
    /// Baseboard management.
    pub const BM: Class = Class(0x05);
    /// Device management.
    pub const DEV_MGT: Class = Class(0x06);
    /// Communication management.
    pub const CM: Class = Class(0x07);
    /// SNMP tunnelling.
    pub const SNMP: Class = Class(0x08);
    /// Subnet management, directed route.
    pub const SUBN_DIRECTED_ROUTE: Class = Class(0x81);

    /// Whether this is subnet management of either route: such datagrams are SMPs and travel between queue pairs 0.
    pub fn is_subn(self) -> bool {
        matches!(self, Class::SUBN_LID_ROUTED | Class::SUBN_DIRECTED_ROUTE)
    }
}

/// Method; unknown values survive. The top bit marks a response.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Hash, Debug)]
#[repr(transparent)]
pub struct Method(pub u8);

impl Method {
    /// Request for an attribute.
    pub const GET: Method = Method(0x01);
    /// Change of an attribute.
    pub const SET: Method = Method(0x02);
    /// A datagram that requires no response by the rules of its class; the CM sends nothing else.
    pub const SEND: Method = Method(0x03);
    /// Notification of an event.
    pub const TRAP: Method = Method(0x05);
    /// Request for every row of a table (subnet administration).
    pub const GET_TABLE: Method = Method(0x12);
    /// Request for a trace through the fabric (subnet administration).
    pub const GET_TRACE_TABLE: Method = Method(0x13);
    /// Request that itself takes several datagrams (subnet administration).
    pub const GET_MULTI: Method = Method(0x14);
    /// Removal of a record (subnet administration).
    pub const DELETE: Method = Method(0x15);
    /// Forwarded event.
    pub const REPORT: Method = Method(0x06);
    /// Acknowledgement of a trap.
    pub const TRAP_REPRESS: Method = Method(0x07);
    /// Response to Get or Set.
    pub const GET_RESP: Method = Method(0x81);
    /// Response to Report.
    pub const REPORT_RESP: Method = Method(0x86);
    /// Response to GetTable.
    pub const GET_TABLE_RESP: Method = Method(0x92);
    /// Response to GetMulti.
    pub const GET_MULTI_RESP: Method = Method(0x94);
    /// Response to Delete.
    pub const DELETE_RESP: Method = Method(0x95);

    /// The bit that marks a response.
    pub const RESPONSE_BIT: u8 = 0x80;

    /// Returns the method of the response to this one: GetResp for Set (IBA 13.4.5), otherwise the same method with the
    /// response bit. TrapRepress has no response, so its result is meaningless.
    pub fn response(self) -> Method {
        match self {
            Method::SET => Method::GET_RESP,
            Method::TRAP => Method::TRAP_REPRESS,
            other => Method(other.0 | Self::RESPONSE_BIT),
        }
    }

    /// Whether the response bit is set.
    pub fn is_response(self) -> bool {
        self.0 & Self::RESPONSE_BIT != 0
    }
}

/// Status; unknown values survive. The low five bits are common to all classes, the upper eight are class-specific.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Status(pub u16);

impl Status {
    /// No error.
    pub const SUCCESS: Status = Status(0);
    /// Busy; the datagram was dropped.
    pub const BUSY: Status = Status(0x01);
    /// The request must go to the redirection target.
    pub const REDIRECT: Status = Status(0x02);
    /// Base version, class, or class version is not supported.
    pub const BAD_VERSION: Status = Status(1 << 2);
    /// The method is not supported.
    pub const BAD_METHOD: Status = Status(2 << 2);
    /// The method is not supported for this attribute.
    pub const BAD_METHOD_ATTRIBUTE: Status = Status(3 << 2);
    /// A field of attribute or modifier has an invalid value.
    pub const INVALID_FIELD: Status = Status(7 << 2);
    /// In a directed-route SMP: it is on its way back (IBA 14.2.1.2). Not part of the actual status.
    pub const DIRECTION: Status = Status(0x8000);

    /// Returns the bits that all classes share: busy, redirect and the invalid field code.
    pub fn common(self) -> Status {
        Status(self.0 & 0x1f)
    }
    /// Returns the class-specific bits.
    pub fn class_bits(self) -> u8 {
        (self.0 >> 8) as u8
    }
}

/// Attribute ID; its meaning depends on the class. Unknown values survive.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttrId(pub u16);

impl fmt::Debug for AttrId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AttrId(0x{:04x})", self.0)
    }
}

/// The common header.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct MadHeader {
    base_version: u8,
    class: Class,
    class_version: u8,
    method: Method,
    status: U16,
    class_specific: U16,
    tid: U64,
    attr_id: U16,
    reserved: U16,
    attr_mod: U32,
}

const _: () = assert!(size_of::<MadHeader>() == MadHeader::LEN);

impl MadHeader {
    /// Length in bytes.
    pub const LEN: usize = 24;
    /// The only base version.
    pub const BASE_VERSION: u8 = 1;

    /// Creates a header with status 0, class-specific 0 and modifier 0.
    pub fn new(class: Class, class_version: u8, method: Method, tid: u64, attr_id: AttrId) -> MadHeader {
        MadHeader {
            base_version: Self::BASE_VERSION,
            class,
            class_version,
            method,
            status: 0.into(),
            class_specific: 0.into(),
            tid: tid.into(),
            attr_id: attr_id.0.into(),
            reserved: 0.into(),
            attr_mod: 0.into(),
        }
    }

    /// Base version.
    pub fn base_version(&self) -> u8 {
        self.base_version
    }
    /// Management class.
    pub fn class(&self) -> Class {
        self.class
    }
    /// Version of the class.
    pub fn class_version(&self) -> u8 {
        self.class_version
    }
    /// Method, including the response bit.
    pub fn method(&self) -> Method {
        self.method
    }
    /// Status.
    pub fn status(&self) -> Status {
        Status(self.status.get())
    }
    /// The class-specific field.
    pub fn class_specific(&self) -> u16 {
        self.class_specific.get()
    }
    /// Transaction ID.
    pub fn tid(&self) -> u64 {
        self.tid.get()
    }
    /// Attribute ID.
    pub fn attr_id(&self) -> AttrId {
        AttrId(self.attr_id.get())
    }
    /// Attribute modifier.
    pub fn attr_mod(&self) -> u32 {
        self.attr_mod.get()
    }
    /// Changes the method.
    pub fn set_method(&mut self, method: Method) {
        self.method = method;
    }
    /// Changes the status.
    pub fn set_status(&mut self, status: Status) {
        self.status = status.0.into();
    }
    /// Changes the transaction ID.
    pub fn set_tid(&mut self, tid: u64) {
        self.tid = tid.into();
    }
    /// Changes the attribute.
    pub fn set_attr_id(&mut self, attr_id: AttrId) {
        self.attr_id = attr_id.0.into();
    }
    /// Changes the class-specific field.
    pub fn set_class_specific(&mut self, value: u16) {
        self.class_specific = value.into();
    }
    /// Changes the attribute modifier.
    pub fn set_attr_mod(&mut self, attr_mod: u32) {
        self.attr_mod = attr_mod.into();
    }
    /// Returns the header with this base version, for deliberately invalid datagrams.
    pub fn with_base_version(mut self, base_version: u8) -> MadHeader {
        self.base_version = base_version;
        self
    }
    /// Returns the header with this status.
    pub fn with_status(mut self, status: Status) -> MadHeader {
        self.status = status.0.into();
        self
    }
    /// Returns the header with this class-specific field.
    pub fn with_class_specific(mut self, value: u16) -> MadHeader {
        self.class_specific = value.into();
        self
    }
    /// Returns the header with this attribute modifier.
    pub fn with_attr_mod(mut self, attr_mod: u32) -> MadHeader {
        self.attr_mod = attr_mod.into();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_specification_puts_them() {
        let header = MadHeader::new(Class::CM, 2, Method::SEND, 0x0102_0304_0506_0708, AttrId(0x0010))
            .with_status(Status::INVALID_FIELD)
            .with_class_specific(0xabcd)
            .with_attr_mod(0x1122_3344);
        let bytes = [1, 7, 2, 3, 0, 0x1c, 0xab, 0xcd, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0x10, 0, 0, 0x11, 0x22, 0x33, 0x44];
        assert_eq!(header.as_bytes(), bytes);
        assert_eq!((header.class(), header.method(), header.attr_id()), (Class::CM, Method::SEND, AttrId(0x10)));
        assert_eq!((header.tid(), header.attr_mod()), (0x0102_0304_0506_0708, 0x1122_3344));
        assert!(Method::GET_RESP.is_response() && !Method::SEND.is_response());
    }
}
