//! OpenSM's experimental congestion control, which has no counterpart here.

use crate::options::spec::{Effect, group};
use crate::options::value::{BySl, PortMask};

const NONE: Effect = Effect::Nothing("congestion control is not configured: devices keep what they have");

group! {
    /// OpenSM's experimental congestion control.
    Congestion at congestion {
        /// Configure congestion control
        congestion_control: bool = false, Live, NONE;
        /// Key of congestion control
        cc_key: u64 = 0, Restart, NONE;
        /// Datagrams under way at once
        cc_max_outstanding_mads: u32 = 500, Restart, NONE;
        /// Switches: which of the following count, a bit each
        cc_sw_cong_setting_control_map: u32 = 0, Live, NONE;
        /// Switches: ports whose packets are marked, victims or not
        cc_sw_cong_setting_victim_mask: PortMask = PortMask([0; 4]), Live, NONE;
        /// Switches: ports that watch for want of credit
        cc_sw_cong_setting_credit_mask: PortMask = PortMask([0; 4]), Live, NONE;
        /// Switches: how soon packets are marked, 0 never to 15
        cc_sw_cong_setting_threshold: u8 = 0, Live, NONE;
        /// Switches: packets below are not marked, in credits
        cc_sw_cong_setting_packet_size: u8 = 0, Live, NONE;
        /// Switches: how soon want of credit counts, 0 never to 15
        cc_sw_cong_setting_credit_starvation_threshold: u8 = 0, Live, NONE;
        /// Switches: delay after want of credit, shift:multiplier
        cc_sw_cong_setting_credit_starvation_return_delay: Option<String> = Some("0:0".to_owned()), Live, NONE;
        /// Switches: packets between two marks
        cc_sw_cong_setting_marking_rate: u16 = 0, Live, NONE;
        /// Adapters: 0 by queue pair, 1 by service level
        cc_ca_cong_setting_port_control: u16 = 0, Live, NONE;
        /// Adapters: service levels that are configured, a bit each
        cc_ca_cong_setting_control_map: u16 = 0, Live, NONE;
        /// Adapters: service level, and time after which the index falls by one
        cc_ca_cong_setting_ccti_timer: BySl = BySl([0; 16]), Live, NONE;
        /// Adapters: service level, and how much a mark raises the index
        cc_ca_cong_setting_ccti_increase: BySl = BySl([0; 16]), Live, NONE;
        /// Adapters: service level, and the index that is reported
        cc_ca_cong_setting_trigger_threshold: BySl = BySl([0; 16]), Live, NONE;
        /// Adapters: service level, and the lowest index
        cc_ca_cong_setting_ccti_min: BySl = BySl([0; 16]), Live, NONE;
        /// The table of delays: shift:multiplier,...
        cc_cct: Option<String> = None, Live, NONE;
    }
}
