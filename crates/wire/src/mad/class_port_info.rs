//! ClassPortInfo (IBA 13.4.8.1): a port's capabilities in a management class, the redirection target, and the trap
//! target.

use crate::layout::{Bytes, bits, int, message};
use crate::mad::attribute::attributes;
use crate::mad::notice::{InformInfo, Notice};

message! {
    /// ClassPortInfo.
    #[derive(Copy)]
    ClassPortInfo[72] {
        /// Base version.
        base_version: u8 = int(0, 1),
        /// Class version.
        class_version: u8 = int(1, 1),
        /// Capabilities: bit 0 sends traps, bit 1 supports Get and Set of Notice, bits from 8 on are class-specific.
        capability_mask: u16 = int(2, 2),
        /// More class-specific capabilities, 27 bits.
        capability_mask2: u32 = bits(4, 0, 27),
        /// Maximum response time: 4.096 us * 2^n, 5 bits.
        resp_time_value: u8 = bits(7, 3, 5),
        /// GID of the redirection target.
        redirect_gid: [u8; 16] = Bytes(8),
        /// Traffic class to the redirection target.
        redirect_tc: u8 = int(24, 1),
        /// Service level to the redirection target, 4 bits.
        redirect_sl: u8 = bits(25, 0, 4),
        /// Flow label to the redirection target, 20 bits.
        redirect_fl: u32 = bits(25, 4, 20),
        /// LID of the redirection target; 0: no redirection.
        redirect_lid: u16 = int(28, 2),
        /// Partition of the redirection target.
        redirect_pkey: u16 = int(30, 2),
        /// Queue pair of the redirection target, 24 bits.
        redirect_qp: u32 = int(33, 3),
        /// Q_Key of the redirection target.
        redirect_qkey: u32 = int(36, 4),
        /// GID of the trap target.
        trap_gid: [u8; 16] = Bytes(40),
        /// Traffic class to the trap target.
        trap_tc: u8 = int(56, 1),
        /// Service level to the trap target, 4 bits.
        trap_sl: u8 = bits(57, 0, 4),
        /// Flow label to the trap target, 20 bits.
        trap_fl: u32 = bits(57, 4, 20),
        /// LID of the trap target; 0: no traps.
        trap_lid: u16 = int(60, 2),
        /// Partition of the trap target.
        trap_pkey: u16 = int(62, 2),
        /// Hop limit to the trap target.
        trap_hl: u8 = int(64, 1),
        /// Queue pair of the trap target, 24 bits.
        trap_qp: u32 = int(65, 3),
        /// Q_Key of the trap target.
        trap_qkey: u32 = int(68, 4),
    }
}

impl ClassPortInfo {
    /// The port sends traps.
    pub const TRAP: u16 = 1;
    /// The port supports Get and Set of Notice.
    pub const NOTICE: u16 = 2;
}

attributes! {
    /// Attributes that all classes share, and their names.
    COMMON_ATTRIBUTES {
        ClassPortInfo(CLASS_PORT_INFO = 0x0001, "ClassPortInfo");
        Notice(NOTICE = 0x0002, "Notice");
        InformInfo(INFORM_INFO = 0x0003, "InformInfo");
    }
}
