//! Datagrams of the classes whose data begins at byte 64: performance, device and baseboard management.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute, transmute_mut, transmute_ref};

use super::{AttrId, Attribute, Class, Mad, MadHeader, Method};

/// Header, 40 class-specific bytes, and 192 bytes of data.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct ServiceMad {
    /// The common header.
    pub header: MadHeader,
    /// Class-specific bytes between header and data: some classes have a multi-packet header or a key here.
    pub reserved: [u8; 40],
    /// The attribute.
    pub data: [u8; 192],
}

const _: () = assert!(size_of::<ServiceMad>() == super::MAD_LEN);

impl ServiceMad {
    /// Offset of the data in the datagram.
    pub const DATA_AT: usize = 64;

    /// Creates a datagram without data.
    pub fn new(class: Class, method: Method, tid: u64, attr_id: AttrId, attr_mod: u32) -> ServiceMad {
        let header = MadHeader::new(class, 1, method, tid, attr_id).with_attr_mod(attr_mod);
        ServiceMad { header, reserved: [0; 40], data: [0; 192] }
    }
    /// Interprets a datagram as one of these classes; its class is not checked.
    pub fn from_mad(mad: Mad) -> ServiceMad {
        transmute!(mad)
    }
    /// The same, by reference.
    pub fn ref_from_mad(mad: &Mad) -> &ServiceMad {
        transmute_ref!(mad)
    }
    /// The same, by mutable reference.
    pub fn mut_from_mad(mad: &mut Mad) -> &mut ServiceMad {
        transmute_mut!(mad)
    }
    /// Converts to a plain datagram.
    pub fn to_mad(self) -> Mad {
        transmute!(self)
    }
    /// Reads its attribute as one of this type.
    pub fn attribute<A: Attribute>(&self) -> Option<A> {
        A::read(&self.data)
    }
    /// Writes an attribute into it, with zeros after it.
    pub fn set_attribute<A: Attribute>(&mut self, attribute: &A) {
        self.data = [0; 192];
        attribute.write(&mut self.data);
    }
}
