//! Rarely used attributes: vendor diagnostics, LEDs, forward error correction and Mellanox extensions.

use crate::layout::{Bytes, bits, flags, int, message, open};
use crate::mad::Block;

message! {
    /// VendorDiag (IBA 14.2.5.14).
    #[derive(Copy)]
    VendorDiag[64] {
        /// Modifier of the next piece; 0 after the last.
        next_index: u16 = int(0, 2),
        /// Vendor-defined data.
        diag_data: Block<62> = Bytes(2),
    }
}

message! {
    /// LedInfo (IBA 14.2.5.15).
    #[derive(Copy)]
    LedInfo[64] {
        /// The LED is on.
        led_mask: bool = bits(0, 0, 1),
    }
}

open! {
    /// A mode of forward error correction.
    FecMode(u16) {
        NONE = 0, "none";
        FIRE_CODE = 1, "fire code";
        RS_528 = 2, "Reed-Solomon (528,514)";
        RS_271 = 3, "Reed-Solomon (271,257), of low latency";
        RS_544 = 4, "Reed-Solomon (544,514)";
    }
}

bitflags::bitflags! {
    /// A set of modes that a port supports, or may use. Bits without a name survive.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct FecModes: u16 {
        /// [`FecMode::NONE`].
        const NONE = 1 << 0;
        /// [`FecMode::FIRE_CODE`].
        const FIRE_CODE = 1 << 1;
        /// [`FecMode::RS_528`].
        const RS_528 = 1 << 2;
        /// [`FecMode::RS_271`].
        const RS_271 = 1 << 3;
        /// [`FecMode::RS_544`].
        const RS_544 = 1 << 4;
    }
}

flags!(FecModes(u16));

impl FecModes {
    /// Returns the mode with the lowest cost.
    pub fn least(self) -> Option<FecMode> {
        (!self.is_empty()).then(|| FecMode(self.bits().trailing_zeros() as u16))
    }
}

impl PortInfoExtended {
    /// In the capability mask: the port reports error correction modes, which can be set.
    pub const FEC_MODES: u32 = 1;
}

message! {
    /// PortInfoExtended (IBA 14.2.5.19): forward error correction.
    #[derive(Copy)]
    PortInfoExtended[64] {
        /// Bit 0: error correction modes can be set.
        capability_mask: u32 = int(0, 4),
        /// The active mode.
        fec_mode_active: FecMode = int(4, 2),
        /// Modes that the port supports at FDR.
        fdr_fec_mode_supported: FecModes = int(6, 2),
        /// Modes enabled at FDR.
        fdr_fec_mode_enabled: FecModes = int(8, 2),
        /// Modes that the port supports at EDR.
        edr_fec_mode_supported: FecModes = int(10, 2),
        /// Modes enabled at EDR.
        edr_fec_mode_enabled: FecModes = int(12, 2),
        /// Modes that the port supports at HDR.
        hdr_fec_mode_supported: FecModes = int(14, 2),
        /// Modes enabled at HDR.
        hdr_fec_mode_enabled: FecModes = int(16, 2),
        /// Modes that the port supports at NDR.
        ndr_fec_mode_supported: FecModes = int(18, 2),
        /// Modes enabled at NDR.
        ndr_fec_mode_enabled: FecModes = int(20, 2),
    }
}

message! {
    /// Mellanox's extended port information: FDR10. Modifier: port.
    #[derive(Copy)]
    MlnxExtPortInfo[64] {
        /// The fields that a Set changes.
        state_change_enable: u8 = int(3, 1),
        /// Bit 0: FDR10 is supported.
        link_speed_supported: u8 = int(7, 1),
        /// Bit 0: FDR10 is enabled.
        link_speed_enabled: u8 = int(11, 1),
        /// Bit 0: FDR10 is active.
        link_speed_active: u8 = int(15, 1),
    }
}
