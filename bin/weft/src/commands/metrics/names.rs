//! Names of metrics by Prometheus' conventions, made from the names of counters.

/// Returns the metric of a counter: `weft_port_receive_packets_total` for `rcv_packets` of ports.
pub fn metric(subject: &str, counter: &str) -> String {
    let (verb, rest) = counter.split_once('_').unwrap_or(("", counter));
    let verb = match verb {
        "sent" | "send" | "xmit" => "transmit",
        "rcvd" | "rcv" => "receive",
        other => other,
    };
    let name = if verb.is_empty() { rest.to_owned() } else { format!("{verb}_{rest}") };
    let words = name.split('_').map(|word| match word {
        "pkts" => "packets",
        "rcvd" => "received",
        "xmit" => "transmit",
        "rcv" => "receive",
        "err" => "errors",
        "ops" => "operations",
        other => other,
    });
    format!("weft_{subject}_{}_total", words.collect::<Vec<_>>().join("_"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use weft_ipc::stat::{DeviceCounters, PortCounters, ProcessCounters};

    #[test]
    fn names_follow_the_conventions() {
        for (subject, counter, expected) in [
            ("adapter", "sent_pkts", "weft_adapter_transmit_packets_total"),
            ("adapter", "rcvd_bytes", "weft_adapter_receive_bytes_total"),
            ("adapter", "multicast_rcvd_pkts", "weft_adapter_multicast_received_packets_total"),
            ("adapter", "rcvd_rnr_err", "weft_adapter_receive_rnr_errors_total"),
            ("adapter", "ring_frames_sent", "weft_adapter_ring_frames_sent_total"),
            ("adapter", "memcpy_ops", "weft_adapter_memcpy_operations_total"),
            ("port", "rcv_bytes", "weft_port_receive_bytes_total"),
            ("port", "multicast_xmit_packets", "weft_port_multicast_transmit_packets_total"),
            ("process", "wakeups", "weft_process_wakeups_total"),
        ] {
            assert_eq!(metric(subject, counter), expected);
        }
    }

    #[test]
    fn no_two_counters_share_a_name() {
        for counters in [DeviceCounters::MEANINGS, PortCounters::MEANINGS, ProcessCounters::MEANINGS] {
            let names: BTreeSet<_> = counters.iter().map(|(name, _)| metric("x", name)).collect();
            assert_eq!(names.len(), counters.len());
        }
    }
}
