//! Sense data: the reason of a CHECK CONDITION (SPC-4 §4.5), in fixed format.

/// Bytes of sense data in fixed format.
pub const SENSE_LEN: usize = 18;
/// Response code: current error, fixed format.
const CURRENT_FIXED: u8 = 0x70;

/// Sense key, additional sense code and its qualifier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Sense {
    /// Sense key.
    pub key: u8,
    /// Additional sense code in the high byte, qualifier in the low one.
    pub code: u16,
}

macro_rules! senses {
    ($($name:ident = $key:literal, $code:literal, $text:literal;)*) => {
        impl Sense {
            $(#[doc = $text] pub const $name: Sense = Sense { key: $key, code: $code };)*
        }

        const TEXTS: &[(Sense, &str)] = &[$((Sense { key: $key, code: $code }, $text)),*];
    };
}

senses! {
    NONE = 0x0, 0x0000, "no additional sense information";
    BECOMING_READY = 0x2, 0x0401, "logical unit is in process of becoming ready";
    STOPPED = 0x2, 0x0402, "logical unit not ready, initializing command required";
    WRITE_ERROR = 0x3, 0x0c00, "write error";
    READ_ERROR = 0x3, 0x1100, "unrecovered read error";
    PARAMETER_LIST_LENGTH = 0x5, 0x1a00, "parameter list length error";
    INVALID_OPCODE = 0x5, 0x2000, "invalid command operation code";
    OUT_OF_RANGE = 0x5, 0x2100, "logical block address out of range";
    INVALID_FIELD = 0x5, 0x2400, "invalid field in CDB";
    NO_UNIT = 0x5, 0x2500, "logical unit not supported";
    INVALID_PARAMETER = 0x5, 0x2600, "invalid field in parameter list";
    INVALID_UNIT_FIELD = 0x5, 0x0e03, "invalid field in command information unit";
    TARGET_FAILURE = 0x4, 0x4400, "internal target failure";
    NO_SAVING = 0x5, 0x3900, "saving parameters not supported";
    POWER_ON = 0x6, 0x2900, "power on, reset, or bus device reset occurred";
    UNIT_RESET = 0x6, 0x2903, "bus device reset function occurred";
    CAPACITY_CHANGED = 0x6, 0x2a09, "capacity data has changed";
    CLEARED = 0x6, 0x2f00, "commands cleared by another initiator";
    LUNS_CHANGED = 0x6, 0x3f0e, "reported LUNs data has changed";
    WRITE_PROTECTED = 0x7, 0x2700, "write protected";
    NO_SPACE = 0x7, 0x2707, "space allocation failed write protect";
    OVERLAPPED = 0xb, 0x4e00, "overlapped commands attempted";
    MISCOMPARE = 0xe, 0x1d00, "miscompare during verify operation";
}

impl Sense {
    /// Returns the sense data.
    pub fn to_bytes(self) -> [u8; SENSE_LEN] {
        let mut bytes = [0; SENSE_LEN];
        let [code, qualifier] = self.code.to_be_bytes();
        (bytes[0], bytes[2], bytes[7]) = (CURRENT_FIXED, self.key, SENSE_LEN as u8 - 8);
        (bytes[12], bytes[13]) = (code, qualifier);
        bytes
    }
}

impl Sense {
    /// Reads sense data in fixed or in descriptor format. `None`: it is too short, or of another format.
    pub fn parse(bytes: &[u8]) -> Option<Sense> {
        let byte = |at: usize| bytes.get(at).copied();
        let (key, code, qualifier) = match byte(0)? & 0x7f {
            0x70 | 0x71 => (byte(2)?, byte(12).unwrap_or(0), byte(13).unwrap_or(0)),
            0x72 | 0x73 => (byte(1)?, byte(2)?, byte(3)?),
            _ => return None,
        };
        Some(Sense { key: key & 0xf, code: u16::from_be_bytes([code, qualifier]) })
    }
}

impl std::fmt::Display for Sense {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match TEXTS.iter().find(|(sense, _)| sense == self) {
            Some((_, text)) => f.write_str(text),
            None => write!(f, "sense key {:#x}, code {:#06x}", self.key, self.code),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sense_data_has_its_fields_and_texts() {
        let bytes = Sense::OUT_OF_RANGE.to_bytes();
        assert_eq!((bytes[0], bytes[2], bytes[7], bytes[12], bytes[13]), (0x70, 5, 10, 0x21, 0));
        assert_eq!(Sense::parse(&bytes), Some(Sense::OUT_OF_RANGE));
        assert_eq!(Sense::parse(&[0x72, 6, 0x29, 0]), Some(Sense::POWER_ON));
        assert_eq!([&[][..], &[0x70, 0], &[0x74; 20]].map(Sense::parse), [None; 3]);
        assert_eq!(Sense::NO_SPACE.to_string(), "space allocation failed write protect");
        assert_eq!(Sense { key: 1, code: 2 }.to_string(), "sense key 0x1, code 0x0002");
    }
}
