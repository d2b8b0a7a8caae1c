//! The tests, in the order of their numbers on the wire.

use weft_abi_types::{IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, ibv_qp_type};

use super::results::Measure;

/// A test.
pub struct TestEntry {
    /// Its name.
    pub name: &'static str,
    /// Its implementation.
    pub kind: Kind,
}

/// The implementation of a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Shows the configuration of both machines.
    Conf,
    /// Ends the server.
    Quit,
    /// TCP, one way or ping-pong.
    Tcp { latency: bool },
    /// UDP.
    Udp { latency: bool },
    /// RDMA.
    Rdma(ibv_qp_type, Pattern),
    /// Known by its number, but not supported.
    Unknown,
}

/// The traffic pattern of an RDMA test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// SENDs one way.
    Bandwidth,
    /// SENDs both ways.
    BothWays,
    /// SENDs as ping-pong.
    Latency,
    /// WRITEs with immediate data.
    WriteBandwidth,
    /// WRITEs as ping-pong.
    WriteLatency,
    /// READs, many at a time.
    ReadBandwidth,
    /// READs, one after another.
    ReadLatency,
}

const fn entry(name: &'static str, kind: Kind) -> TestEntry {
    TestEntry { name, kind }
}

const fn rdma(name: &'static str, transport: ibv_qp_type, pattern: Pattern) -> TestEntry {
    TestEntry { name, kind: Kind::Rdma(transport, pattern) }
}

/// All tests.
pub const TESTS: &[TestEntry] = &[
    entry("conf", Kind::Conf),
    entry("quit", Kind::Quit),
    entry("rds_bw", Kind::Unknown),
    entry("rds_lat", Kind::Unknown),
    entry("sctp_bw", Kind::Unknown),
    entry("sctp_lat", Kind::Unknown),
    entry("sdp_bw", Kind::Unknown),
    entry("sdp_lat", Kind::Unknown),
    entry("tcp_bw", Kind::Tcp { latency: false }),
    entry("tcp_lat", Kind::Tcp { latency: true }),
    entry("udp_bw", Kind::Udp { latency: false }),
    entry("udp_lat", Kind::Udp { latency: true }),
    rdma("rc_bi_bw", IBV_QPT_RC, Pattern::BothWays),
    rdma("rc_bw", IBV_QPT_RC, Pattern::Bandwidth),
    entry("rc_compare_swap_mr", Kind::Unknown),
    entry("rc_fetch_add_mr", Kind::Unknown),
    rdma("rc_lat", IBV_QPT_RC, Pattern::Latency),
    rdma("rc_rdma_read_bw", IBV_QPT_RC, Pattern::ReadBandwidth),
    rdma("rc_rdma_read_lat", IBV_QPT_RC, Pattern::ReadLatency),
    rdma("rc_rdma_write_bw", IBV_QPT_RC, Pattern::WriteBandwidth),
    rdma("rc_rdma_write_lat", IBV_QPT_RC, Pattern::WriteLatency),
    entry("rc_rdma_write_poll_lat", Kind::Unknown),
    rdma("uc_bi_bw", IBV_QPT_UC, Pattern::BothWays),
    rdma("uc_bw", IBV_QPT_UC, Pattern::Bandwidth),
    rdma("uc_lat", IBV_QPT_UC, Pattern::Latency),
    rdma("uc_rdma_write_bw", IBV_QPT_UC, Pattern::WriteBandwidth),
    rdma("uc_rdma_write_lat", IBV_QPT_UC, Pattern::WriteLatency),
    entry("uc_rdma_write_poll_lat", Kind::Unknown),
    rdma("ud_bi_bw", IBV_QPT_UD, Pattern::BothWays),
    rdma("ud_bw", IBV_QPT_UD, Pattern::Bandwidth),
    rdma("ud_lat", IBV_QPT_UD, Pattern::Latency),
    entry("ver_rc_compare_swap", Kind::Unknown),
    entry("ver_rc_fetch_add", Kind::Unknown),
];

impl TestEntry {
    /// Whether this qperf supports the test.
    pub fn is_known(&self) -> bool {
        self.kind != Kind::Unknown
    }

    /// Its number on the wire.
    pub fn index(&self) -> usize {
        TESTS.iter().position(|test| test.name == self.name).unwrap_or(0)
    }

    /// Default message size in bytes.
    pub fn default_size(&self) -> u32 {
        match self.kind {
            Kind::Tcp { latency: false } => 64 << 10,
            Kind::Udp { latency: false } => 32 << 10,
            Kind::Rdma(transport, Pattern::Bandwidth | Pattern::BothWays) if transport == IBV_QPT_UD => 2 << 10,
            Kind::Rdma(_, Pattern::Latency | Pattern::WriteLatency | Pattern::ReadLatency) => 1,
            Kind::Rdma(..) => 64 << 10,
            _ => 1,
        }
    }

    /// The quantity that the test measures.
    pub fn measure(&self) -> Measure {
        match self.kind {
            Kind::Tcp { latency: true } | Kind::Udp { latency: true } => Measure::Latency,
            Kind::Rdma(_, Pattern::Latency | Pattern::WriteLatency | Pattern::ReadLatency) => Measure::Latency,
            Kind::Rdma(IBV_QPT_RC, _) | Kind::Tcp { .. } => Measure::Bandwidth,
            _ => Measure::BandwidthBoth,
        }
    }
}

/// The test with this name.
pub fn find(name: &str) -> Option<&'static TestEntry> {
    TESTS.iter().find(|test| test.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_originals() {
        let numbers = ["conf", "tcp_bw", "rc_bi_bw", "rc_lat", "ud_lat"].map(|name| find(name).unwrap().index());
        assert_eq!(numbers, [0, 8, 12, 16, 30]);
        assert_eq!(find("ud_bw").unwrap().default_size(), 2048);
        assert_eq!(find("rc_bw").unwrap().measure(), Measure::Bandwidth);
        assert_eq!(find("udp_bw").unwrap().measure(), Measure::BandwidthBoth);
    }
}
