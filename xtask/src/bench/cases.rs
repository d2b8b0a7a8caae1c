//! Every case, with its goals. Another case is another entry.
//!
//! Limits (memcpy, process_vm_*, a bare UDP loop) show what the machine can do without any protocol; peers (UCX,
//! libfabric, qperf, Linux's rxe, and ours under other conditions) are the alternatives for a user.

use super::between_hosts::BetweenHosts;
use super::case::{Case, Rival};
use super::cmtime::Cmtime;
use super::guest::{Carrier, InGuest, Protocol};
use super::guest_pong::PongInGuest;
use super::idle::Idle;
use super::ip::{Measure, Mode, OverIb0};
use super::iwarp::OverIwarp;
use super::peers::cache_line::CacheLine;
use super::peers::libfabric::{Pingpong, Provider};
use super::peers::memcpy::Memcpy;
use super::peers::process_vm::ProcessVm;
use super::peers::qperf::{Qperf, Test};
use super::peers::tcp_pong::TcpPong;
use super::peers::tun_relay::TunRelay;
use super::peers::ucx::{self, Transports, Ucx};
use super::peers::udp_pong::UdpPong;
use super::peers::udp_stream::UdpStream;
use super::perftest::{Amount, Column, Perftest};
use super::room::Place;
use super::sa_rate::{Asked, Sa, SaRate};
use super::sleeps::Sleeps;
use super::smp_rate::{Server, SmpRate};
use super::statistics::Bound;
use super::storage;
use super::subnet;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

const NINE_THOUSAND: Place = Place::TwoHosts { mtu: 9000 };
const FIFTEEN_HUNDRED: Place = Place::TwoHosts { mtu: 1500 };

/// Processes share no memory: copies go through the kernel.
const UNSHARED: &[(&str, &str)] = &[("WEFT_SHARE", "off")];
const LOSS: &[(&str, &str)] = &[("WEFT_FAULT", "loss=1%,seed=7")];

/// Lists of 64 requests, a completion each, as in a program that sends many small messages.
const BATCHED: &str = "-l 64 -Q 64 -t 1024 -r 1024 --recv_post_list=64";

const fn bandwidth(tool: &'static str, size: u64) -> Perftest {
    Perftest { tool, size, extra: "", env: &[], amount: Amount::Seconds, column: Column::Bandwidth }
}

const fn latency(tool: &'static str, size: u64) -> Perftest {
    Perftest { tool, size, extra: "", env: &[], amount: Amount::Messages(20_000), column: Column::Latency }
}

const WRITE_1M: Perftest = bandwidth("ib_write_bw", MIB);
const READ_1M: Perftest = bandwidth("ib_read_bw", MIB);
const RATE: Perftest =
    Perftest { extra: BATCHED, amount: Amount::Messages(4 * MIB), column: Column::Rate, ..bandwidth("ib_send_bw", 8) };
const ONE_QP: Perftest = Perftest { column: Column::Rate, ..bandwidth("ib_write_bw", 4 * KIB) };
const MANY_QPS: Perftest = Perftest { extra: "-q 1000", ..ONE_QP };

/// Both ends sleep until an event arrives.
const EVENTS: Perftest = Perftest { extra: "-e", ..latency("ib_send_lat", 8) };

const UCX_PUT_1M: Ucx = Ucx {
    test: "ucp_put_bw",
    transports: Transports::Shared,
    size: MIB,
    messages: 40_000,
    column: ucx::Column::Bandwidth,
};
const UCX_LATENCY: Ucx =
    Ucx { test: "tag_lat", size: 8, messages: 1_000_000, column: ucx::Column::Latency, ..UCX_PUT_1M };
const UCX_RATE: Ucx = Ucx { test: "tag_bw", size: 8, messages: 10_000_000, column: ucx::Column::Rate, ..UCX_PUT_1M };
const UCX_TCP: Ucx = Ucx { test: "tag_bw", transports: Transports::Tcp, messages: 4_000, ..UCX_PUT_1M };

/// A bandwidth and a latency in the guest, where all hardware is emulated.
const fn guest_bandwidth(carrier: Carrier, protocol: Protocol) -> InGuest {
    InGuest { carrier, protocol, tool: "ib_write_bw", size: 64 * KIB, messages: 2_000, column: Column::Bandwidth }
}

const fn guest_latency(carrier: Carrier, protocol: Protocol) -> InGuest {
    InGuest { carrier, protocol, tool: "ib_send_lat", size: 8, messages: 2_000, column: Column::Latency }
}

/// iWARP beside TCP itself, on one cable.
macro_rules! iwarp_bandwidth {
    ($name:literal, $place:expr, $tool:literal) => {
        Case {
            name: $name,
            place: $place,
            ours: &OverIwarp { of: bandwidth($tool, 64 * KIB) },
            rivals: &[Rival::at_least(0.9, &Qperf { test: Test::TcpBandwidth, size: 64 * KIB })],
            aim: None,
        }
    };
}

/// Management datagrams served to one client: ours beside ibsim's.
macro_rules! smp_rate {
    ($name:literal, $window:literal) => {
        Case {
            name: $name,
            place: Place::SameHost,
            ours: &SmpRate { server: Server::Weft, window: $window },
            rivals: &[Rival::at_least(5.0, &SmpRate { server: Server::IbSim, window: $window })],
            aim: Some(Bound::AtLeast(200_000.0)),
        }
    };
}

/// Answers of a subnet administrator to several hosts: ours beside OpenSM's.
macro_rules! sa_rate {
    ($name:literal, $asked:expr, $clients:literal, $window:literal, $aim:literal) => {
        Case {
            name: $name,
            place: Place::SameHost,
            ours: &SaRate { sa: Sa::Weft, asked: $asked, clients: $clients, window: $window },
            rivals: &[Rival::told(&SaRate { sa: Sa::OpenSm, asked: $asked, clients: $clients, window: $window })],
            aim: Some(Bound::AtLeast($aim)),
        }
    };
}

/// All cases, in the order of the table.
pub const ALL: &[Case] = &[
    Case {
        name: "ib_write_bw 1 MiB",
        place: Place::SameHost,
        ours: &WRITE_1M,
        rivals: &[Rival::at_least(0.9, &Memcpy { size: MIB }), Rival::at_least(0.95, &UCX_PUT_1M)],
        aim: None,
    },
    Case {
        name: "ib_read_bw 1 MiB",
        place: Place::SameHost,
        ours: &READ_1M,
        rivals: &[
            Rival::at_least(0.9, &Memcpy { size: MIB }),
            Rival::at_least(0.95, &UCX_PUT_1M),
            Rival::told(&Ucx { test: "ucp_get", ..UCX_PUT_1M }),
        ],
        aim: None,
    },
    Case {
        name: "ib_write_bw 1 MiB, pages not shared",
        place: Place::SameHost,
        ours: &Perftest { env: UNSHARED, ..WRITE_1M },
        rivals: &[Rival::at_least(0.9, &ProcessVm { size: MIB, read: false })],
        aim: None,
    },
    Case {
        name: "ib_read_bw 1 MiB, pages not shared",
        place: Place::SameHost,
        ours: &Perftest { env: UNSHARED, ..READ_1M },
        rivals: &[Rival::at_least(0.9, &ProcessVm { size: MIB, read: true })],
        aim: None,
    },
    Case {
        name: "ib_send_bw 64 KiB",
        place: Place::SameHost,
        ours: &bandwidth("ib_send_bw", 64 * KIB),
        rivals: &[
            Rival::at_least(0.7, &Memcpy { size: 64 * KIB }),
            Rival::told(&Ucx { test: "tag_bw", size: 64 * KIB, messages: 200_000, ..UCX_PUT_1M }),
            Rival::told(&Pingpong { provider: Provider::Shm, size: 64 * KIB, round_trips: 20_000, bandwidth: true }),
        ],
        aim: None,
    },
    Case {
        name: "ib_send_bw 64 KiB, pages not shared",
        place: Place::SameHost,
        ours: &Perftest { env: UNSHARED, ..bandwidth("ib_send_bw", 64 * KIB) },
        rivals: &[Rival::at_least(0.7, &ProcessVm { size: 64 * KIB, read: true })],
        aim: None,
    },
    Case {
        name: "ib_write_lat 8 B",
        place: Place::SameHost,
        ours: &Perftest { amount: Amount::Messages(200_000), ..latency("ib_write_lat", 8) },
        rivals: &[Rival::told(&CacheLine), Rival::told(&Ucx { test: "ucp_put_lat", ..UCX_LATENCY })],
        aim: Some(Bound::AtMost(0.15)),
    },
    Case {
        name: "ib_send_lat 8 B",
        place: Place::SameHost,
        ours: &Perftest { amount: Amount::Messages(200_000), ..latency("ib_send_lat", 8) },
        rivals: &[
            Rival::told(&CacheLine),
            Rival::told(&UCX_LATENCY),
            Rival::told(&Pingpong { provider: Provider::Shm, size: 8, round_trips: 500_000, bandwidth: false }),
        ],
        aim: Some(Bound::AtMost(0.25)),
    },
    Case {
        name: "ib_send_bw 8 B, message rate",
        place: Place::SameHost,
        ours: &RATE,
        rivals: &[Rival::told(&UCX_RATE)],
        aim: Some(Bound::AtLeast(8e6)),
    },
    Case {
        name: "1,000 busy QPs against 1 (ib_write_bw 4 KiB)",
        place: Place::SameHost,
        ours: &MANY_QPS,
        rivals: &[Rival::at_least(0.8, &ONE_QP)],
        aim: None,
    },
    Case { name: "ib_send_lat 8 B, completion events", place: Place::SameHost, ours: &EVENTS, rivals: &[], aim: None },
    Case {
        name: "ib_send_lat 8 B, completion events: sleeps a completion",
        place: Place::SameHost,
        ours: &Sleeps { of: EVENTS },
        rivals: &[],
        aim: Some(Bound::AtMost(1.0)),
    },
    Case {
        name: "1,000 connections by the connection manager",
        place: Place::SameHost,
        ours: &Cmtime { count: 1_000 },
        rivals: &[],
        aim: Some(Bound::AtMost(2.0)),
    },
    Case {
        name: "ib_write_bw 1 MiB, between virtual hosts",
        place: Place::SameHost,
        ours: &BetweenHosts { of: WRITE_1M },
        rivals: &[Rival::at_least(0.9, &WRITE_1M)],
        aim: None,
    },
    smp_rate!("directed-route SMPs, 1 under way", 1),
    smp_rate!("directed-route SMPs, 4 under way", 4),
    smp_rate!("directed-route SMPs, 16 under way", 16),
    smp_rate!("directed-route SMPs, 64 under way", 64),
    sa_rate!("subnet administration: paths, 1 host", Asked::Paths, 1, 64, 100_000.0),
    sa_rate!("subnet administration: paths, 4 hosts", Asked::Paths, 4, 64, 100_000.0),
    sa_rate!("subnet administration: joins, 4 hosts", Asked::Joins, 4, 16, 10_000.0),
    Case { name: "idle", place: Place::SameHost, ours: &Idle, rivals: &[], aim: Some(Bound::AtMost(0.0)) },
    Case {
        name: "ib_write_bw 1 MiB",
        place: NINE_THOUSAND,
        ours: &WRITE_1M,
        rivals: &[
            Rival::at_least(1.5, &Qperf { test: Test::TcpBandwidth, size: MIB }),
            Rival::told(&UdpStream { place: NINE_THOUSAND }),
            Rival::told(&UCX_TCP),
            Rival::told(&Pingpong { provider: Provider::Tcp, size: MIB, round_trips: 1_000, bandwidth: true }),
        ],
        aim: None,
    },
    Case {
        name: "ib_read_bw 1 MiB",
        place: NINE_THOUSAND,
        ours: &READ_1M,
        rivals: &[Rival::told(&Qperf { test: Test::TcpBandwidth, size: MIB })],
        aim: None,
    },
    Case {
        name: "ib_write_bw 1 MiB, 1% loss",
        place: NINE_THOUSAND,
        ours: &Perftest { env: LOSS, ..WRITE_1M },
        rivals: &[Rival::at_least(0.5, &WRITE_1M)],
        aim: None,
    },
    Case {
        name: "1,000 busy QPs against 1 (ib_write_bw 4 KiB)",
        place: NINE_THOUSAND,
        ours: &MANY_QPS,
        rivals: &[Rival::at_least(0.8, &ONE_QP)],
        aim: None,
    },
    Case {
        name: "ib_write_bw 1 MiB",
        place: FIFTEEN_HUNDRED,
        ours: &WRITE_1M,
        rivals: &[
            Rival::at_least(1.0, &Qperf { test: Test::TcpBandwidth, size: MIB }),
            Rival::told(&UdpStream { place: FIFTEEN_HUNDRED }),
        ],
        aim: None,
    },
    Case {
        name: "ib_send_lat 8 B",
        place: FIFTEEN_HUNDRED,
        ours: &latency("ib_send_lat", 8),
        rivals: &[
            Rival::at_most(1.15, &UdpPong { payload: 8 }),
            Rival::told(&Ucx { transports: Transports::Tcp, messages: 50_000, ..UCX_LATENCY }),
            Rival::told(&Pingpong { provider: Provider::Tcp, size: 8, round_trips: 20_000, bandwidth: false }),
        ],
        aim: None,
    },
    Case {
        name: "ib_write_lat 8 B, both spin on memory",
        place: FIFTEEN_HUNDRED,
        ours: &Perftest { amount: Amount::Messages(2_000), ..latency("ib_write_lat", 8) },
        rivals: &[Rival::told(&UdpPong { payload: 8 })],
        aim: None,
    },
    Case {
        name: "ib_send_lat 8 B, completion events",
        place: FIFTEEN_HUNDRED,
        ours: &EVENTS,
        rivals: &[Rival::told(&Qperf { test: Test::TcpLatency, size: 8 })],
        aim: None,
    },
    Case {
        name: "ib_send_lat 8 B, completion events: sleeps a completion",
        place: FIFTEEN_HUNDRED,
        ours: &Sleeps { of: EVENTS },
        rivals: &[],
        aim: Some(Bound::AtMost(1.0)),
    },
    Case {
        name: "ib_send_bw 8 B, message rate",
        place: FIFTEEN_HUNDRED,
        ours: &RATE,
        rivals: &[],
        aim: Some(Bound::AtLeast(2e6)),
    },
    iwarp_bandwidth!("iWARP: ib_write_bw 64 KiB", NINE_THOUSAND, "ib_write_bw"),
    iwarp_bandwidth!("iWARP: ib_read_bw 64 KiB", NINE_THOUSAND, "ib_read_bw"),
    iwarp_bandwidth!("iWARP: ib_write_bw 64 KiB", FIFTEEN_HUNDRED, "ib_write_bw"),
    Case {
        name: "iWARP: ib_send_lat 8 B",
        place: FIFTEEN_HUNDRED,
        ours: &OverIwarp { of: latency("ib_send_lat", 8) },
        rivals: &[Rival::at_most(1.15, &TcpPong { payload: 8 })],
        aim: None,
    },
    Case {
        name: "ib0, connected mode: iperf3",
        place: NINE_THOUSAND,
        ours: &OverIb0 { mode: Mode::Connected, of: Measure::Bandwidth },
        rivals: &[Rival::at_least(0.7, &TunRelay { mtu: 65520, of: Measure::Bandwidth })],
        aim: None,
    },
    Case {
        name: "ib0, datagram mode: iperf3",
        place: NINE_THOUSAND,
        ours: &OverIb0 { mode: Mode::Datagram, of: Measure::Bandwidth },
        rivals: &[Rival::at_least(0.5, &TunRelay { mtu: 2044, of: Measure::Bandwidth })],
        aim: None,
    },
    Case {
        name: "ib0, datagram mode: TCP ping-pong 8 B",
        place: NINE_THOUSAND,
        ours: &OverIb0 { mode: Mode::Datagram, of: Measure::Latency },
        rivals: &[Rival::at_most(1.3, &TunRelay { mtu: 2044, of: Measure::Latency })],
        aim: None,
    },
    Case {
        name: "guest: ib_write_bw 64 KiB",
        place: Place::Guest { protocol: Protocol::Roce },
        ours: &guest_bandwidth(Carrier::Ours, Protocol::Roce),
        rivals: &[Rival::at_least(1.5, &guest_bandwidth(Carrier::Kernel, Protocol::Roce))],
        aim: None,
    },
    Case {
        name: "guest: ib_send_lat 8 B",
        place: Place::Guest { protocol: Protocol::Roce },
        ours: &guest_latency(Carrier::Ours, Protocol::Roce),
        rivals: &[
            Rival::at_most(1.0, &guest_latency(Carrier::Kernel, Protocol::Roce)),
            Rival::told(&PongInGuest { payload: 8, count: 2_000 }),
        ],
        aim: None,
    },
    Case {
        name: "guest: iWARP: ib_write_bw 64 KiB",
        place: Place::Guest { protocol: Protocol::Iwarp },
        ours: &guest_bandwidth(Carrier::Ours, Protocol::Iwarp),
        rivals: &[Rival::at_least(1.5, &guest_bandwidth(Carrier::Kernel, Protocol::Iwarp))],
        aim: None,
    },
    Case {
        name: "guest: iWARP: ib_send_lat 8 B",
        place: Place::Guest { protocol: Protocol::Iwarp },
        ours: &guest_latency(Carrier::Ours, Protocol::Iwarp),
        rivals: &[Rival::told(&guest_latency(Carrier::Kernel, Protocol::Iwarp))],
        aim: None,
    },
];

/// Returns these cases, those of subnets, and those of storage.
pub fn all() -> impl Iterator<Item = &'static Case> {
    ALL.iter().chain(subnet::CASES.iter().flatten()).chain(storage::cases::ALL)
}

#[cfg(test)]
mod tests {
    use super::super::unit::Unit;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_case_is_one_and_compares_like_with_like() {
        let names: BTreeSet<_> = all().map(|case| (case.name, case.place.name())).collect();
        assert_eq!(names.len(), all().count());
        for case in all() {
            for rival in case.rivals {
                assert_eq!(rival.program.unit(), case.ours.unit(), "{} beside {}", case.name, rival.program.name());
            }
            let wanted = case.rivals.iter().filter_map(|rival| rival.wanted).chain(case.aim);
            for bound in wanted {
                let floor = matches!(bound, Bound::AtLeast(_));
                let rises = matches!(
                    case.ours.unit(),
                    Unit::BytesPerSecond | Unit::MessagesPerSecond | Unit::DatagramsPerSecond
                );
                assert_eq!(floor, rises, "{}: a bound of the wrong side", case.name);
            }
        }
    }
}
