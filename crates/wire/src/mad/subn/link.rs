//! State, width and speed of a link, as PortInfo encodes them (IBA 14.2.5.6). Each width or speed is one bit; the
//! supported and enabled fields may have several bits set, and the active field has exactly one.

use crate::layout::{flags, open};

open! {
    /// Logical state of a port.
    PortState(u8) {
        /// In a Set: leave it unchanged.
        NO_CHANGE = 0, "No change";
        DOWN = 1, "Down";
        INIT = 2, "Initialize";
        ARMED = 3, "Armed";
        ACTIVE = 4, "Active";
        /// Active, but the link is being retrained.
        ACTIVE_DEFER = 5, "Active Defer";
    }
}

open! {
    /// Physical state of a port.
    PhysState(u8) {
        /// In a Set: leave it unchanged.
        NO_CHANGE = 0, "No state change";
        SLEEP = 1, "Sleep";
        POLLING = 2, "Polling";
        DISABLED = 3, "Disabled";
        TRAINING = 4, "PortConfigurationTraining";
        LINK_UP = 5, "LinkUp";
        ERROR_RECOVERY = 6, "LinkErrorRecovery";
        PHY_TEST = 7, "PhyTest";
    }
}

bitflags::bitflags! {
    /// Width of a link.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct LinkWidth: u8 {
        /// One lane.
        const X1 = 1;
        /// Four lanes.
        const X4 = 2;
        /// Eight lanes.
        const X8 = 4;
        /// Twelve lanes.
        const X12 = 8;
        /// Two lanes.
        const X2 = 16;
    }

    /// Speed of a lane up to QDR, 4 bits.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct LinkSpeed: u8 {
        /// 2.5 Gb/s.
        const SDR = 1;
        /// 5 Gb/s.
        const DDR = 2;
        /// 10 Gb/s.
        const QDR = 4;
    }

    /// Speed of a lane beyond QDR; valid if any bit is set.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct LinkSpeedExt: u8 {
        /// 14.0625 Gb/s.
        const FDR = 1;
        /// 25.78125 Gb/s.
        const EDR = 2;
        /// 53.125 Gb/s.
        const HDR = 4;
        /// 106.25 Gb/s.
        const NDR = 8;
    }

    /// Speed of a lane beyond NDR; valid if any bit is set.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct LinkSpeedExt2: u8 {
        /// 212.5 Gb/s.
        const XDR = 1;
    }
}

impl LinkWidth {
    /// In a Set: enable everything that is supported.
    pub const ALL_SUPPORTED: LinkWidth = LinkWidth::from_bits_retain(0xff);
}

impl LinkSpeed {
    /// In a Set: enable everything that is supported.
    pub const ALL_SUPPORTED: LinkSpeed = LinkSpeed::from_bits_retain(0xf);
}

impl LinkSpeedExt {
    /// In the enabled field: none.
    pub const DISABLED: LinkSpeedExt = LinkSpeedExt::from_bits_retain(30);
    /// In a Set: enable everything that is supported.
    pub const ALL_SUPPORTED: LinkSpeedExt = LinkSpeedExt::from_bits_retain(31);
}

impl LinkSpeedExt2 {
    /// In the enabled field: none.
    pub const DISABLED: LinkSpeedExt2 = LinkSpeedExt2::from_bits_retain(6);
    /// In a Set: enable everything that is supported.
    pub const ALL_SUPPORTED: LinkSpeedExt2 = LinkSpeedExt2::from_bits_retain(7);
}

flags!(LinkWidth(u8), LinkSpeed(u8), LinkSpeedExt(u8), LinkSpeedExt2(u8));
