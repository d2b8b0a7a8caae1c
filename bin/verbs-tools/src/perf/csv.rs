//! Results as comma-separated values, a line for each case (RFC 4180; no field needs quotes).

use super::{Case, Measured, Outcome};

/// The first line.
pub const HEAD: &str = "transport,operation,metric,size,depth,qps,seconds,bytes_per_second,messages_per_second,\
    messages,messages_lost,min_ns,mean_ns,p50_ns,p90_ns,p99_ns,p999_ns,max_ns\n";

/// Returns the line of a case. A bandwidth or a rate has no latencies, and a latency has no rate: these fields are empty.
pub fn line(measured: &Measured) -> String {
    let Case { op, transport, metric, size, depth, qps, seconds } = measured.case;
    let case = format!("{},{},{},{size},{depth},{qps},{seconds}", transport.name(), op.name(), metric.name());
    match &measured.outcome {
        Outcome::Flood { arrived, sent } => format!(
            "{case},{:.0},{:.1},{},{},,,,,,,\n",
            measured.bytes_per_second(),
            measured.messages_per_second(),
            arrived.messages,
            sent.saturating_sub(arrived.messages)
        ),
        Outcome::Latency { histogram: h, lost } => format!(
            "{case},,,{},{lost},{},{:.0},{},{},{},{},{}\n",
            h.count(),
            h.min(),
            h.mean(),
            h.quantile(0.5),
            h.quantile(0.9),
            h.quantile(0.99),
            h.quantile(0.999),
            h.max()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::histogram::Histogram;
    use super::super::measure::Throughput;
    use super::super::{Metric, Operation, Transport};
    use super::*;
    use std::time::Duration;

    fn fields(line: &str) -> Vec<&str> {
        line.trim_end().split(',').collect()
    }

    #[test]
    fn every_line_has_the_fields_of_the_first() {
        let head = fields(HEAD);
        let at = |name: &str| head.iter().position(|field| *field == name).expect("a field");

        let case = Case::new(Operation::Send, Transport::Uc, Metric::Bw, 4096, 1.0);
        let arrived = Throughput { messages: 900, took: Duration::from_secs(1) };
        let flood = line(&Measured { case, outcome: Outcome::Flood { arrived, sent: 1000 } });
        let flood = fields(&flood);
        assert_eq!(flood.len(), head.len());
        assert_eq!(flood[at("bytes_per_second")], "3686400");
        assert_eq!((flood[at("messages")], flood[at("messages_lost")]), ("900", "100"));
        assert_eq!(flood[at("p50_ns")], "");

        let case = Case::new(Operation::Send, Transport::Rc, Metric::Lat, 8, 0.5);
        let mut histogram = Histogram::default();
        (1..=9).for_each(|n| histogram.add(n));
        let latency = line(&Measured { case, outcome: Outcome::Latency { histogram, lost: 2 } });
        let latency = fields(&latency);
        assert_eq!(latency.len(), head.len());
        assert_eq!(latency[..7], ["RC", "send", "latency", "8", "128", "1", "0.5"]);
        assert_eq!((latency[at("p50_ns")], latency[at("max_ns")], latency[at("messages_lost")]), ("5", "9", "2"));
        assert_eq!(latency[at("bytes_per_second")], "");
    }
}
