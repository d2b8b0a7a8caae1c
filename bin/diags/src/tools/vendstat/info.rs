//! GeneralInfo: hardware, firmware and software versions of a switch.

use serde_json::json;

use crate::ib::format::text_until_zero;

/// Offsets of the sections, after a header of eight bytes.
const HW: usize = 8;
const FW: usize = 40;
/// Extended firmware version, for numbers that do not fit the bytes of the older form.
const FW_EXT: usize = 76;
/// Software version in the older form, and after an extended firmware version.
const SW: usize = 76;
const SW_BEHIND_EXT: usize = 104;

/// Devices that report the extended firmware version.
const EXT_DEVICES: &[std::ops::RangeInclusive<u16>] = &[
    0x0245..=0x0245,
    0xc738..=0xc73b,
    0xcb20..=0xcb20,
    0xcf08..=0xcf08,
    0xd2f0..=0xd2f0,
    0x01b3..=0x01b3,
    0x1003..=0x101b,
    0xa2d2..=0xa2d2,
    0x1b02..=0x1b02,
    0x1b50..=0x1b50,
    0x1ba0..=0x1ba0,
    0x1bd0..=0x1bd5,
    0x1bf0..=0x1bf0,
    0x1b33..=0x1b33,
    0x1b73..=0x1b73,
    0x1b40..=0x1b41,
    0x1b60..=0x1b61,
    0x1b83..=0x1b83,
    0x1b93..=0x1b94,
    0x1bb4..=0x1bb5,
    0x1bc4..=0x1bc6,
];

/// A switch's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GeneralInfo {
    hw_revision: u16,
    /// Device ID of the chip.
    pub device_id: u16,
    uptime: u32,
    fw_version: [u32; 3],
    build_id: u32,
    /// Month, day and year in BCD.
    date: (u8, u8, u16),
    psid: String,
    ini_version: u32,
    sw_version: [u8; 3],
}

/// A big-endian 32-bit integer; `None` beyond the end.
pub fn word(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(data.get(at..at + 4)?.try_into().ok()?))
}

impl GeneralInfo {
    /// Parses an answer; missing bytes are 0.
    pub fn parse(data: &[u8]) -> GeneralInfo {
        let byte = |at: usize| data.get(at).copied().unwrap_or(0);
        let half = |at: usize| u16::from_be_bytes([byte(at), byte(at + 1)]);
        let word = |at: usize| word(data, at).unwrap_or(0);
        let device_id = half(HW + 2);
        let is_ext = EXT_DEVICES.iter().any(|range| range.contains(&device_id));
        let short = |at: usize| [byte(at + 1), byte(at + 2), byte(at + 3)];
        GeneralInfo {
            hw_revision: half(HW),
            device_id,
            uptime: word(HW + 28),
            fw_version: if is_ext {
                [word(FW_EXT), word(FW_EXT + 4), word(FW_EXT + 8)]
            } else {
                short(FW).map(u32::from)
            },
            build_id: word(FW + 4),
            date: (byte(FW + 8), byte(FW + 9), half(FW + 10)),
            psid: text_until_zero(data.get(FW + 16..FW + 32).unwrap_or_default()),
            ini_version: word(FW + 32),
            sw_version: short(if is_ext { SW_BEHIND_EXT } else { SW }),
        }
    }

    fn fw(&self) -> String {
        let [major, minor, sub] = self.fw_version;
        format!("{major:02}.{minor:02}.{sub:02}")
    }

    fn sw(&self) -> String {
        let [major, minor, sub] = self.sw_version;
        format!("{major:02}.{minor:02}.{sub:02}")
    }

    fn day(&self) -> String {
        let (month, day, year) = self.date;
        format!("{month:02x}/{day:02x}/{year:04x}")
    }

    /// The text output.
    pub fn text(&self) -> String {
        format!(
            "hw_dev_rev:  0x{:04x}\nhw_dev_id:   0x{:04x}\nhw_uptime:   0x{:08x}\nfw_version:  {}\n\
             fw_build_id: 0x{:04x}\nfw_date:     {}\nfw_psid:     '{}'\nfw_ini_ver:  {}\nsw_version:  {}\n",
            self.hw_revision,
            self.device_id,
            self.uptime,
            self.fw(),
            self.build_id,
            self.day(),
            self.psid,
            self.ini_version as i32,
            self.sw(),
        )
    }

    /// The same as JSON.
    pub fn json(&self) -> serde_json::Value {
        json!({
            "hw_revision": self.hw_revision, "device_id": format!("0x{:04x}", self.device_id), "uptime": self.uptime,
            "fw_version": self.fw(), "fw_build_id": self.build_id, "fw_date": self.day(), "fw_psid": self.psid,
            "fw_ini_version": self.ini_version, "sw_version": self.sw(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        let mut data = [0; 224];
        data[8..12].copy_from_slice(&[0, 0xa1, 0xb9, 0x24]);
        data[40..44].copy_from_slice(&[0, 7, 2, 1]);
        data[48..52].copy_from_slice(&[0x11, 0x21, 0x20, 0x26]);
        data[56..60].copy_from_slice(b"MT_1");
        data[77..80].copy_from_slice(&[1, 2, 3]);
        let old = GeneralInfo::parse(&data);
        assert_eq!((old.fw(), old.sw(), old.day()), ("07.02.01".into(), "01.02.03".into(), "11/21/2026".into()));
        assert!(old.text().contains("hw_dev_id:   0xb924\n") && old.text().contains("fw_psid:     'MT_1'\n"));

        data[10..12].copy_from_slice(&0xcb20u16.to_be_bytes());
        data[76..88].copy_from_slice(&[0, 0, 0, 15, 0, 0, 7, 0xd0, 0, 0, 0, 4]);
        assert_eq!(GeneralInfo::parse(&data).fw(), "15.2000.04");
        assert_eq!(GeneralInfo::parse(&[]), GeneralInfo::default());
    }
}
