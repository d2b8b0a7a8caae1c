//! Replaces impossible values and combinations, with a diagnostic on the value used instead.

use std::collections::BTreeMap;

use super::{Diagnostics, Lanes, Options};
use crate::qos;

/// Line number of each option that the file sets.
pub(super) type Lines = BTreeMap<&'static str, u32>;

/// Valid values of force_link_speed.
const SPEEDS: [u8; 6] = [0, 1, 3, 5, 7, 15];

/// Replaces the impossible values of `options`.
pub(super) fn check(options: &mut Options, lines: &Lines, diagnostics: &mut Diagnostics) {
    let mut bounds = Bounds { lines, diagnostics };
    let default = Options::default();
    let (device, usual) = (&mut options.device, &default.device);
    bounds.bound("lmc", &mut device.lmc, |value| value <= 7, usual.lmc, "0 to 7");
    bounds.bound("sm_sl", &mut device.sm_sl, |value| value <= 15, usual.sm_sl, "0 to 15");
    bounds.bound("m_key_protection_level", &mut device.m_key_protection_level, |value| value <= 3, 2, "0 to 3");
    bounds.bound("max_op_vls", &mut device.max_op_vls, |value| (1..=5).contains(&value), 5, "1 to 5");
    bounds.bound(
        "force_link_speed",
        &mut device.force_link_speed,
        |value| SPEEDS.contains(&value),
        15,
        "0, 1, 3, 5, 7, 15",
    );
    let extended = |value| value <= 7 || value == 30 || value == 31;
    bounds.bound("force_link_speed_ext", &mut device.force_link_speed_ext, extended, 31, "0 to 7, 30, 31");
    let width = |value| value <= 31 || value == 255;
    bounds.bound("force_link_width", &mut device.force_link_width, width, 255, "0 to 31, 255");
    bounds.bound("fdr10", &mut device.fdr10, |value| value <= 2, 1, "0, 1, 2");
    bounds.bound("subnet_timeout", &mut device.subnet_timeout, |value| value <= 31, usual.subnet_timeout, "0 to 31");
    bounds.bound(
        "packet_life_time",
        &mut device.packet_life_time,
        |value| value <= 31,
        usual.packet_life_time,
        "0 to 31",
    );
    for (name, value, usual) in [
        ("head_of_queue_lifetime", &mut device.head_of_queue_lifetime, usual.head_of_queue_lifetime),
        ("leaf_head_of_queue_lifetime", &mut device.leaf_head_of_queue_lifetime, usual.leaf_head_of_queue_lifetime),
    ] {
        bounds.bound(name, value, |value| value <= 31, usual, "0 to 0x14");
    }
    for (name, value) in
        [("vl_stall_count", &mut device.vl_stall_count), ("leaf_vl_stall_count", &mut device.leaf_vl_stall_count)]
    {
        bounds.bound(name, value, |value| (1..=7).contains(&value), 7, "1 to 7");
    }
    for (name, value) in [
        ("local_phy_errors_threshold", &mut device.local_phy_errors_threshold),
        ("overrun_errors_threshold", &mut device.overrun_errors_threshold),
    ] {
        bounds.bound(name, value, |value| value <= 15, 8, "0 to 15");
    }
    bounds.bound("sm_priority", &mut options.handover.sm_priority, |value| value <= 15, 0, "0 to 15");
    bounds.bound("lash_start_vl", &mut options.routing.lash_start_vl, |value| value <= 14, 0, "0 to 14");
    let rate = |value| (2..=25).contains(&value) || value == 255;
    bounds.bound("max_rate_enum", &mut options.misc.max_rate_enum, rate, 255, "2 to 25, 255");
    let limit = i32::MAX as u32;
    bounds.bound("max_wire_smps", &mut options.timing.max_wire_smps, |value| value <= limit, 4, "0 to 2147483647");
    bounds.bound("max_wire_smps2", &mut options.timing.max_wire_smps2, |value| value <= limit, 4, "0 to 2147483647");
    bounds.bound("transaction_timeout", &mut options.timing.transaction_timeout, |value| value > 0, 200, "1 and more");
    bounds.bound(
        "sminfo_polling_timeout",
        &mut options.handover.sminfo_polling_timeout,
        |value| value > 0,
        10_000,
        "1 and more",
    );
    for (prefix, lanes) in [
        ("qos", &mut options.lanes.all),
        ("qos_ca", &mut options.lanes.ca),
        ("qos_sw0", &mut options.lanes.sw0),
        ("qos_swe", &mut options.lanes.swe),
        ("qos_rtr", &mut options.lanes.rtr),
    ] {
        bounds.lanes(prefix, lanes);
    }
    together(options, &mut bounds);
}

/// Checks options that depend on each other.
fn together(options: &mut Options, bounds: &mut Bounds<'_>) {
    let timing = &mut options.timing;
    if timing.long_transaction_timeout < timing.transaction_timeout {
        let what = "long_transaction_timeout is below transaction_timeout, which counts instead";
        bounds.say("long_transaction_timeout", what, "write a longer time");
        timing.long_transaction_timeout = timing.transaction_timeout;
    }
    if let Some(engine) = options.routing.unknown_engine() {
        let what = format!("no routing engine is called {}; it is passed over", super::clip(engine));
        bounds.say("routing_engine", &what, "see --create-config for the engines");
    }
    let (device, sweep) = (&mut options.device, &mut options.sweep);
    let lease = u32::from(device.m_key_lease_period);
    if device.m_key_protection_level == 0 || lease == 0 {
        return;
    }
    if sweep.sweep_interval == 0 {
        bounds.say(
            "sweep_interval",
            "M_Keys with a lease need sweeps",
            "write a sweep_interval below m_key_lease_period",
        );
        sweep.sweep_interval = lease.saturating_sub(1).max(1);
    }
    if sweep.sweep_interval >= lease {
        let what = "m_key_lease_period is not above sweep_interval: M_Keys would lapse between sweeps";
        bounds.say("m_key_lease_period", what, "write a few multiples of sweep_interval");
        device.m_key_lease_period = u16::try_from(sweep.sweep_interval + 1).unwrap_or(u16::MAX);
    }
}

struct Bounds<'a> {
    lines: &'a Lines,
    diagnostics: &'a mut Diagnostics,
}

impl Bounds<'_> {
    fn bound<T: Copy + std::fmt::Display>(
        &mut self,
        name: &str,
        value: &mut T,
        fits: impl Fn(T) -> bool,
        usual: T,
        range: &str,
    ) {
        if !fits(*value) {
            let what = format!("{name} cannot be {value}: it is {usual}");
            self.say(name, &what, &format!("write {range}"));
            *value = usual;
        }
    }

    fn lanes(&mut self, prefix: &str, lanes: &mut Lanes) {
        self.bound(&format!("{prefix}_max_vls"), &mut lanes.max_vls, |value| value <= 15, 0, "1 to 15");
        let limit = |value| (-1..=255).contains(&value);
        self.bound(&format!("{prefix}_high_limit"), &mut lanes.high_limit, limit, -1, "0 to 255");
        for (name, text) in [("vlarb_high", &lanes.vlarb_high), ("vlarb_low", &lanes.vlarb_low)] {
            let wrong = text.as_deref().map_or(Vec::new(), |text| qos::arbitration(text).wrong);
            self.list(
                &format!("{prefix}_{name}"),
                &wrong,
                "write lane:weight,... with lanes 0 to 14, weights 0 to 255",
            );
        }
        let wrong = lanes.sl2vl.as_deref().map_or(Vec::new(), |text| qos::lanes(text).wrong);
        self.list(&format!("{prefix}_sl2vl"), &wrong, "write 16 lanes, 15 to drop");
    }

    fn list(&mut self, name: &str, wrong: &[String], fix: &str) {
        let line = self.lines.get(name).copied().unwrap_or(0);
        for what in wrong {
            self.diagnostics.warning((line, 0), format!("{name}: {what}"), fix);
        }
    }

    fn say(&mut self, name: &str, what: &str, fix: &str) {
        self.diagnostics.error((self.lines.get(name).copied().unwrap_or(0), 0), what, fix);
    }
}
