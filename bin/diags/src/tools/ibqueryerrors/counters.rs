//! The error counters, their fields, and their thresholds.

use crate::ib::field::Field;
use crate::ib::fields::perf::{port_counters as pc, port_counters_extended as pce};
use crate::ib::number::number;
use crate::named_file;

/// The default threshold file.
pub const THRESHOLD_FILE: &str = "/etc/infiniband-diags/error_thresholds";

/// Error counters in PortCounters and in PortCountersExtended, in report order.
pub const ERRORS: &[(Field, Field)] = &[
    (pc::SYMBOL_ERROR_COUNTER, pce::SYMBOL_ERROR_COUNTER),
    (pc::LINK_ERROR_RECOVERY_COUNTER, pce::LINK_ERROR_RECOVERY_COUNTER),
    (pc::LINK_DOWNED_COUNTER, pce::LINK_DOWNED_COUNTER),
    (pc::PORT_RCV_ERRORS, pce::PORT_RCV_ERRORS),
    (pc::PORT_RCV_REMOTE_PHYSICAL_ERRORS, pce::PORT_RCV_REMOTE_PHYSICAL_ERRORS),
    (pc::PORT_RCV_SWITCH_RELAY_ERRORS, pce::PORT_RCV_SWITCH_RELAY_ERRORS),
    (pc::PORT_XMIT_DISCARDS, pce::PORT_XMIT_DISCARDS),
    (pc::PORT_XMIT_CONSTRAINT_ERRORS, pce::PORT_XMIT_CONSTRAINT_ERRORS),
    (pc::PORT_RCV_CONSTRAINT_ERRORS, pce::PORT_RCV_CONSTRAINT_ERRORS),
    (pc::LOCAL_LINK_INTEGRITY_ERRORS, pce::LOCAL_LINK_INTEGRITY_ERRORS),
    (pc::EXCESSIVE_BUFFER_OVERRUN_ERRORS, pce::EXCESSIVE_BUFFER_OVERRUN_ERRORS),
    (pc::VL15_DROPPED, pce::VL15_DROPPED),
    (pc::PORT_XMIT_WAIT, pce::PORT_XMIT_WAIT),
];

/// Traffic counters in PortCounters.
pub const DATA: &[Field] = &[pc::PORT_XMIT_DATA, pc::PORT_RCV_DATA, pc::PORT_XMIT_PKTS, pc::PORT_RCV_PKTS];

/// Traffic counters in PortCountersExtended; the second half is optional.
pub const DATA_EXTENDED: &[Field] = &[
    pce::PORT_XMIT_DATA,
    pce::PORT_RCV_DATA,
    pce::PORT_XMIT_PKTS,
    pce::PORT_RCV_PKTS,
    pce::PORT_UNICAST_XMIT_PKTS,
    pce::PORT_UNICAST_RCV_PKTS,
    pce::PORT_MULTICAST_XMIT_PKTS,
    pce::PORT_MULTICAST_RCV_PKTS,
];

/// Thresholds above which an error counter makes a port bad.
#[derive(Clone, Debug, Default)]
pub struct Thresholds {
    limits: Vec<(&'static str, u64)>,
    text: Option<String>,
}

impl Thresholds {
    /// Reads the thresholds from a file; without the file all are 0.
    pub fn open(path: &str) -> Thresholds {
        named_file::read(path).map_or_else(|_| Thresholds::default(), |text| Thresholds::parse(&text))
    }

    /// Parses lines of `NAME=NUMBER`.
    pub fn parse(text: &str) -> Thresholds {
        let mut limits = Vec::new();
        let mut said = "Thresholds: ".to_owned();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, value)) = line.split_once('=') else { continue };
            if let Some((field, _)) = ERRORS.iter().find(|(field, _)| field.name == name) {
                let value = number(value);
                limits.push((field.name, value));
                said += &format!("[{name} = {value}]");
            }
        }
        Thresholds { limits, text: Some(said) }
    }

    /// Whether a counter's value exceeds its threshold.
    pub fn exceeded(&self, field: &Field, value: u64) -> bool {
        let limit = self.limits.iter().rev().find(|(name, _)| *name == field.name);
        value > limit.map_or(0, |(_, limit)| *limit)
    }

    /// The summary of the thresholds at the end of the report.
    pub fn text(&self) -> &str {
        // C's text for a null string.
        self.text.as_deref().unwrap_or("(null)")
    }
}

/// The counters to ignore; unknown names are skipped.
pub fn suppressed(names: &str) -> Vec<&'static str> {
    let known = |name: &str| pc::ALL.iter().find(|field| field.name == name).map(|field| field.name);
    names.split(',').filter_map(known).collect()
}

/// Formats a value with `%5.3f` and a unit, in steps of 1024; traffic is in four-byte words.
pub fn readable(value: u64, is_data: bool) -> String {
    const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];
    let mut steps = 0;
    let mut divisor = 1u64;
    let mut rest = value / 1024;
    while rest != 0 {
        steps += 1;
        divisor *= 1024;
        rest /= 1024;
    }
    let mut number = value as f32;
    if is_data {
        number *= 4.0;
        if number / divisor as f32 > 1024.0 {
            steps += 1;
            divisor = divisor.saturating_mul(1024);
        }
    }
    number /= divisor as f32;
    let unit = UNITS.get(steps).copied().unwrap_or("");
    let bytes = if is_data && steps < UNITS.len() { "B" } else { "" };
    format!("{number:5.3}{unit}{bytes}")
}

/// Whether a counter counts four-byte words of traffic.
pub fn is_data(field: &Field) -> bool {
    field.name == pc::PORT_XMIT_DATA.name || field.name == pc::PORT_RCV_DATA.name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_made_readable_as_the_original_does() {
        for (value, data, text) in [
            (9144, true, "35.719KB"),
            (0, true, "0.000B"),
            (127, false, "127.000"),
            (334_080, true, "1.274MB"),
            (4640, false, "4.531K"),
            (256, true, "1024.000B"),
            (257, true, "1.004KB"),
        ] {
            assert_eq!(readable(value, data), text, "{value}");
        }
    }

    #[test]
    fn thresholds_are_read_and_said() {
        let t = Thresholds::parse("# all\nSymbolErrorCounter=10\nodd\nNoSuch=1\nPortXmitWait=0x10\n");
        assert_eq!(t.text(), "Thresholds: [SymbolErrorCounter = 10][PortXmitWait = 16]");
        assert!(!t.exceeded(&pce::SYMBOL_ERROR_COUNTER, 10));
        assert!(t.exceeded(&pc::SYMBOL_ERROR_COUNTER, 11));
        assert!(t.exceeded(&pc::VL15_DROPPED, 1));
        assert_eq!(Thresholds::default().text(), "(null)");
    }

    #[test]
    fn unknown_names_suppress_nothing() {
        assert_eq!(suppressed("VL15Dropped,x,PortXmitWait"), ["VL15Dropped", "PortXmitWait"]);
    }
}
