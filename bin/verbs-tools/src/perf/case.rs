//! A measurement case: an operation over a transport, one of three metrics, one message size.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

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
    /// Bandwidth
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

impl Transport {
    /// Whether the transport supports the operation.
    pub(super) fn has(self, op: Operation) -> bool {
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
pub(super) fn default_depth(size: u32) -> u32 {
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

#[cfg(test)]
mod tests {
    use super::*;

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
