//! Vendor classes (IBA 13.4.4 and 16.5): 0x09 to 0x0f, whose data begins after the common header, and 0x30 to 0x4f,
//! which name the vendor by an OUI and can use the multi-packet protocol.
//!
//! ```text
//!  0 | common header (24)       |
//! 24 | multi-packet header (12) |   only 0x30 to 0x4f
//! 36 | reserved (1), OUI (3)    |   only 0x30 to 0x4f
//! 40 | data (216)               |
//! ```

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute, transmute_mut, transmute_ref};

use super::rmpp::RmppHeader;
use super::{AttrId, Class, Mad, MadHeader, Method};

/// OUI of the OpenIB alliance, which owns ping and system status.
pub const OUI_OPENIB: u32 = 0x001405;

impl Class {
    /// First vendor class without OUI.
    pub const VENDOR_FIRST: Class = Class(0x09);
    /// Mellanox's class, which `vendstat` queries.
    pub const VENDOR_MELLANOX: Class = Class(0x0a);
    /// Last vendor class without OUI.
    pub const VENDOR_LAST: Class = Class(0x0f);
    /// First vendor class with OUI.
    pub const VENDOR_OUI_FIRST: Class = Class(0x30);
    /// Ping, of [`OUI_OPENIB`].
    pub const OPENIB_PING: Class = Class(0x32);
    /// System status, of [`OUI_OPENIB`].
    pub const OPENIB_SYSSTAT: Class = Class(0x33);
    /// Last vendor class with OUI.
    pub const VENDOR_OUI_LAST: Class = Class(0x4f);
    /// Device administration.
    pub const DEV_ADM: Class = Class(0x10);
    /// Boot management.
    pub const BOOT_MGT: Class = Class(0x11);
    /// Boot information.
    pub const BIS: Class = Class(0x12);
    /// Congestion control.
    pub const CONGESTION: Class = Class(0x21);

    /// Whether this is a vendor class with OUI.
    pub fn has_oui(self) -> bool {
        (Class::VENDOR_OUI_FIRST.0..=Class::VENDOR_OUI_LAST.0).contains(&self.0)
    }
    /// Whether this is a vendor class without OUI.
    pub fn is_vendor_without_oui(self) -> bool {
        (Class::VENDOR_FIRST.0..=Class::VENDOR_LAST.0).contains(&self.0)
    }
}

/// A datagram of a vendor class with OUI.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct VendorMad {
    /// The common header.
    pub header: MadHeader,
    /// The multi-packet header; zeros if unused.
    pub rmpp: RmppHeader,
    reserved: u8,
    oui: [u8; 3],
    /// The vendor's data.
    pub data: [u8; 216],
}

const _: () = assert!(size_of::<VendorMad>() == super::MAD_LEN);

impl VendorMad {
    /// Offset of the data in the datagram.
    pub const DATA_AT: usize = 40;
    /// Class version.
    pub const CLASS_VERSION: u8 = 1;

    /// Creates a datagram without data.
    pub fn new(class: Class, method: Method, tid: u64, attr_id: AttrId, oui: u32) -> VendorMad {
        let header = MadHeader::new(class, Self::CLASS_VERSION, method, tid, attr_id);
        let mut mad = VendorMad::from_mad(Mad { header, data: [0; super::DATA_LEN] });
        mad.set_oui(oui);
        mad
    }
    /// Interprets a datagram as a vendor's; its class is not checked.
    pub fn from_mad(mad: Mad) -> VendorMad {
        transmute!(mad)
    }
    /// The same, by reference.
    pub fn ref_from_mad(mad: &Mad) -> &VendorMad {
        transmute_ref!(mad)
    }
    /// The same, by mutable reference.
    pub fn mut_from_mad(mad: &mut Mad) -> &mut VendorMad {
        transmute_mut!(mad)
    }
    /// Converts to a plain datagram.
    pub fn to_mad(self) -> Mad {
        transmute!(self)
    }
    /// OUI of the vendor, 24 bits.
    pub fn oui(&self) -> u32 {
        u32::from_be_bytes([0, self.oui[0], self.oui[1], self.oui[2]])
    }
    /// Sets the OUI of the vendor.
    pub fn set_oui(&mut self, oui: u32) {
        let [_, oui @ ..] = oui.to_be_bytes();
        self.oui = oui;
    }
}

/// Returns the text in a vendor's datagram, up to the first zero, as ping and system status have it.
pub fn text(data: &[u8]) -> String {
    String::from_utf8_lossy(data.split(|b| *b == 0).next().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ping_is_what_others_send() {
        let mut mad = VendorMad::new(Class::OPENIB_PING, Method::GET, 1, AttrId(0), OUI_OPENIB);
        mad.data[..5].copy_from_slice(b"node1");
        let bytes = mad.to_mad();
        assert_eq!(bytes.as_bytes()[36..45], [0, 0, 0x14, 0x05, b'n', b'o', b'd', b'e', b'1']);
        assert_eq!((VendorMad::from_mad(bytes).oui(), text(&mad.data)), (OUI_OPENIB, "node1".to_owned()));
        assert!(Class::OPENIB_PING.has_oui() && !Class::VENDOR_MELLANOX.has_oui());
        assert!(Class::VENDOR_MELLANOX.is_vendor_without_oui());
    }
}
