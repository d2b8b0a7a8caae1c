//! Datagrams of the classes whose data begins at byte 64: performance, device and baseboard management.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute, transmute_mut, transmute_ref};

use super::{AttrId, Attribute, Class, Mad, MadHeader, Method};

/// Header, 40 bytes that the class may use, and 192 bytes of data.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct ServiceMad {
    /// The common header.
    pub header: MadHeader,
    /// What stands between: of some classes a multi-packet header or a key.
    pub reserved: [u8; 40],
    /// The attribute.
    pub data: [u8; 192],
}

const _: () = assert!(size_of::<ServiceMad>() == super::MAD_LEN);

impl ServiceMad {
    /// Where the data begins.
    pub const DATA_AT: usize = 64;

    /// A datagram without data.
    pub fn new(class: Class, method: Method, tid: u64, attr_id: AttrId, attr_mod: u32) -> ServiceMad {
        let header = MadHeader::new(class, 1, method, tid, attr_id).with_attr_mod(attr_mod);
        ServiceMad { header, reserved: [0; 40], data: [0; 192] }
    }
    /// The datagram read as one; its class is not looked at.
    pub fn from_mad(mad: Mad) -> ServiceMad {
        transmute!(mad)
    }
    /// The same, in place.
    pub fn ref_from_mad(mad: &Mad) -> &ServiceMad {
        transmute_ref!(mad)
    }
    /// The same, to be changed in place.
    pub fn mut_from_mad(mad: &mut Mad) -> &mut ServiceMad {
        transmute_mut!(mad)
    }
    /// The datagram.
    pub fn to_mad(self) -> Mad {
        transmute!(self)
    }
    /// Its attribute, read as one of this type.
    pub fn attribute<A: Attribute>(&self) -> Option<A> {
        A::read(&self.data)
    }
    /// Write an attribute into it; what the attribute does not fill is zeros.
    pub fn set_attribute<A: Attribute>(&mut self, attribute: &A) {
        self.data = [0; 192];
        attribute.write(&mut self.data);
    }
}
