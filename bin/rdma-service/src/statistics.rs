//! Counters of one connection of a service, for the line at its end.

use std::fmt;
use std::time::Instant;

/// Counters.
#[derive(Debug)]
pub struct Statistics {
    since: Instant,
    request: &'static str,
    /// Requests answered.
    pub answered: u64,
    /// Bytes that RDMA READs brought: data that the peer wrote.
    pub bytes_in: u64,
    /// Bytes that RDMA WRITEs took away: data that the peer read.
    pub bytes_out: u64,
}

impl Statistics {
    /// Begins now; `request` is the protocol's word for one request.
    pub fn new(request: &'static str) -> Statistics {
        Statistics { since: Instant::now(), request, answered: 0, bytes_in: 0, bytes_out: 0 }
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.since.elapsed().as_secs();
        let plural = if self.answered == 1 { "" } else { "s" };
        write!(f, "{} {}{plural}, ", self.answered, self.request)?;
        write!(f, "{} read and {} written by RDMA, in {seconds} s", size_text(self.bytes_out), size_text(self.bytes_in))
    }
}

/// Returns a size in binary units.
pub fn size_text(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_numbers_are_right() {
        let line =
            Statistics { answered: 1, bytes_in: 1536, bytes_out: 5 << 20, ..Statistics::new("call") }.to_string();
        assert_eq!(line, "1 call, 5.0 MiB read and 1.5 KiB written by RDMA, in 0 s");
        assert!(Statistics::new("command").to_string().starts_with("0 commands, "));
        assert_eq!((size_text(0), size_text(3 << 30)), ("0 B".into(), "3.0 GiB".into()));
    }
}
