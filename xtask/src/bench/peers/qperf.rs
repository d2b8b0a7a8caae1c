//! qperf: one TCP stream, or a TCP ping-pong that sleeps as an event-driven program does.

use super::super::program::{Program, figure_of, number_before, unless_installed, words};
use super::super::room::Room;
use super::super::unit::Unit;
use anyhow::{Result, bail};
use std::time::Duration;

/// The port of qperf's server.
const PORT: u16 = 19765;
/// Time limit for the server to start listening.
const LISTENS_WITHIN: Duration = Duration::from_secs(10);

/// The measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// `tcp_bw`
    TcpBandwidth,
    /// `tcp_lat`
    TcpLatency,
}

/// A test of qperf.
#[derive(Clone, Copy, Debug)]
pub struct Qperf {
    pub test: Test,
    /// Bytes in a message.
    pub size: u64,
}

impl Qperf {
    fn test_name(self) -> &'static str {
        if self.test == Test::TcpBandwidth { "tcp_bw" } else { "tcp_lat" }
    }

    fn arguments(self, seconds: u32) -> String {
        format!("-m {} -t {seconds} -uu --precision 6 {}", self.size, self.test_name())
    }

    fn read(self, text: &str) -> Option<f64> {
        match self.test {
            Test::TcpBandwidth => number_before(text, "bytes/sec"),
            Test::TcpLatency => Some(number_before(text, "ns")? / 1e3),
        }
    }
}

impl Program for Qperf {
    fn name(&self) -> String {
        format!("qperf {}", self.test_name())
    }

    fn command(&self, seconds: u32) -> String {
        format!("qperf SERVER {}", self.arguments(seconds))
    }

    fn unit(&self) -> Unit {
        if self.test == Test::TcpBandwidth { Unit::BytesPerSecond } else { Unit::Microseconds }
    }

    fn missing(&self) -> Option<&'static str> {
        unless_installed("qperf", "qperf")
    }

    fn measure(&self, room: &Room) -> Result<f64> {
        let mut server = room.serve(&words("qperf"), &[])?;
        if !server.wait_listening(PORT, LISTENS_WITHIN) {
            bail!("qperf's server does not listen: {}", server.kill().report());
        }
        let line = words(&format!("qperf {} {}", room.lab()?.server().v4, self.arguments(room.seconds)));
        figure_of(room.connect(&line, &[])?, room.seconds, |text| self.read(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_units_are_read() {
        let bandwidth = Qperf { test: Test::TcpBandwidth, size: 1 << 20 };
        assert_eq!(bandwidth.read("tcp_bw:\n    bw  =  2749890560 bytes/sec\n"), Some(2_749_890_560.0));
        let latency = Qperf { test: Test::TcpLatency, size: 8 };
        assert_eq!(latency.read("tcp_lat:\n    latency   =     30431.2 ns\n"), Some(30.4312));
        assert_eq!(latency.read("failed to connect: Connection refused\n"), None);
        assert_eq!(bandwidth.command(3), "qperf SERVER -m 1048576 -t 3 -uu --precision 6 tcp_bw");
    }
}
