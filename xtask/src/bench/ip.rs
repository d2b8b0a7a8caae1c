//! IP between two virtual hosts of a fabric, over their ib0: TCP's bandwidth by iperf3, and a ping-pong.

use super::program::{Program, figure_of, number_before, unless_installed, words};
use super::room::{Room, own_words};
use super::unit::Unit;
use anyhow::{Context, Result, ensure};
use std::time::Duration;
use weft_interop::{Fabric, Proc};

/// Two hosts on one switch.
const NETWORK: &[&str] = &["--star", "2"];
const SERVER: &str = "node1";
const CLIENT: &str = "node2";
/// node1's address.
const SERVER_ADDRESS: &str = "10.0.0.1";

const IPERF_PORT: u16 = 5201;
const PONG_PORT: u16 = 7778;
/// Time limit for a server to listen.
const LISTENS_WITHIN: Duration = Duration::from_secs(15);

/// A measure of an IP network.
#[derive(Clone, Copy, Debug)]
pub enum Measure {
    /// The bandwidth of one TCP connection.
    Bandwidth,
    /// Half a round trip of eight bytes over TCP, with polling on both ends.
    Latency,
}

impl Measure {
    /// Name for readers.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Bandwidth => "iperf3",
            Measure::Latency => "TCP ping-pong 8 B",
        }
    }

    /// Unit of the figure.
    pub fn unit(self) -> Unit {
        match self {
            Measure::Bandwidth => Unit::BytesPerSecond,
            Measure::Latency => Unit::Microseconds,
        }
    }

    /// Returns the Debian package that is missing, if any.
    pub fn missing(self) -> Option<&'static str> {
        match self {
            Measure::Bandwidth => unless_installed("iperf3", "iperf3"),
            Measure::Latency => None,
        }
    }

    /// Returns the client's command line for readers.
    pub fn client(self, address: &str, seconds: u32) -> String {
        match self {
            Measure::Bandwidth => format!("iperf3 -J -c {address} -t {seconds}"),
            Measure::Latency => format!("xtask bench-peer tcp-pong --client {address}:{PONG_PORT}"),
        }
    }

    /// Runs a server and its client by the given functions.
    pub fn between(
        self,
        room: &Room,
        address: &str,
        serve: impl Fn(&[String]) -> Result<Proc>,
        connect: impl Fn(&[String]) -> Result<Proc>,
    ) -> Result<f64> {
        let (port, server, client) = match self {
            Measure::Bandwidth => (IPERF_PORT, words("iperf3 -s -1"), words(&self.client(address, room.seconds))),
            Measure::Latency => {
                let server = own_words(&format!("tcp-pong {address}:{PONG_PORT}"))?;
                (PONG_PORT, server, own_words(&format!("tcp-pong --client {address}:{PONG_PORT}"))?)
            }
        };
        let mut server = serve(&server)?;
        ensure!(server.wait_listening(port, LISTENS_WITHIN), "no server: {}", server.kill().report());
        figure_of(connect(&client)?, room.seconds, |text| self.read(text))
    }

    fn read(self, text: &str) -> Option<f64> {
        match self {
            Measure::Bandwidth => {
                let report: serde_json::Value = serde_json::from_str(text.get(text.find('{')?..)?).ok()?;
                report["end"]["sum_received"]["bits_per_second"].as_f64().map(|bits| bits / 8.0)
            }
            Measure::Latency => number_before(text, "us"),
        }
    }
}

/// Mode of the interfaces.
#[derive(Clone, Copy, Debug)]
pub enum Mode {
    Datagram,
    Connected,
}

impl Mode {
    /// Returns the commands that put ib0 into this mode, and the largest MTU that the other end has, too.
    fn line(self) -> &'static str {
        match self {
            Mode::Datagram => "ip link set dev ib0 type ipoib mode datagram && ip link set dev ib0 mtu 2044",
            Mode::Connected => "ip link set dev ib0 type ipoib mode connected && ip link set dev ib0 mtu 65520",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Mode::Datagram => "datagram",
            Mode::Connected => "connected",
        }
    }
}

/// A measure over ib0.
#[derive(Clone, Copy, Debug)]
pub struct OverIb0 {
    pub mode: Mode,
    pub of: Measure,
}

impl Program for OverIb0 {
    fn name(&self) -> String {
        format!("{} over ib0, {} mode", self.of.name(), self.mode.name())
    }

    fn command(&self, seconds: u32) -> String {
        format!("weft up --star 2; weft run --host {CLIENT} -- {}", self.of.client(SERVER, seconds))
    }

    fn unit(&self) -> Unit {
        self.of.unit()
    }

    fn missing(&self) -> Option<&'static str> {
        self.of.missing()
    }

    fn measure(&self, room: &Room) -> Result<f64> {
        let lab = room.lab()?;
        let fabric = Fabric::managed(lab, NETWORK)?;
        for host in [SERVER, CLIENT] {
            fabric.run(host, &["sh", "-c", self.mode.line()])?.success().context("ib0's mode")?;
        }
        // The first packets find the path and, in connected mode, make the connection.
        let line = format!("for n in 1 2 3 4 5; do ping -c 3 -i 0.2 -W 2 {SERVER} && exit; done; exit 1");
        fabric.run(CLIENT, &["sh", "-c", &line])?.success().context("ib0 carries nothing")?;
        let start = |host: &str, words: &[String]| {
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            lab.start_line(&fabric.words(host, &words)?, &[])
        };
        let serve = |words: &[String]| start(SERVER, &room.on_server_core(words));
        self.of.between(room, SERVER_ADDRESS, serve, |words| start(CLIENT, &room.on_client_core(words)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iperf3_reports_bits() {
        let text = "warning: something\n{\"end\": {\"sum_received\": {\"bits_per_second\": 8e9}}}\n";
        assert_eq!(Measure::Bandwidth.read(text), Some(1e9));
        assert_eq!(Measure::Bandwidth.read("iperf3: error\n"), None);
        assert_eq!(Measure::Latency.read("typical 9.200 us\n"), Some(9.2));
    }
}
