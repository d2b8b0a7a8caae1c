//! Subnet management packets (IBA 14.2.1): the management datagrams of queue pair 0, routed by LID or directed along a
//! path of ports that the sender specified.
//!
//! ```text
//!   0 | common header; of a directed route: status with the D bit, hop pointer, hop count |
//!  24 | M_Key (8)                                                                         |
//!  32 | DrSLID (2), DrDLID (2), of a directed route; reserved to 63                       |
//!  64 | the attribute (64)                                                                |
//! 128 | initial path (64), of a directed route                                            |
//! 192 | return path (64), of a directed route                                             |
//! ```

use zerocopy::byteorder::big_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute, transmute_mut, transmute_ref};

use crate::mad::{AttrId, Attribute, Class, Mad, MadHeader, Method, Status};

/// The attribute of an SMP.
pub type SmpData = [u8; 64];
/// One of the two paths of a directed route: entry 0 is unused, entry n is the port of hop n.
pub type SmpPath = [u8; 64];

/// Maximum number of hops of a directed route (IBA 14.2.2).
pub const HOPS_MAX: u8 = 63;
/// Class version of subnet management.
pub const CLASS_VERSION: u8 = 1;

/// A subnet management packet. It may be invalid: hop pointer and hop count come from the sender unchecked.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Smp {
    /// The common header.
    pub header: MadHeader,
    mkey: U64,
    dr_slid: U16,
    dr_dlid: U16,
    reserved: [u8; 28],
    /// The attribute.
    pub data: SmpData,
    /// Ports on the outbound path.
    pub initial_path: SmpPath,
    /// Ports on the return path; switches record it on the outbound path.
    pub return_path: SmpPath,
}

const _: () = assert!(size_of::<Smp>() == crate::mad::MAD_LEN);

impl Smp {
    /// Creates a LID-routed request.
    pub fn lid_routed(method: Method, tid: u64, attr_id: AttrId, attr_mod: u32, mkey: u64) -> Smp {
        Smp::new(Class::SUBN_LID_ROUTED, method, tid, attr_id, attr_mod, mkey)
    }

    /// Creates a request along these ports (the sender's own first), directed on the whole way: DrSLID and DrDLID are
    /// the permissive LID. `None` for more than 63 hops.
    pub fn directed(method: Method, tid: u64, attr_id: AttrId, attr_mod: u32, mkey: u64, path: &[u8]) -> Option<Smp> {
        let mut smp = Smp::new(Class::SUBN_DIRECTED_ROUTE, method, tid, attr_id, attr_mod, mkey);
        (smp.dr_slid, smp.dr_dlid) = (crate::lrh::LID_PERMISSIVE.into(), crate::lrh::LID_PERMISSIVE.into());
        smp.initial_path.get_mut(1..=path.len())?.copy_from_slice(path);
        smp.set_hop_count(path.len() as u8);
        Some(smp)
    }

    fn new(class: Class, method: Method, tid: u64, attr_id: AttrId, attr_mod: u32, mkey: u64) -> Smp {
        let header = MadHeader::new(class, CLASS_VERSION, method, tid, attr_id).with_attr_mod(attr_mod);
        Smp {
            header,
            mkey: mkey.into(),
            dr_slid: 0.into(),
            dr_dlid: 0.into(),
            reserved: [0; 28],
            data: [0; 64],
            initial_path: [0; 64],
            return_path: [0; 64],
        }
    }

    /// Interprets a datagram as an SMP; its class is not checked.
    pub fn from_mad(mad: Mad) -> Smp {
        transmute!(mad)
    }
    /// The same, by reference.
    pub fn ref_from_mad(mad: &Mad) -> &Smp {
        transmute_ref!(mad)
    }
    /// The same, by mutable reference.
    pub fn mut_from_mad(mad: &mut Mad) -> &mut Smp {
        transmute_mut!(mad)
    }
    /// Converts to a plain datagram.
    pub fn to_mad(self) -> Mad {
        transmute!(self)
    }

    /// Whether it has a directed route.
    pub fn is_directed(&self) -> bool {
        self.header.class() == Class::SUBN_DIRECTED_ROUTE
    }
    /// Management key.
    pub fn mkey(&self) -> u64 {
        self.mkey.get()
    }
    /// LID at which the directed part starts, or the permissive LID if it starts at the sender.
    pub fn dr_slid(&self) -> u16 {
        self.dr_slid.get()
    }
    /// LID at which the directed part ends, or the permissive LID.
    pub fn dr_dlid(&self) -> u16 {
        self.dr_dlid.get()
    }
    /// Status; without the D bit for a directed route.
    pub fn status(&self) -> Status {
        let status = self.header.status();
        if self.is_directed() { Status(status.0 & !Status::DIRECTION.0) } else { status }
    }
    /// Whether a directed-route SMP is on its way back (the D bit).
    pub fn is_returning(&self) -> bool {
        self.header.status().0 & Status::DIRECTION.0 != 0
    }
    /// Hop pointer: the next entry of the path.
    pub fn hop_pointer(&self) -> u8 {
        self.header.class_specific().to_be_bytes()[0]
    }
    /// Hop count: number of hops of the directed part.
    pub fn hop_count(&self) -> u8 {
        self.header.class_specific().to_be_bytes()[1]
    }

    /// Sets the management key.
    pub fn set_mkey(&mut self, mkey: u64) {
        self.mkey = mkey.into();
    }
    /// Sets the start and end of the directed part.
    pub fn set_dr_lids(&mut self, dr_slid: u16, dr_dlid: u16) {
        (self.dr_slid, self.dr_dlid) = (dr_slid.into(), dr_dlid.into());
    }
    /// Sets the status and keeps the D bit.
    pub fn set_status(&mut self, status: Status) {
        let direction = if self.is_directed() { self.header.status().0 & Status::DIRECTION.0 } else { 0 };
        self.header.set_status(Status(status.0 | direction));
    }
    /// Sets the D bit.
    pub fn set_returning(&mut self, returning: bool) {
        let status = self.header.status().0 & !Status::DIRECTION.0;
        self.header.set_status(Status(if returning { status | Status::DIRECTION.0 } else { status }));
    }
    /// Sets the hop pointer.
    pub fn set_hop_pointer(&mut self, hop_pointer: u8) {
        self.header.set_class_specific(u16::from_be_bytes([hop_pointer, self.hop_count()]));
    }
    /// Sets the hop count.
    pub fn set_hop_count(&mut self, hop_count: u8) {
        self.header.set_class_specific(u16::from_be_bytes([self.hop_pointer(), hop_count]));
    }

    /// Reads its attribute as one of this type.
    pub fn attribute<A: Attribute>(&self) -> Option<A> {
        A::read(&self.data)
    }
    /// Writes an attribute into it, with zeros after it.
    pub fn set_attribute<A: Attribute>(&mut self, attribute: &A) {
        self.data = [0; 64];
        attribute.write(&mut self.data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_specification_puts_them() {
        let mut smp =
            Smp::directed(Method::GET, 0x0102_0304_0506_0708, AttrId(0x11), 5, 0x1122_3344_5566_7788, &[1, 4])
                .expect("two hops");
        smp.set_hop_pointer(1);
        smp.set_returning(true);
        smp.set_status(Status(0x1c));
        smp.set_dr_lids(0x0a0b, 0xffff);
        smp.return_path[1] = 9;
        smp.data[0] = 0xaa;
        let bytes = smp.as_bytes();
        assert_eq!(bytes[..8], [1, 0x81, 1, 1, 0x80, 0x1c, 1, 2]);
        assert_eq!(bytes[24..36], [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x0a, 0x0b, 0xff, 0xff]);
        assert_eq!((bytes[64], &bytes[128..131], &bytes[192..194]), (0xaa, &[0, 1, 4][..], &[0, 9][..]));
        assert_eq!((smp.status(), smp.is_returning(), smp.hop_pointer(), smp.hop_count()), (Status(0x1c), true, 1, 2));
        assert_eq!(Smp::from_mad(smp.to_mad()), smp);
        assert!(Smp::directed(Method::GET, 1, AttrId(0x11), 0, 0, &[1; 63]).is_some());
        assert!(Smp::directed(Method::GET, 1, AttrId(0x11), 0, 0, &[1; 64]).is_none());
    }
}
