//! A measurement case: an operation over a transport, one of three metrics, one message size.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::PerfArgs;

/// Largest message.
pub const SIZE_MAX: u32 = 1 << 30;
/// Most requests in flight on one queue pair.
pub const DEPTH_MAX: u32 = 4096;
/// Most queue pairs.
pub const QPS_MAX: u32 = 256;
/// Longest run of one case, in seconds.
const SECONDS_MAX: f64 = 86_400.0;

/// The operation to measure.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// SEND
    Send,
    /// RDMA WRITE
    Write,
    /// RDMA READ
    Read,
    /// Atomic fetch and add
    Atomic,
}

/// The transport.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// Reliable connection
    Rc,
    /// Unreliable connection
    Uc,
    /// Unreliable datagram
    Ud,
}

/// The metric.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// Bandwidth in bytes per second
    Bw,
    /// Latency of a message
    Lat,
    /// Message rate per second
    Rate,
}

/// One measurement case.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Case {
    /// The operation.
    pub op: Operation,
    /// The transport.
    pub transport: Transport,
    /// The metric.
    pub metric: Metric,
    /// Message size in bytes.
    pub size: u32,
    /// Maximum number of requests in flight on each queue pair.
    pub depth: u32,
    /// Number of queue pairs.
    pub qps: u32,
    /// Duration in seconds.
    pub seconds: f64,
}

const OPERATIONS: [Operation; 4] = [Operation::Send, Operation::Write, Operation::Read, Operation::Atomic];
const TRANSPORTS: [Transport; 3] = [Transport::Rc, Transport::Uc, Transport::Ud];
const METRICS: [Metric; 3] = [Metric::Bw, Metric::Lat, Metric::Rate];

/// Default message sizes in bytes.
const SIZE_BW: u32 = 65536;
const SIZE_SMALL: u32 = 8;

impl Transport {
    /// Whether the transport supports the operation.
    fn has(self, op: Operation) -> bool {
        match self {
            Transport::Rc => true,
            Transport::Uc => matches!(op, Operation::Send | Operation::Write),
            Transport::Ud => op == Operation::Send,
        }
    }

    /// Name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Rc => "RC",
            Transport::Uc => "UC",
            Transport::Ud => "UD",
        }
    }
}

impl Operation {
    /// Name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Send => "send",
            Operation::Write => "write",
            Operation::Read => "read",
            Operation::Atomic => "atomic",
        }
    }
}

impl Metric {
    /// Name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Bw => "bandwidth",
            Metric::Lat => "latency",
            Metric::Rate => "rate",
        }
    }
}

/// Default queue depth: enough requests in flight to keep the pipe full, without taking all memory for buffers.
fn default_depth(size: u32) -> u32 {
    ((8 << 20) / size).clamp(4, 128)
}

impl Case {
    /// A case with defaults for all other parameters.
    pub fn new(op: Operation, transport: Transport, metric: Metric, size: u32, seconds: f64) -> Case {
        Case { op, transport, metric, size, depth: default_depth(size), qps: 1, seconds }
    }

    /// Number of requests posted at a time.
    pub fn batch(&self) -> u32 {
        (65536 / self.size).clamp(1, 16).min(self.depth)
    }

    /// Whether all values are in the range that a server accepts.
    pub fn is_sane(&self) -> bool {
        (1..=SIZE_MAX).contains(&self.size)
            && (1..=DEPTH_MAX).contains(&self.depth)
            && (1..=QPS_MAX).contains(&self.qps)
            && self.seconds > 0.0
            && self.seconds <= SECONDS_MAX
            && self.transport.has(self.op)
            && (self.op != Operation::Atomic || self.size == 8)
    }
}

/// Parses a number of seconds.
pub fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= SECONDS_MAX => Ok(seconds),
        _ => Err("a number of seconds above 0 is wanted".to_owned()),
    }
}

/// The cases that a command line asks for. `mtu` limits the size of datagrams.
pub fn plan(args: &PerfArgs, mtu: u32) -> Vec<Case> {
    fn or_all<T: Copy>(chosen: &[T], all: &[T]) -> Vec<T> {
        if chosen.is_empty() { all.to_vec() } else { chosen.to_vec() }
    }
    let mut cases = Vec::new();
    for transport in or_all(&args.transport, &TRANSPORTS) {
        for op in or_all(&args.op, &OPERATIONS).into_iter().filter(|&op| transport.has(op)) {
            for metric in or_all(&args.metric, &METRICS) {
                // The bandwidth of 8-byte operations is measured only on request.
                if op == Operation::Atomic && metric == Metric::Bw && args.metric.is_empty() {
                    continue;
                }
                for size in sizes(args, op, transport, metric, mtu) {
                    let depth = args.depth.unwrap_or_else(|| default_depth(size));
                    let qps = if metric == Metric::Lat { 1 } else { args.qps };
                    cases.push(Case { op, transport, metric, size, depth, qps, seconds: args.duration });
                }
            }
        }
    }
    cases
}

fn sizes(args: &PerfArgs, op: Operation, transport: Transport, metric: Metric, mtu: u32) -> Vec<u32> {
    if op == Operation::Atomic {
        return vec![8];
    }
    let wanted: Vec<u32> = if args.all_sizes {
        (1..=23).map(|n| 1 << n).collect()
    } else if args.size.is_empty() {
        vec![if metric == Metric::Bw { SIZE_BW } else { SIZE_SMALL }]
    } else {
        args.size.clone()
    };
    if transport != Transport::Ud {
        return wanted;
    }
    let mut fitting: Vec<u32> = wanted.iter().map(|&size| size.min(mtu)).collect();
    fitting.dedup();
    fitting
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: PerfArgs,
    }

    fn plan_of(line: &str) -> Vec<Case> {
        let args = Line::try_parse_from(line.split_whitespace()).map(|l| l.args);
        plan(&args.unwrap_or_else(|e| panic!("{e}")), 1024)
    }

    #[test]
    fn everything_that_transports_can_do_is_measured() {
        let cases = plan_of("perf --local");
        assert_eq!(cases.len(), 3 * 3 + 2 + 2 * 3 + 3);
        assert!(cases.iter().all(Case::is_sane));
    }

    #[test]
    fn a_choice_narrows_the_plan() {
        let cases = plan_of("perf --local -o write,read -t bw -s 64,4096 -c rc");
        assert_eq!(cases.len(), 4);
        let cases = plan_of("perf --local -o send -c ud -t bw -a");
        assert!(cases.iter().all(|c| c.size <= 1024));
        assert_eq!(cases.iter().filter(|c| c.size == 1024).count(), 1);
    }

    #[test]
    fn a_hostile_case_is_noticed() {
        let good = Case::new(Operation::Send, Transport::Rc, Metric::Bw, 64, 1.0);
        assert!(good.is_sane());
        for bad in [
            Case { size: 0, ..good },
            Case { size: u32::MAX, ..good },
            Case { depth: 0, ..good },
            Case { qps: 100_000, ..good },
            Case { seconds: f64::NAN, ..good },
            Case { op: Operation::Read, transport: Transport::Ud, ..good },
            Case { op: Operation::Atomic, ..good },
        ] {
            assert!(!bad.is_sane(), "{bad:?}");
        }
    }
}
