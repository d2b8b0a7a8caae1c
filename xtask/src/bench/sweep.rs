//! Bandwidth and latency by message size: the curves of the plot.

use super::peers::libfabric::{Pingpong, Provider};
use super::peers::memcpy::Memcpy;
use super::peers::process_vm::ProcessVm;
use super::peers::qperf::{Qperf, Test};
use super::peers::ucx::{self, Transports, Ucx};
use super::peers::udp_pong::UdpPong;
use super::perftest::{Amount, Column, Perftest};
use super::program::Program;
use super::room::{Place, Room};
use super::statistics::Sample;
use super::unit::Unit;
use serde::Serialize;

/// The sizes of a full run, in bytes.
pub const SIZES: &[u64] = &[8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 1 << 20, 8 << 20];
/// The sizes of a quick run, in bytes.
pub const SIZES_QUICK: &[u64] = &[8, 4 << 10, 64 << 10, 1 << 20];

/// Bytes transferred to measure a bandwidth at one size.
const BYTES_OF_BANDWIDTH: u64 = 1 << 30;
/// Bytes transferred to measure a latency at one size.
const BYTES_OF_LATENCY: u64 = 64 << 20;
/// Maximum datagram of the bare ping-pong.
const DATAGRAM_MAX: u64 = 65_000;

/// A picture with several curves.
pub struct Panel {
    /// Name, which `--filter` searches.
    pub name: &'static str,
    pub place: Place,
    pub unit: Unit,
    pub series: &'static [Series],
}

/// One curve.
pub struct Series {
    pub name: &'static str,
    /// Whether it is ours, which the plot highlights.
    pub ours: bool,
    /// Returns the program for a size; `None` if the series cannot measure it.
    at: fn(u64) -> Option<Box<dyn Program>>,
}

/// Results of a panel.
#[derive(Serialize)]
pub struct Swept {
    pub name: &'static str,
    pub place: Place,
    pub unit: Unit,
    pub curves: Vec<Curve>,
}

/// Results of a series.
#[derive(Serialize)]
pub struct Curve {
    pub name: &'static str,
    pub ours: bool,
    pub points: Vec<Point>,
}

/// The result of one size.
#[derive(Serialize)]
pub struct Point {
    pub size: u64,
    pub sample: Sample,
}

fn messages(size: u64, bytes: u64, most: u64) -> u64 {
    (bytes / size).clamp(100, most)
}

fn bandwidth(tool: &'static str, size: u64) -> Perftest {
    let amount = Amount::Messages(messages(size, BYTES_OF_BANDWIDTH, 50_000));
    Perftest { tool, size, extra: "", env: &[], amount, column: Column::Bandwidth }
}

fn latency(tool: &'static str, size: u64) -> Perftest {
    let amount = Amount::Messages(messages(size, BYTES_OF_LATENCY, 10_000));
    Perftest { tool, size, extra: "", env: &[], amount, column: Column::Latency }
}

fn ucx(test: &'static str, transports: Transports, size: u64, column: ucx::Column) -> Ucx {
    let shared = transports == Transports::Shared;
    let messages = match column {
        ucx::Column::Latency => messages(size, BYTES_OF_LATENCY, if shared { 500_000 } else { 10_000 }),
        _ => messages(size, BYTES_OF_BANDWIDTH * if shared { 10 } else { 1 }, if shared { 2_000_000 } else { 50_000 }),
    };
    Ucx { test, transports, size, messages, column }
}

fn pingpong(provider: Provider, size: u64) -> Pingpong {
    Pingpong { provider, size, round_trips: messages(size, BYTES_OF_LATENCY, 10_000), bandwidth: false }
}

/// Defines a series of ours or of a peer.
macro_rules! series {
    ($ours:literal, $name:literal, $size:ident => $program:expr) => {
        Series { name: $name, ours: $ours, at: |$size| Some(Box::new($program)) }
    };
}

/// Every panel, in the plot's order.
pub const ALL: &[Panel] = &[
    Panel {
        name: "sweep: bandwidth, same host",
        place: Place::SameHost,
        unit: Unit::BytesPerSecond,
        series: &[
            series!(true, "ib_write_bw", size => bandwidth("ib_write_bw", size)),
            series!(true, "ib_write_bw, not shared", size =>
                Perftest { env: &[("WEFT_SHARE", "off")], ..bandwidth("ib_write_bw", size) }),
            series!(true, "ib_send_bw", size => bandwidth("ib_send_bw", size)),
            series!(false, "memcpy", size => Memcpy { size }),
            series!(false, "process_vm_writev", size => ProcessVm { size, read: false }),
            series!(false, "UCX put_bw", size =>
                ucx("ucp_put_bw", Transports::Shared, size, ucx::Column::Bandwidth)),
        ],
    },
    Panel {
        name: "sweep: latency, same host",
        place: Place::SameHost,
        unit: Unit::Microseconds,
        series: &[
            series!(true, "ib_write_lat", size => latency("ib_write_lat", size)),
            series!(true, "ib_send_lat", size => latency("ib_send_lat", size)),
            series!(false, "UCX put_lat", size => ucx("ucp_put_lat", Transports::Shared, size, ucx::Column::Latency)),
            series!(false, "UCX tag_lat", size => ucx("tag_lat", Transports::Shared, size, ucx::Column::Latency)),
            series!(false, "libfabric shm", size => pingpong(Provider::Shm, size)),
        ],
    },
    Panel {
        name: "sweep: bandwidth, two namespaces, MTU 9000",
        place: Place::TwoHosts { mtu: 9000 },
        unit: Unit::BytesPerSecond,
        series: &[
            series!(true, "ib_write_bw", size => bandwidth("ib_write_bw", size)),
            series!(true, "ib_send_bw", size => bandwidth("ib_send_bw", size)),
            series!(false, "qperf tcp_bw", size => Qperf { test: Test::TcpBandwidth, size }),
            series!(false, "UCX tag_bw, TCP", size => ucx("tag_bw", Transports::Tcp, size, ucx::Column::Bandwidth)),
        ],
    },
    Panel {
        name: "sweep: latency, two namespaces, MTU 9000",
        place: Place::TwoHosts { mtu: 9000 },
        unit: Unit::Microseconds,
        series: &[
            series!(true, "ib_send_lat", size => latency("ib_send_lat", size)),
            Series {
                name: "bare UDP, polling",
                ours: false,
                at: |payload| (payload <= DATAGRAM_MAX).then(|| Box::new(UdpPong { payload }) as Box<dyn Program>),
            },
            series!(false, "UCX tag_lat, TCP", size => ucx("tag_lat", Transports::Tcp, size, ucx::Column::Latency)),
            series!(false, "libfabric tcp", size => pingpong(Provider::Tcp, size)),
        ],
    },
];

impl Panel {
    /// Measures every series at every size, in turns. A program that is not installed or fails yields no points; after
    /// a failure, larger sizes are skipped, because a failure takes long.
    pub fn sweep(&self, room: &Room, sizes: &[u64], turns: usize) -> Swept {
        let mut curves: Vec<_> =
            self.series.iter().map(|s| Curve { name: s.name, ours: s.ours, points: Vec::new() }).collect();
        let mut failed = vec![false; curves.len()];
        for &size in sizes {
            let programs: Vec<_> = self.series.iter().map(|series| (series.at)(size)).collect();
            let mut figures = vec![Vec::new(); programs.len()];
            for _ in 0..turns {
                for (number, program) in programs.iter().enumerate() {
                    let Some(program) = program.as_deref().filter(|p| !failed[number] && p.missing().is_none()) else {
                        continue;
                    };
                    match program.measure(room) {
                        Ok(figure) => figures[number].push(figure),
                        Err(error) => {
                            eprintln!("{}: {error:#}", program.name());
                            failed[number] = true;
                        }
                    }
                }
            }
            for (curve, figures) in curves.iter_mut().zip(&figures) {
                curve.points.extend(Sample::of(figures).map(|sample| Point { size, sample }));
            }
        }
        Swept { name: self.name, place: self.place, unit: self.unit, curves }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_measures_what_its_panel_shows() {
        for panel in ALL {
            for series in panel.series {
                let program = (series.at)(8).expect("every program can do eight bytes");
                assert_eq!(program.unit(), panel.unit, "{}: {}", panel.name, series.name);
            }
        }
    }

    #[test]
    fn a_size_takes_neither_long_nor_too_few_messages() {
        assert_eq!(messages(8, BYTES_OF_BANDWIDTH, 50_000), 50_000);
        assert_eq!(messages(1 << 20, BYTES_OF_BANDWIDTH, 50_000), 1024);
        assert_eq!(messages(8 << 20, BYTES_OF_LATENCY, 10_000), 100);
    }
}
