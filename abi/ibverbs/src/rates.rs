//! `enum ibv_rate`: the rates that an address can be limited to, as multiples of 2.5 Gbit/s and in Mbit/s.

use libc::c_int;

struct Rate {
    code: u32,
    /// Multiple of 2.5 Gbit/s, if it is a whole number in the original enum.
    mult: Option<c_int>,
    mbps: c_int,
}

const fn rate(code: u32, mult: c_int, mbps: c_int) -> Rate {
    Rate { code, mult: if mult == 0 { None } else { Some(mult) }, mbps }
}

/// 0 is "no limit". Rates with 64/66 coding are not whole multiples; four of them have a conventional multiple, which
/// rdma-core also returns.
const RATES: [Rate; 23] = [
    rate(2, 1, 2_500),
    rate(5, 2, 5_000),
    rate(3, 4, 10_000),
    rate(6, 8, 20_000),
    rate(4, 12, 30_000),
    rate(7, 16, 40_000),
    rate(8, 24, 60_000),
    rate(9, 32, 80_000),
    rate(10, 48, 120_000),
    rate(11, 0, 14_062),
    rate(12, 0, 56_250),
    rate(13, 0, 112_500),
    rate(14, 0, 168_750),
    rate(15, 0, 25_781),
    rate(16, 0, 103_125),
    rate(17, 0, 206_250),
    rate(18, 0, 309_375),
    rate(19, 11, 28_125),
    rate(20, 20, 53_125),
    rate(21, 160, 425_000),
    rate(22, 240, 637_500),
    rate(23, 320, 850_000),
    rate(24, 480, 1_275_000),
];

/// Returns the multiple of 2.5 Gbit/s, or -1.
pub extern "C" fn ibv_rate_to_mult(rate: u32) -> c_int {
    RATES.iter().find(|r| r.code == rate).and_then(|r| r.mult).unwrap_or(-1)
}

/// Returns the rate with this multiple of 2.5 Gbit/s, or 0.
pub extern "C" fn mult_to_ibv_rate(mult: c_int) -> u32 {
    RATES.iter().find(|r| r.mult == Some(mult)).map_or(0, |r| r.code)
}

/// Returns the rate in Mbit/s, or -1.
pub extern "C" fn ibv_rate_to_mbps(rate: u32) -> c_int {
    RATES.iter().find(|r| r.code == rate).map_or(-1, |r| r.mbps)
}

/// Returns the rate with this many Mbit/s, or 0.
pub extern "C" fn mbps_to_ibv_rate(mbps: c_int) -> u32 {
    RATES.iter().find(|r| r.mbps == mbps).map_or(0, |r| r.code)
}
