//! OpenSM's experimental congestion control options; they have no effect here.

use crate::options::spec::{Effect, group};
use crate::options::value::{BySl, PortMask};

const NONE: Effect = Effect::Nothing("congestion control is not configured: devices keep what they have");

group! {
    /// OpenSM's experimental congestion control.
    Congestion at congestion {
        /// Configure congestion control
        congestion_control: bool = false, Live, NONE;
        /// Congestion control key (CC_Key)
        cc_key: u64 = 0, Restart, NONE;
        /// Maximum congestion control MADs in flight
        cc_max_outstanding_mads: u32 = 500, Restart, NONE;
        /// Switches: which of the following settings apply, a bit each
        cc_sw_cong_setting_control_map: u32 = 0, Live, NONE;
        /// Switches: ports that mark packets whether or not they are victims
        cc_sw_cong_setting_victim_mask: PortMask = PortMask([0; 4]), Live, NONE;
        /// Switches: ports that apply credit starvation detection
        cc_sw_cong_setting_credit_mask: PortMask = PortMask([0; 4]), Live, NONE;
        /// Switches: how early to mark packets, from 0 (never) to 15
        cc_sw_cong_setting_threshold: u8 = 0, Live, NONE;
        /// Switches: smallest packet to mark, in credits
        cc_sw_cong_setting_packet_size: u8 = 0, Live, NONE;
        /// Switches: how early to detect credit starvation, from 0 (never) to 15
        cc_sw_cong_setting_credit_starvation_threshold: u8 = 0, Live, NONE;
        /// Switches: delay after credit starvation, shift:multiplier
        cc_sw_cong_setting_credit_starvation_return_delay: Option<String> = Some("0:0".to_owned()), Live, NONE;
        /// Switches: packets between two marks
        cc_sw_cong_setting_marking_rate: u16 = 0, Live, NONE;
        /// Adapters: congestion control per queue pair (0) or per service level (1)
        cc_ca_cong_setting_port_control: u16 = 0, Live, NONE;
        /// Adapters: service levels to configure, a bit each
        cc_ca_cong_setting_control_map: u16 = 0, Live, NONE;
        /// Adapters: service level, and time after which its table index falls by one
        cc_ca_cong_setting_ccti_timer: BySl = BySl([0; 16]), Live, NONE;
        /// Adapters: service level, and how far a mark (BECN) raises its table index
        cc_ca_cong_setting_ccti_increase: BySl = BySl([0; 16]), Live, NONE;
        /// Adapters: service level, and the table index that triggers an event
        cc_ca_cong_setting_trigger_threshold: BySl = BySl([0; 16]), Live, NONE;
        /// Adapters: service level, and its lowest table index
        cc_ca_cong_setting_ccti_min: BySl = BySl([0; 16]), Live, NONE;
        /// Congestion control table of delays: shift:multiplier,...
        cc_cct: Option<String> = None, Live, NONE;
    }
}
