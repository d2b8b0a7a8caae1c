//! The contests: what of ours runs against which peer, and the ratio that is wanted.

use anyhow::{Context, Result};
use serde::Serialize;
use std::time::Duration;
use weft_interop::{Lab, Pair, Proc, Who};

/// One measure of ours beside one of a peer.
pub struct Contest {
    pub name: &'static str,
    /// The MTU of the cable between the two namespaces.
    pub mtu: u32,
    ours: Ours,
    peer: Peer,
    /// The ratio ours/peer that is wanted.
    wanted: Wanted,
}

/// A perftest tool with its arguments, and the column of its result line.
struct Ours {
    tool: &'static str,
    args: &'static str,
    column: usize,
    scale: f64,
    unit: Unit,
    /// Runs for a time (`-D`) instead of a count.
    timed: bool,
}

enum Peer {
    /// One TCP stream with messages of the same size.
    QperfTcp { message: &'static str },
    /// A bare UDP ping-pong of the same payload.
    UdpPong { payload: usize },
    /// A number to reach.
    Figure(f64),
}

/// The bound of a ratio.
#[derive(Clone, Copy)]
enum Wanted {
    AtLeast(f64),
    AtMost(f64),
}

/// The unit of a figure.
#[derive(Clone, Copy, Serialize)]
pub enum Unit {
    #[serde(rename = "bytes/s")]
    BytesPerSecond,
    #[serde(rename = "us")]
    Microseconds,
    #[serde(rename = "messages/s")]
    MessagesPerSecond,
}

/// A contest's result.
#[derive(Serialize)]
pub struct Row {
    pub name: &'static str,
    pub unit: Unit,
    pub ours: f64,
    pub ours_all: Vec<f64>,
    pub peer: f64,
    pub peer_all: Vec<f64>,
    pub peer_name: &'static str,
    pub command: String,
    pub wanted: String,
    pub kept: bool,
}

const MIB: f64 = 1_048_576.0;
const WRITE_BW: Ours =
    Ours { tool: "ib_write_bw", args: "-s 1048576", column: 3, scale: MIB, unit: Unit::BytesPerSecond, timed: true };

/// Every contest; another is another entry.
pub const ALL: &[Contest] = &[
    Contest {
        name: "ib_write_bw -s 1048576, MTU 9000",
        mtu: 9000,
        ours: WRITE_BW,
        peer: Peer::QperfTcp { message: "1M" },
        wanted: Wanted::AtLeast(1.0),
    },
    Contest {
        name: "ib_write_bw -s 1048576, MTU 1500",
        mtu: 1500,
        ours: WRITE_BW,
        peer: Peer::QperfTcp { message: "1M" },
        wanted: Wanted::AtLeast(0.7),
    },
    Contest {
        name: "ib_send_lat -s 8",
        mtu: 1500,
        ours: Ours {
            tool: "ib_send_lat",
            args: "-s 8 -n 20000",
            column: 4,
            scale: 1.0,
            unit: Unit::Microseconds,
            timed: false,
        },
        peer: Peer::UdpPong { payload: 8 },
        wanted: Wanted::AtMost(1.3),
    },
    Contest {
        name: "ib_send_bw -s 8, message rate",
        mtu: 1500,
        ours: Ours {
            tool: "ib_send_bw",
            args: "-s 8 -n 1048576 -l 64 -Q 64 -t 1024 -r 1024 --recv_post_list=64",
            column: 4,
            scale: 1e6,
            unit: Unit::MessagesPerSecond,
            timed: false,
        },
        peer: Peer::Figure(1e6),
        wanted: Wanted::AtLeast(1.0),
    },
];

impl Contest {
    /// Ours and the peer in turns; the medians.
    pub fn hold(&self, lab: &Lab, turns: usize, seconds: u32) -> Result<Row> {
        let (mut ours, mut peer) = (Vec::new(), Vec::new());
        for _ in 0..turns {
            ours.push(self.ours.measure(lab, seconds)?);
            peer.push(self.peer.measure(lab, seconds)?);
        }
        let (ours_median, peer_median) = (median(&ours), median(&peer));
        let ratio = ours_median / peer_median;
        let (wanted, kept) = match self.wanted {
            Wanted::AtLeast(bound) => (format!("≥ {bound}"), ratio >= bound),
            Wanted::AtMost(bound) => (format!("≤ {bound}"), ratio <= bound),
        };
        Ok(Row {
            name: self.name,
            unit: self.ours.unit,
            ours: ours_median,
            ours_all: ours,
            peer: peer_median,
            peer_all: peer,
            peer_name: self.peer.name(),
            command: format!("{} {}", self.ours.tool, self.ours.arguments(seconds)),
            wanted,
            kept,
        })
    }
}

impl Ours {
    fn arguments(&self, seconds: u32) -> String {
        if self.timed { format!("{} -D {seconds}", self.args) } else { self.args.to_owned() }
    }

    fn measure(&self, lab: &Lab, seconds: u32) -> Result<f64> {
        let pair = Pair::new(self.tool, &self.arguments(seconds)).devices(lab)?.within(60);
        let outcome = pair.succeed(lab)?;
        let text = &outcome.client.text;
        let row = text.split("#bytes").nth(1).unwrap_or_default().lines().nth(1).unwrap_or_default();
        let value = row.split_whitespace().nth(self.column).and_then(|word| word.parse::<f64>().ok());
        Ok(value.with_context(|| format!("no result: {}", outcome.report()))? * self.scale)
    }
}

impl Peer {
    fn name(&self) -> &'static str {
        match self {
            Peer::QperfTcp { .. } => "(qperf tcp_bw)",
            Peer::UdpPong { .. } => "(bare UDP)",
            Peer::Figure(_) => "(aim)",
        }
    }

    fn measure(&self, lab: &Lab, seconds: u32) -> Result<f64> {
        match self {
            Peer::Figure(figure) => Ok(*figure),
            Peer::QperfTcp { message } => {
                let mut server = lab.start_bare(lab.server(), Who::Root, &["qperf"])?;
                server.wait_listening(19765, Duration::from_secs(5));
                let seconds = seconds.to_string();
                let words = ["qperf", lab.server().v4, "-m", message, "-t", &seconds, "-uu", "--unify_units"];
                let words = [&words[..], &["--precision", "6", "tcp_bw"]].concat();
                value_before(lab.start_bare(lab.client(), Who::Root, &words)?, "bytes/sec")
            }
            Peer::UdpPong { payload } => {
                let xtask = std::env::current_exe()?;
                let xtask = xtask.to_str().context("the path of xtask is not UTF-8")?;
                let (address, payload) = (format!("{}:7777", lab.server().v4), payload.to_string());
                let mut server = lab.start_bare(lab.server(), Who::Root, &[xtask, "udp-pong", &address])?;
                server.wait_until(Duration::from_secs(5), |p| p.text().contains("ready"));
                let words = [xtask, "udp-pong", "--client", &address, "--payload", &payload];
                value_before(lab.start_bare(lab.client(), Who::Root, &words)?, "us")
            }
        }
    }
}

/// Waits for the peer's end and reads the number before `unit`.
fn value_before(peer: Proc, unit: &str) -> Result<f64> {
    let ended = peer.wait(Duration::from_secs(60)).success()?;
    let words: Vec<_> = ended.text.split_whitespace().collect();
    let value = words.windows(2).find(|pair| pair[1] == unit).and_then(|pair| pair[0].replace(',', "").parse().ok());
    value.with_context(|| format!("no result: {}", ended.report()))
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A figure with its unit, for a reader.
pub fn figure(value: f64, unit: Unit) -> String {
    match unit {
        Unit::BytesPerSecond => format!("{:.2} GB/s", value / 1e9),
        Unit::Microseconds => format!("{value:.2} µs"),
        Unit::MessagesPerSecond => format!("{:.2} M/s", value / 1e6),
    }
}

/// The ratio of a row, for a reader.
pub fn ratio(row: &Row) -> String {
    format!("{:.2}", row.ours / row.peer)
}
