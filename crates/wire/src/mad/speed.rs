//! Speeds, widths and rates in one table: PortInfo's encoding of a link speed, a path record's encoding of a rate, and
//! their usual names.

use crate::layout::open;
use crate::mad::subn::{LinkSpeed, LinkSpeedExt, LinkSpeedExt2, LinkWidth, PortInfo};

/// Speed of one lane.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Speed {
    /// Single data rate.
    Sdr,
    /// Double data rate.
    Ddr,
    /// Quadruple data rate.
    Qdr,
    /// QDR's signalling rate with the coding of FDR: a Mellanox extension, reported by
    /// [`super::subn::MlnxExtPortInfo`].
    Fdr10,
    /// Fourteen data rate.
    Fdr,
    /// Enhanced data rate.
    Edr,
    /// High data rate.
    Hdr,
    /// Next data rate.
    Ndr,
    /// Extreme data rate.
    Xdr,
}

/// Name and rate of a speed.
struct SpeedRow {
    speed: Speed,
    name: &'static str,
    /// Signalling rate of one lane, as tools print it.
    gbps: &'static str,
    /// Data rate of one lane in 0.1 Gb/s, as path rates count it.
    tenths: u32,
}

const fn row(speed: Speed, name: &'static str, gbps: &'static str, tenths: u32) -> SpeedRow {
    SpeedRow { speed, name, gbps, tenths }
}

const SPEEDS: [SpeedRow; 9] = [
    row(Speed::Sdr, "SDR", "2.5", 25),
    row(Speed::Ddr, "DDR", "5.0", 50),
    row(Speed::Qdr, "QDR", "10.0", 100),
    row(Speed::Fdr10, "FDR10", "10.3125", 100),
    row(Speed::Fdr, "FDR", "14.0625", 140),
    row(Speed::Edr, "EDR", "25.78125", 250),
    row(Speed::Hdr, "HDR", "53.125", 500),
    row(Speed::Ndr, "NDR", "106.25", 1000),
    row(Speed::Xdr, "XDR", "212.5", 2000),
];

impl Speed {
    /// Every speed, slowest first.
    pub const ALL: [Speed; 9] =
        [Speed::Sdr, Speed::Ddr, Speed::Qdr, Speed::Fdr10, Speed::Fdr, Speed::Edr, Speed::Hdr, Speed::Ndr, Speed::Xdr];

    fn row(self) -> &'static SpeedRow {
        SPEEDS.iter().find(|row| row.speed == self).unwrap_or(&SPEEDS[0])
    }
    /// Returns its name, such as EDR.
    pub fn name(self) -> &'static str {
        self.row().name
    }
    /// Returns the signalling rate of one lane in Gb/s, such as 25.78125.
    pub fn gbps(self) -> &'static str {
        self.row().gbps
    }
    /// Returns the data rate of one lane in 0.1 Gb/s, as path rates count it: 250 for EDR.
    pub fn tenths(self) -> u32 {
        self.row().tenths
    }
    /// Returns the speed with this name, in any case.
    pub fn from_name(name: &str) -> Option<Speed> {
        SPEEDS.iter().find(|row| row.name.eq_ignore_ascii_case(name)).map(|row| row.speed)
    }

    /// Returns a port's active speed; `None` if its fields hold no valid speed. An FDR10 link looks like QDR.
    pub fn active(info: &PortInfo) -> Option<Speed> {
        match info.link_speed_ext_active2 {
            LinkSpeedExt2::XDR => return Some(Speed::Xdr),
            other if !other.is_empty() => return None,
            _ => {}
        }
        match (info.link_speed_ext_active, info.link_speed_active) {
            (LinkSpeedExt::FDR, _) => Some(Speed::Fdr),
            (LinkSpeedExt::EDR, _) => Some(Speed::Edr),
            (LinkSpeedExt::HDR, _) => Some(Speed::Hdr),
            (LinkSpeedExt::NDR, _) => Some(Speed::Ndr),
            (ext, LinkSpeed::SDR) if ext.is_empty() => Some(Speed::Sdr),
            (ext, LinkSpeed::DDR) if ext.is_empty() => Some(Speed::Ddr),
            (ext, LinkSpeed::QDR) if ext.is_empty() => Some(Speed::Qdr),
            _ => None,
        }
    }

    /// Returns PortInfo's fields for this active speed. Beyond QDR the old field stays at QDR, as on hardware adapters.
    pub fn active_fields(self) -> (LinkSpeed, LinkSpeedExt, LinkSpeedExt2) {
        let none = (LinkSpeedExt::empty(), LinkSpeedExt2::empty());
        match self {
            Speed::Sdr => (LinkSpeed::SDR, none.0, none.1),
            Speed::Ddr => (LinkSpeed::DDR, none.0, none.1),
            Speed::Qdr | Speed::Fdr10 => (LinkSpeed::QDR, none.0, none.1),
            Speed::Fdr => (LinkSpeed::QDR, LinkSpeedExt::FDR, none.1),
            Speed::Edr => (LinkSpeed::QDR, LinkSpeedExt::EDR, none.1),
            Speed::Hdr => (LinkSpeed::QDR, LinkSpeedExt::HDR, none.1),
            Speed::Ndr => (LinkSpeed::QDR, LinkSpeedExt::NDR, none.1),
            Speed::Xdr => (LinkSpeed::QDR, none.0, LinkSpeedExt2::XDR),
        }
    }

    /// Returns PortInfo's supported or enabled fields for all speeds up to this one.
    pub fn up_to(self) -> (LinkSpeed, LinkSpeedExt, LinkSpeedExt2) {
        Speed::ALL.iter().filter(|speed| **speed <= self).fold(Default::default(), |sum, speed| {
            let (speed, ext, ext2) = speed.active_fields();
            (sum.0 | speed, sum.1 | ext, sum.2 | ext2)
        })
    }
}

impl std::fmt::Display for Speed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl LinkWidth {
    /// Returns the number of lanes; 0 unless exactly one width is set.
    pub fn lanes(self) -> u32 {
        match self {
            LinkWidth::X1 => 1,
            LinkWidth::X2 => 2,
            LinkWidth::X4 => 4,
            LinkWidth::X8 => 8,
            LinkWidth::X12 => 12,
            _ => 0,
        }
    }
    /// Returns the width with this many lanes.
    pub fn from_lanes(lanes: u32) -> Option<LinkWidth> {
        [LinkWidth::X1, LinkWidth::X2, LinkWidth::X4, LinkWidth::X8, LinkWidth::X12]
            .into_iter()
            .find(|width| width.lanes() == lanes)
    }
    /// Returns its name, such as 4X; `None` unless exactly one width is set.
    pub fn name(self) -> Option<&'static str> {
        match self.lanes() {
            1 => Some("1X"),
            2 => Some("2X"),
            4 => Some("4X"),
            8 => Some("8X"),
            12 => Some("12X"),
            _ => None,
        }
    }
    /// Returns the widest of several widths.
    pub fn widest(self) -> Option<LinkWidth> {
        [LinkWidth::X12, LinkWidth::X8, LinkWidth::X4, LinkWidth::X2, LinkWidth::X1]
            .into_iter()
            .find(|width| self.contains(*width))
    }
}

open! {
    /// Rate of a path, in the encoding of path records, address vectors and multicast groups (IBA 15.2.5.16). The codes
    /// are in no order; [`Rate::tenths`] is.
    Rate(u8) {
        GBPS_2_5 = 2, "2.5";
        GBPS_10 = 3, "10";
        GBPS_30 = 4, "30";
        GBPS_5 = 5, "5";
        GBPS_20 = 6, "20";
        GBPS_40 = 7, "40";
        GBPS_60 = 8, "60";
        GBPS_80 = 9, "80";
        GBPS_120 = 10, "120";
        GBPS_14 = 11, "14";
        GBPS_56 = 12, "56";
        GBPS_112 = 13, "112";
        GBPS_168 = 14, "168";
        GBPS_25 = 15, "25";
        GBPS_100 = 16, "100";
        GBPS_200 = 17, "200";
        GBPS_300 = 18, "300";
        GBPS_28 = 19, "28";
        GBPS_50 = 20, "50";
        GBPS_400 = 21, "400";
        GBPS_600 = 22, "600";
        GBPS_800 = 23, "800";
        GBPS_1200 = 24, "1200";
        GBPS_1600 = 25, "1600";
    }
}

/// Rates in 0.1 Gb/s by code: a manager needs them for every port.
const TENTHS: [u32; 26] = {
    let mut tenths = [0; 26];
    let mut at = 0;
    while at < Rate::ALL.len() {
        let rate = Rate::ALL[at];
        if let Some(text) = rate.text() {
            // 2.5 is the only fractional rate.
            tenths[rate.0 as usize] = match u32::from_str_radix(text, 10) {
                Ok(gbps) => gbps * 10,
                Err(_) => 25,
            };
        }
        at += 1;
    }
    tenths
};

impl Rate {
    /// Returns the rate in 0.1 Gb/s; 0 for an unknown code.
    pub fn tenths(self) -> u32 {
        TENTHS.get(usize::from(self.0)).copied().unwrap_or(0)
    }

    /// Returns the rate of a link: if no code is exact, the fastest code that is not faster.
    pub fn of_link(width: LinkWidth, speed: Speed) -> Option<Rate> {
        let tenths = width.lanes() * speed.tenths();
        Rate::ALL.iter().copied().filter(|rate| rate.tenths() <= tenths).max_by_key(|rate| rate.tenths())
    }
}

/// Formats a link: `100 Gb/sec (4X EDR)`.
pub fn link_text(width: LinkWidth, speed: Speed) -> String {
    let tenths = width.lanes() * speed.tenths();
    let half = if tenths % 10 == 5 { ".5" } else { "" };
    format!("{}{half} Gb/sec ({} {speed})", tenths / 10, width.name().unwrap_or("?X"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_has_the_rate_that_it_is_known_by() {
        use LinkWidth as W;
        for (width, speed, rate, text) in [
            (W::X1, Speed::Sdr, Rate::GBPS_2_5, "2.5 Gb/sec (1X SDR)"),
            (W::X4, Speed::Sdr, Rate::GBPS_10, "10 Gb/sec (4X SDR)"),
            (W::X12, Speed::Sdr, Rate::GBPS_30, "30 Gb/sec (12X SDR)"),
            (W::X4, Speed::Qdr, Rate::GBPS_40, "40 Gb/sec (4X QDR)"),
            (W::X4, Speed::Fdr10, Rate::GBPS_40, "40 Gb/sec (4X FDR10)"),
            (W::X1, Speed::Fdr, Rate::GBPS_14, "14 Gb/sec (1X FDR)"),
            (W::X4, Speed::Fdr, Rate::GBPS_56, "56 Gb/sec (4X FDR)"),
            (W::X2, Speed::Fdr, Rate::GBPS_28, "28 Gb/sec (2X FDR)"),
            (W::X12, Speed::Edr, Rate::GBPS_300, "300 Gb/sec (12X EDR)"),
            (W::X4, Speed::Edr, Rate::GBPS_100, "100 Gb/sec (4X EDR)"),
            (W::X4, Speed::Hdr, Rate::GBPS_200, "200 Gb/sec (4X HDR)"),
            (W::X4, Speed::Ndr, Rate::GBPS_400, "400 Gb/sec (4X NDR)"),
            (W::X4, Speed::Xdr, Rate::GBPS_800, "800 Gb/sec (4X XDR)"),
            (W::X8, Speed::Xdr, Rate::GBPS_1600, "1600 Gb/sec (8X XDR)"),
        ] {
            assert_eq!((Rate::of_link(width, speed), link_text(width, speed)), (Some(rate), text.to_owned()));
        }
        assert_eq!(Rate::of_link(W::empty(), Speed::Edr), None);
        assert_eq!((Rate(1).tenths(), Rate::ALL.iter().all(|rate| rate.tenths() > 0)), (0, true));
    }

    #[test]
    fn a_speed_is_written_and_read_the_same() {
        for speed in Speed::ALL {
            let (active, ext, ext2) = speed.active_fields();
            let info = PortInfo {
                link_speed_active: active,
                link_speed_ext_active: ext,
                link_speed_ext_active2: ext2,
                ..PortInfo::default()
            };
            let seen = if speed == Speed::Fdr10 { Speed::Qdr } else { speed };
            assert_eq!(Speed::active(&PortInfo::parse(&info.encode())), Some(seen));
            assert_eq!(Speed::from_name(&speed.name().to_lowercase()), Some(speed));
        }
        assert_eq!(Speed::active(&PortInfo::default()), None);
        let (speeds, ext, ext2) = Speed::Hdr.up_to();
        assert_eq!((speeds.bits(), ext.bits(), ext2.bits()), (7, 7, 0));
        assert_eq!(
            (LinkWidth::from_bits_retain(0x1f).widest(), LinkWidth::empty().widest()),
            (Some(LinkWidth::X12), None)
        );
    }
}
