//! Width and speed of a link, with their PortInfo bits and their names.

use std::fmt;

use serde::{Deserialize, Serialize};

/// LinkWidth (IBA 14.2.5.6; 2x by the annex on HDR).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Width {
    /// One lane.
    X1,
    /// Two lanes.
    X2,
    /// Four lanes.
    X4,
    /// Eight lanes.
    X8,
    /// Twelve lanes.
    X12,
}

/// Speed of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Speed {
    /// 2.5 Gb/s.
    Sdr,
    /// 5 Gb/s.
    Ddr,
    /// 10 Gb/s.
    Qdr,
    /// 10.3125 Gb/s, vendor-specific.
    Fdr10,
    /// 14.0625 Gb/s.
    Fdr,
    /// 25.78125 Gb/s.
    Edr,
    /// 53.125 Gb/s.
    Hdr,
    /// 106.25 Gb/s.
    Ndr,
    /// 212.5 Gb/s.
    Xdr,
}

impl Width {
    /// Every width, narrowest first.
    pub const ALL: [Width; 5] = [Width::X1, Width::X2, Width::X4, Width::X8, Width::X12];

    /// Returns the number of lanes.
    pub const fn lanes(self) -> u8 {
        match self {
            Width::X1 => 1,
            Width::X2 => 2,
            Width::X4 => 4,
            Width::X8 => 8,
            Width::X12 => 12,
        }
    }

    /// Returns its bit in LinkWidthSupported, LinkWidthEnabled and LinkWidthActive.
    pub const fn bit(self) -> u8 {
        match self {
            Width::X1 => 1,
            Width::X2 => 16,
            Width::X4 => 2,
            Width::X8 => 4,
            Width::X12 => 8,
        }
    }

    /// Returns LinkWidthSupported of a port with this largest width: always 1x, and the widths below it that exist. 2x
    /// came with HDR, so a port has it only if `speed` allows.
    pub const fn supported(self, speed: Speed) -> u8 {
        let two = if matches!(speed, Speed::Hdr | Speed::Ndr | Speed::Xdr) { 16 } else { 0 };
        match self {
            Width::X1 => 1,
            Width::X2 => 1 | 16,
            Width::X4 => 1 | 2 | two,
            Width::X8 => 1 | 2 | 4 | two,
            Width::X12 => 1 | 2 | 8 | two,
        }
    }

    /// Returns the largest common width of ports with largest widths `self` and `other`.
    pub const fn common(self, other: Width) -> Width {
        let (narrow, wide) = if self.lanes() < other.lanes() { (self, other) } else { (other, self) };
        // 12x hardware has no 8x.
        match (narrow, wide) {
            (Width::X8, Width::X12) => Width::X4,
            _ => narrow,
        }
    }

    /// Converts a number of lanes.
    pub const fn from_lanes(lanes: u8) -> Option<Width> {
        match lanes {
            1 => Some(Width::X1),
            2 => Some(Width::X2),
            4 => Some(Width::X4),
            8 => Some(Width::X8),
            12 => Some(Width::X12),
            _ => None,
        }
    }

    /// Converts a bit of LinkWidthActive.
    pub fn from_bit(bit: u8) -> Option<Width> {
        Width::ALL.into_iter().find(|width| width.bit() == bit)
    }

    /// Parses `4x` or `4`.
    pub fn parse(word: &str) -> Option<Width> {
        let digits = word.strip_suffix(['x', 'X']).unwrap_or(word);
        Width::from_lanes(digits.parse().ok()?)
    }
}

impl Speed {
    /// Every speed, slowest first.
    pub const ALL: [Speed; 9] =
        [Speed::Sdr, Speed::Ddr, Speed::Qdr, Speed::Fdr10, Speed::Fdr, Speed::Edr, Speed::Hdr, Speed::Ndr, Speed::Xdr];

    /// Returns its name in capitals.
    pub const fn word(self) -> &'static str {
        match self {
            Speed::Sdr => "SDR",
            Speed::Ddr => "DDR",
            Speed::Qdr => "QDR",
            Speed::Fdr10 => "FDR10",
            Speed::Fdr => "FDR",
            Speed::Edr => "EDR",
            Speed::Hdr => "HDR",
            Speed::Ndr => "NDR",
            Speed::Xdr => "XDR",
        }
    }

    /// Returns its bit in LinkSpeedActive, 1, 2 or 4; faster ones report QDR's there and the actual speed in the
    /// extended field.
    pub const fn bit(self) -> u8 {
        match self {
            Speed::Sdr => 1,
            Speed::Ddr => 2,
            _ => 4,
        }
    }

    /// Returns LinkSpeedSupported of a port with this highest speed.
    pub const fn supported(self) -> u8 {
        match self {
            Speed::Sdr => 1,
            Speed::Ddr => 3,
            _ => 7,
        }
    }

    /// Returns its bit in LinkSpeedExtActive (FDR 1, EDR 2, HDR 4, NDR 8), 0 for speeds of the plain field. XDR has
    /// none here: see [`Speed::bit_ext2`].
    pub const fn bit_ext(self) -> u8 {
        match self {
            Speed::Fdr => 1,
            Speed::Edr => 2,
            Speed::Hdr => 4,
            Speed::Ndr => 8,
            _ => 0,
        }
    }

    /// Returns LinkSpeedExtSupported of a port with this highest speed.
    pub const fn supported_ext(self) -> u8 {
        match self {
            Speed::Fdr => 1,
            Speed::Edr => 3,
            Speed::Hdr => 7,
            Speed::Ndr | Speed::Xdr => 15,
            _ => 0,
        }
    }

    /// Returns its bit in LinkSpeedExt2Active: 1 for XDR, else 0.
    pub const fn bit_ext2(self) -> u8 {
        matches!(self, Speed::Xdr) as u8
    }

    /// Returns LinkSpeedExt2Supported of a port with this highest speed.
    pub const fn supported_ext2(self) -> u8 {
        self.bit_ext2()
    }

    /// Returns the data rate of one lane in Mb/s, as data sheets round it.
    pub const fn lane_mbps(self) -> u32 {
        match self {
            Speed::Sdr => 2_500,
            Speed::Ddr => 5_000,
            Speed::Qdr => 10_000,
            Speed::Fdr10 => 10_312,
            Speed::Fdr => 14_062,
            Speed::Edr => 25_781,
            Speed::Hdr => 53_125,
            Speed::Ndr => 106_250,
            Speed::Xdr => 212_500,
        }
    }

    /// Parses its name, in either case.
    pub fn parse(word: &str) -> Option<Speed> {
        Speed::ALL.into_iter().find(|speed| speed.word().eq_ignore_ascii_case(word))
    }
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x", self.lanes())
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
