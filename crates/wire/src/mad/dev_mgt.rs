//! Device management (IBA 16.3): the I/O unit behind a port, its controllers, and the services of each. The attributes are
//! in the data of a [`ServiceMad`](super::ServiceMad).

use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{AttrId, Attribute, Status, attribute::copy_front};

/// Class version of device management.
pub const CLASS_VERSION: u8 = 1;
/// Services of one [`ServiceEntries`].
pub const ENTRIES: usize = 4;
/// Bytes of a service's name, filled up with zeros.
pub const SERVICE_NAME_LEN: usize = 40;

impl AttrId {
    /// IOUnitInfo.
    pub const IO_UNIT_INFO: AttrId = AttrId(0x0010);
    /// IOControllerProfile; the modifier is the controller's slot.
    pub const IO_CONTROLLER_PROFILE: AttrId = AttrId(0x0011);
    /// ServiceEntries; the modifier has the slot, and the last and first entry.
    pub const SERVICE_ENTRIES: AttrId = AttrId(0x0012);
    /// DiagnosticTimeout.
    pub const DIAGNOSTIC_TIMEOUT: AttrId = AttrId(0x0020);
}

impl Status {
    /// Device management: no controller is in the slot.
    pub const DEV_MGT_NO_CONTROLLER: Status = Status(0x0100);
}

/// State of a slot in [`IoUnitInfo`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    /// No controller is installed.
    Empty = 0x0,
    /// A controller is present.
    Present = 0x1,
    /// The unit has no such slot.
    Missing = 0xf,
}

/// IOUnitInfo (IBA 16.3.3.3):
///
/// ```text
/// |          change ID            | max controllers | 0 ... |D|O|
/// | slot 1 | slot 2 | slot 3 | ... 256 slots of 4 bits         |
/// ```
///
/// D: the unit runs diagnostics; O: it has an option ROM.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct IoUnitInfo {
    /// Changes whenever a controller comes or goes.
    pub change_id: U16,
    /// Number of slots.
    pub max_controllers: u8,
    flags: u8,
    slots: [u8; 128],
}

const _: () = assert!(size_of::<IoUnitInfo>() == 132);

impl IoUnitInfo {
    /// Makes the description of a unit without diagnostics and option ROM, with these slots.
    pub fn new(change_id: u16, slots: &[Slot]) -> IoUnitInfo {
        let mut info = IoUnitInfo { change_id: change_id.into(), ..IoUnitInfo::new_zeroed() };
        info.max_controllers = u8::try_from(slots.len()).unwrap_or(u8::MAX);
        for (index, slot) in slots.iter().enumerate() {
            let shift = if index % 2 == 0 { 4 } else { 0 };
            if let Some(pair) = info.slots.get_mut(index / 2) {
                *pair |= (*slot as u8) << shift;
            }
        }
        info
    }

    /// Returns the state of a slot, which count from 1; `None` for one that the format does not have, or for an unknown
    /// state.
    pub fn slot(&self, number: u8) -> Option<Slot> {
        let index = usize::from(number.checked_sub(1)?);
        let pair = self.slots.get(index / 2)?;
        let state = if index % 2 == 0 { pair >> 4 } else { pair & 0xf };
        [Slot::Empty, Slot::Present, Slot::Missing].into_iter().find(|slot| *slot as u8 == state)
    }
}

/// Messages that a controller exchanges (ControllerOpCapMask).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operations(pub u8);

impl Operations {
    /// SENDs to the controller and from it, and READs and WRITEs by it.
    pub const SEND_AND_RDMA_FROM_CONTROLLER: Operations = Operations(0x01 | 0x02 | 0x08 | 0x20);
}

/// IOControllerProfile (IBA 16.3.3.4).
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct IoControllerProfile {
    /// GUID of the controller.
    pub guid: U64,
    vendor_id: [u8; 3],
    reserved1: u8,
    /// Device of the vendor.
    pub device_id: U32,
    /// Version of the device.
    pub device_version: U16,
    reserved2: U16,
    subsystem_vendor_id: [u8; 3],
    reserved3: u8,
    /// Subsystem of the vendor.
    pub subsystem_id: U32,
    /// Class of I/O.
    pub io_class: U16,
    /// Subclass of I/O.
    pub io_subclass: U16,
    /// Protocol.
    pub protocol: U16,
    /// Version of the protocol.
    pub protocol_version: U16,
    reserved4: U32,
    /// Messages in the send queue.
    pub send_queue_depth: U16,
    reserved5: u8,
    /// READs at a time.
    pub rdma_read_depth: u8,
    /// Longest message in bytes.
    pub send_size: U32,
    /// Longest transfer in bytes.
    pub rdma_size: U32,
    /// Messages that it exchanges.
    pub operations: u8,
    reserved6: u8,
    /// Number of services.
    pub service_entries: u8,
    reserved7: [u8; 9],
    /// Name for people, in UTF-8 filled up with zeros.
    pub id: [u8; 64],
}

const _: () = assert!(size_of::<IoControllerProfile>() == 128);

impl IoControllerProfile {
    /// Makes the profile of a vendor's controller, with zeros in the other fields.
    pub fn new(guid: u64, vendor_id: u32, id: &str) -> IoControllerProfile {
        let [_, vendor @ ..] = vendor_id.to_be_bytes();
        let mut profile =
            IoControllerProfile { guid: guid.into(), vendor_id: vendor, ..IoControllerProfile::new_zeroed() };
        profile.subsystem_vendor_id = vendor;
        // The last byte stays zero: programs print a C string.
        copy_front(&mut profile.id[..63], id.as_bytes());
        profile
    }
}

/// A service of a controller.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct ServiceEntry {
    /// Name, filled up with zeros.
    pub name: [u8; SERVICE_NAME_LEN],
    /// Service identifier.
    pub id: U64,
}

impl ServiceEntry {
    /// Makes an entry; a longer name is cut.
    pub fn new(name: &str, id: u64) -> ServiceEntry {
        let mut entry = ServiceEntry { id: id.into(), ..ServiceEntry::new_zeroed() };
        copy_front(&mut entry.name[..SERVICE_NAME_LEN - 1], name.as_bytes());
        entry
    }
}

/// ServiceEntries (IBA 16.3.3.5): up to four services.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct ServiceEntries {
    /// The services.
    pub entries: [ServiceEntry; ENTRIES],
}

const _: () = assert!(size_of::<ServiceEntries>() == 192);

/// Services that a request for [`ServiceEntries`] asks for: its attribute modifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServiceRange {
    /// Slot of the controller, from 1.
    pub slot: u16,
    /// First entry, from 0.
    pub first: u8,
    /// Last entry.
    pub last: u8,
}

impl ServiceRange {
    /// Reads an attribute modifier.
    pub fn from_modifier(modifier: u32) -> ServiceRange {
        let [high, low, last, first] = modifier.to_be_bytes();
        ServiceRange { slot: u16::from_be_bytes([high, low]), first, last }
    }

    /// Returns the attribute modifier.
    pub fn modifier(self) -> u32 {
        let [high, low] = self.slot.to_be_bytes();
        u32::from_be_bytes([high, low, self.last, self.first])
    }
}

/// DiagnosticTimeout: the longest time of a diagnostic of a controller.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct DiagnosticTimeout {
    /// The time in milliseconds; 0: it has no diagnostic.
    pub max_ms: U32,
}

macro_rules! plain_attributes {
    ($($name:ident = $id:ident, $text:expr;)*) => {
        $(impl Attribute for $name {
            const ID: AttrId = AttrId::$id;
            const NAME: &'static str = $text;
            const SIZE: usize = size_of::<$name>();

            fn read(data: &[u8]) -> Option<Self> {
                $name::read_from_prefix(data).ok().map(|(value, _)| value)
            }
            fn write(&self, data: &mut [u8]) {
                copy_front(data, self.as_bytes());
            }
        })*

        /// Attributes of device management and their names.
        pub const ATTRIBUTES: &[(AttrId, &str)] = &[$((AttrId::$id, $text)),*];
    };
}

plain_attributes! {
    IoUnitInfo = IO_UNIT_INFO, "IOUnitInfo";
    IoControllerProfile = IO_CONTROLLER_PROFILE, "IOControllerProfile";
    ServiceEntries = SERVICE_ENTRIES, "ServiceEntries";
    DiagnosticTimeout = DIAGNOSTIC_TIMEOUT, "DiagnosticTimeout";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_programs_read_them() {
        let unit = IoUnitInfo::new(3, &[Slot::Present, Slot::Missing, Slot::Empty]);
        assert_eq!(unit.as_bytes()[..6], [0, 3, 3, 0, 0x1f, 0]);
        assert_eq!(
            [1, 2, 3, 0].map(|slot| unit.slot(slot)),
            [Some(Slot::Present), Some(Slot::Missing), Some(Slot::Empty), None]
        );
        let mut profile = IoControllerProfile::new(0x0102_0304_0506_0708, 0x00_0257, &"x".repeat(80));
        (profile.io_class, profile.service_entries) = (0x0100.into(), 9);
        let bytes = profile.as_bytes();
        assert_eq!(
            (&bytes[..12], &bytes[28..30], bytes[54]),
            (&[1, 2, 3, 4, 5, 6, 7, 8, 0, 2, 0x57, 0][..], &[1, 0][..], 9)
        );
        assert_eq!((bytes[64], bytes[126], bytes[127]), (b'x', b'x', 0));
        let entry = ServiceEntry::new("SRP.T10:0123456789abcdef", 0xfe);
        assert_eq!((&entry.as_bytes()[..8], entry.as_bytes()[24], entry.as_bytes()[47]), (&b"SRP.T10:"[..], 0, 0xfe));
        let range = ServiceRange { slot: 1, first: 4, last: 7 };
        assert_eq!((range.modifier(), ServiceRange::from_modifier(0x0001_0704)), (0x0001_0704, range));
    }

    #[test]
    fn an_attribute_needs_all_its_bytes() {
        assert!(IoUnitInfo::read(&[0; 131]).is_none() && IoUnitInfo::read(&[0; 192]).is_some());
        let timeout = DiagnosticTimeout { max_ms: 7.into() };
        let mut data = [9; 5];
        timeout.write(&mut data);
        assert_eq!(data, [0, 0, 0, 7, 9]);
    }
}
