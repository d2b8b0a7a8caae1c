//! Clock ticks: real time, and processor times from `/proc/stat`.

use super::wire::CLOCKS;

/// Real time. Each constant is an index into an array of clocks.
pub const REAL: usize = 0;
/// User time.
pub const USER: usize = 1;
/// Low-priority user time.
pub const NICE: usize = 2;
/// Kernel time.
pub const KERNEL: usize = 3;
/// Idle time.
pub const IDLE: usize = 4;
/// Time waiting for I/O.
pub const IOWAIT: usize = 5;
/// Interrupt time.
pub const IRQ: usize = 6;
/// Deferred interrupt work.
pub const SOFTIRQ: usize = 7;
/// Time that the hypervisor gave to other guests.
pub const STEAL: usize = 8;

/// The current clocks; zeroes if the system does not report them.
pub fn now() -> [u64; CLOCKS] {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let mut clocks = parse(&text);
    // SAFETY: a zeroed tms is valid, and the call fills it.
    clocks[REAL] = unsafe {
        let mut tms: libc::tms = std::mem::zeroed();
        libc::times(&mut tms) as u64
    };
    clocks
}

fn parse(text: &str) -> [u64; CLOCKS] {
    let mut numbers =
        text.strip_prefix("cpu ").and_then(|rest| rest.lines().next()).unwrap_or_default().split_whitespace();
    std::array::from_fn(|clock| match clock {
        REAL => 0,
        _ => numbers.next().and_then(|n| n.parse().ok()).unwrap_or(0),
    })
}

/// Number of processors, and ticks per second.
pub fn machine() -> (u32, u32) {
    // SAFETY: the call takes an integer and no pointer.
    let of = |name| u32::try_from(unsafe { libc::sysconf(name) }).unwrap_or(0);
    (of(libc::_SC_NPROCESSORS_ONLN), of(libc::_SC_CLK_TCK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_counts() {
        let clocks = parse("cpu  10 20 30 40 50 60 70 80 90 0\ncpu0 1 2 3\n");
        assert_eq!(clocks, [0, 10, 20, 30, 40, 50, 60, 70, 80]);
        assert_eq!(parse("nonsense"), [0; CLOCKS]);
        assert!(now()[REAL] > 0 && machine().1 > 0);
    }
}
