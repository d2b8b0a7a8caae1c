//! Classes that use the reliable multi-packet protocol, and where their data begins.

use super::Class;
use super::sa::SaMad;
use super::vendor::VendorMad;

/// Returns the offset in the datagram at which a class's data begins when it uses the protocol; every segment repeats
/// the bytes before it. `None` for classes that do not use it.
pub fn data_offset(class: Class) -> Option<usize> {
    match class {
        Class::SUBN_ADM => Some(SaMad::DATA_AT),
        Class::DEV_MGT | Class::DEV_ADM | Class::BIS => Some(64),
        Class(0x30..=0x4f) => Some(VendorMad::DATA_AT),
        _ => None,
    }
}
