//! libfabric's ping-pong over its shm and tcp providers.

use super::super::program::{Program, figure_of, unless_installed, words};
use super::super::room::Room;
use super::super::unit::Unit;
use anyhow::{Result, bail};
use std::time::Duration;

/// The control port of fi_pingpong's server.
const PORT: u16 = 47592;
/// Time limit for the server to start listening.
const LISTENS_WITHIN: Duration = Duration::from_secs(10);

/// The provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// Shared memory: reliable datagram endpoints.
    Shm,
    /// TCP: message endpoints.
    Tcp,
}

/// fi_pingpong with one size.
#[derive(Clone, Copy, Debug)]
pub struct Pingpong {
    pub provider: Provider,
    /// Bytes in a message.
    pub size: u64,
    /// Round trips.
    pub round_trips: u64,
    /// Measure bytes per second each way instead of half the round trip.
    pub bandwidth: bool,
}

impl Pingpong {
    fn arguments(&self) -> String {
        let (provider, endpoint) = match self.provider {
            Provider::Shm => ("shm", "rdm"),
            Provider::Tcp => ("tcp", "msg"),
        };
        format!("-p {provider} -e {endpoint} -I {} -S {}", self.round_trips, self.size)
    }

    /// Reads `bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec`, decimal megabytes; fi_pingpong reports only the
    /// mean.
    fn read(&self, text: &str) -> Option<f64> {
        let row: Vec<_> = text.split("Mxfers/sec").nth(1)?.lines().nth(1)?.split_whitespace().collect();
        let number = |at: usize| row.get(at)?.parse::<f64>().ok();
        if self.bandwidth { Some(number(5)? * 1e6) } else { number(6) }
    }
}

impl Program for Pingpong {
    fn name(&self) -> String {
        let provider = if self.provider == Provider::Shm { "shm" } else { "tcp" };
        format!("libfabric {provider} ping-pong")
    }

    fn command(&self, _seconds: u32) -> String {
        format!("fi_pingpong {} SERVER", self.arguments())
    }

    fn unit(&self) -> Unit {
        if self.bandwidth { Unit::BytesPerSecond } else { Unit::Microseconds }
    }

    fn missing(&self) -> Option<&'static str> {
        unless_installed("fi_pingpong", "libfabric-bin")
    }

    fn measure(&self, room: &Room) -> Result<f64> {
        let line = words(&format!("fi_pingpong {}", self.arguments()));
        let mut server = room.serve(&line, &[])?;
        if !server.wait_listening(PORT, LISTENS_WITHIN) {
            bail!("libfabric's server does not listen: {}", server.kill().report());
        }
        let line = words(&format!("fi_pingpong {} {}", self.arguments(), room.lab()?.server().v4));
        figure_of(room.connect(&line, &[])?, room.seconds, |text| self.read(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_table_is_read() {
        let text = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n\
                    1m      2k      =2k      3.9g        0.42s  10039.74     104.44       0.01\n";
        let pingpong = Pingpong { provider: Provider::Shm, size: 1 << 20, round_trips: 2000, bandwidth: true };
        assert_eq!(pingpong.read(text).map(f64::round), Some(10_039_740_000.0));
        assert_eq!(Pingpong { bandwidth: false, ..pingpong }.read(text), Some(104.44));
        assert_eq!(pingpong.read("fi_getinfo(): -61 (No data available)\n"), None);
        assert_eq!(pingpong.command(1), "fi_pingpong -p shm -e rdm -I 2000 -S 1048576 SERVER");
    }
}
