//! UCX, the communication layer under most MPIs: its own benchmark over its own shared-memory or TCP transports.

use super::super::perftest::MIB;
use super::super::program::{Program, figure_of, unless_installed};
use super::super::room::Room;
use super::super::unit::Unit;
use anyhow::{Result, bail};
use std::time::Duration;
use weft_interop::proc::on_a_terminal;

/// The port of ucx_perftest's server.
const PORT: u16 = 13337;
/// Time limit for the server to start listening.
const LISTENS_WITHIN: Duration = Duration::from_secs(10);

/// The transports that UCX may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transports {
    /// POSIX shared memory and process_vm_*; both ends on one host.
    Shared,
    Tcp,
}

impl Transports {
    /// Returns the value of UCX_TLS.
    fn value(self) -> &'static str {
        match self {
            Transports::Shared => "posix,cma,self",
            Transports::Tcp => "tcp,self",
        }
    }
}

/// A test of ucx_perftest.
#[derive(Clone, Copy, Debug)]
pub struct Ucx {
    /// `ucp_put_bw`, `tag_lat`, ...
    pub test: &'static str,
    pub transports: Transports,
    /// Bytes in a message.
    pub size: u64,
    /// Number of messages: it cannot run for a time.
    pub messages: u64,
    pub column: Column,
}

/// The column of its last line that contains the figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Half the round trip, the median.
    Latency,
    /// MiB per second over the whole run.
    Bandwidth,
    /// Messages per second over the whole run.
    Rate,
}

impl Column {
    /// Reads the figure from the only line without a frame: count; time as median, average, overall; bandwidth as
    /// average, overall; rate as average, overall.
    fn read(self, text: &str) -> Option<f64> {
        let numbers = |line: &str| line.split_whitespace().map(|word| word.parse().ok()).collect::<Option<Vec<f64>>>();
        let row = text.lines().filter_map(numbers).rfind(|numbers| numbers.len() == 8)?;
        Some(match self {
            Column::Latency => row[1],
            Column::Bandwidth => row[5] * MIB,
            Column::Rate => row[7],
        })
    }
}

impl Ucx {
    fn arguments(&self) -> String {
        // Few warm-up rounds for large messages, as the warm-up counts messages too.
        let warm_up = (self.messages / 100).clamp(10, 10_000);
        format!("-t {} -s {} -n {} -w {warm_up} -f", self.test, self.size, self.messages)
    }
}

impl Program for Ucx {
    fn name(&self) -> String {
        let over = if self.transports == Transports::Tcp { " over TCP" } else { "" };
        format!("UCX {}{over}", self.test.trim_start_matches("ucp_"))
    }

    fn command(&self, _seconds: u32) -> String {
        format!("UCX_TLS={} ucx_perftest SERVER {}", self.transports.value(), self.arguments())
    }

    fn unit(&self) -> Unit {
        match self.column {
            Column::Latency => Unit::Microseconds,
            Column::Bandwidth => Unit::BytesPerSecond,
            Column::Rate => Unit::MessagesPerSecond,
        }
    }

    fn missing(&self) -> Option<&'static str> {
        unless_installed("ucx_perftest", "ucx-utils")
    }

    fn measure(&self, room: &Room) -> Result<f64> {
        let env = [("UCX_TLS", self.transports.value())];
        let line = on_a_terminal(&["ucx_perftest", &self.arguments()]);
        let mut server = room.serve(&line, &env)?;
        if !server.wait_listening(PORT, LISTENS_WITHIN) {
            bail!("UCX's server does not listen: {}", server.kill().report());
        }
        let line = on_a_terminal(&["ucx_perftest", room.lab()?.server().v4, &self.arguments()]);
        figure_of(room.connect(&line, &env)?, room.seconds, |text| self.column.read(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUT_BW: &str = "\
+--------------+--------------+------------------------------+---------------------+-----------------------+
|              |              |       overhead (usec)        |   bandwidth (MB/s)  |  message rate (msg/s) |
+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+
|     Test     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |  overall  |
+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+
                       20000     21.632    22.079    22.080    45290.41   45291.41       45290       45291
";

    #[test]
    fn its_last_line_is_read() {
        assert_eq!(Column::Bandwidth.read(PUT_BW), Some(45291.41 * MIB));
        assert_eq!(Column::Latency.read(PUT_BW), Some(21.632));
        assert_eq!(Column::Rate.read(PUT_BW), Some(45291.0));
        assert_eq!(Column::Rate.read("[1] UCX  ERROR no such transport\n"), None);
    }

    #[test]
    fn the_command_names_the_transports() {
        let put = Ucx {
            test: "ucp_put_bw",
            transports: Transports::Shared,
            size: 1 << 20,
            messages: 20_000,
            column: Column::Bandwidth,
        };
        let line = "UCX_TLS=posix,cma,self ucx_perftest SERVER -t ucp_put_bw -s 1048576 -n 20000 -w 200 -f";
        assert_eq!(put.command(3), line);
        assert_eq!(put.name(), "UCX put_bw");
    }
}
