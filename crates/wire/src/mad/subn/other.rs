//! What few ask for: diagnosis by vendors, lamps, forward error correction and what Mellanox added.

use crate::layout::{Bytes, bits, int, message};
use crate::mad::Block;

message! {
    /// VendorDiag (IBA 14.2.5.14).
    #[derive(Copy)]
    VendorDiag[64] {
        /// Modifier of the next piece; 0 after the last.
        next_index: u16 = int(0, 2),
        /// What the vendor says.
        diag_data: Block<62> = Bytes(2),
    }
}

message! {
    /// LedInfo (IBA 14.2.5.15).
    #[derive(Copy)]
    LedInfo[64] {
        /// The lamp is lit.
        led_mask: bool = bits(0, 0, 1),
    }
}

message! {
    /// PortInfoExtended (IBA 14.2.5.19): forward error correction.
    #[derive(Copy)]
    PortInfoExtended[64] {
        /// Bit 0: modes of error correction can be set.
        capability_mask: u32 = int(0, 4),
        /// The mode in use: 0 none, 1 firecode, 2 Reed-Solomon, 3 Reed-Solomon of low latency.
        fec_mode_active: u16 = int(4, 2),
        /// Modes that the port can at FDR.
        fdr_fec_mode_supported: u16 = int(6, 2),
        /// Modes that may be used at FDR.
        fdr_fec_mode_enabled: u16 = int(8, 2),
        /// Modes that the port can at EDR.
        edr_fec_mode_supported: u16 = int(10, 2),
        /// Modes that may be used at EDR.
        edr_fec_mode_enabled: u16 = int(12, 2),
        /// Modes that the port can at HDR.
        hdr_fec_mode_supported: u16 = int(14, 2),
        /// Modes that may be used at HDR.
        hdr_fec_mode_enabled: u16 = int(16, 2),
        /// Modes that the port can at NDR.
        ndr_fec_mode_supported: u16 = int(18, 2),
        /// Modes that may be used at NDR.
        ndr_fec_mode_enabled: u16 = int(20, 2),
    }
}

message! {
    /// Mellanox's extended port information: FDR10. Modifier: port.
    #[derive(Copy)]
    MlnxExtPortInfo[64] {
        /// Which of the fields a Set changes.
        state_change_enable: u8 = int(3, 1),
        /// Bit 0: FDR10 is supported.
        link_speed_supported: u8 = int(7, 1),
        /// Bit 0: FDR10 may be used.
        link_speed_enabled: u8 = int(11, 1),
        /// Bit 0: FDR10 is in use.
        link_speed_active: u8 = int(15, 1),
    }
}
