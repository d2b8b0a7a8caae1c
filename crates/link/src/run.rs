//! Runs: consecutive packets of one flow that may leave as segments of one send. All have the same length, but the last
//! may be shorter, because the kernel cuts that way (UDP_SEGMENT).

use weft_sys::udp::{PIECES_MAX, SEGMENTS_MAX, SEND_BYTES_MAX};

/// A run under construction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Run {
    segment: usize,
    count: usize,
    bytes: usize,
    pieces: usize,
    closed: bool,
}

impl Run {
    /// Whether a packet of `len` bytes in at most `pieces` pieces may join; `single` allows only one packet.
    pub fn takes(&self, len: usize, pieces: usize, single: bool) -> bool {
        self.count == 0
            || (!single
                && !self.closed
                && len <= self.segment
                && self.count < SEGMENTS_MAX
                && self.bytes + len <= SEND_BYTES_MAX
                && self.pieces + pieces <= PIECES_MAX)
    }

    /// Adds a packet that [`Run::takes`] allowed; returns its index in the run.
    pub fn add(&mut self, len: usize, pieces: usize) -> u16 {
        if self.count == 0 {
            self.segment = len;
        }
        self.closed = len < self.segment;
        self.bytes += len;
        self.pieces += pieces;
        self.count += 1;
        (self.count - 1) as u16
    }

    /// Returns the number of packets.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the value for UDP_SEGMENT: 0 for a lone packet.
    pub fn segment(&self) -> u16 {
        if self.count > 1 { self.segment as u16 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cuts lengths into runs: (segment, count) each.
    fn runs(lens: &[usize]) -> Vec<(u16, usize)> {
        let (mut all, mut run) = (Vec::new(), Run::default());
        for &len in lens {
            if !run.takes(len, 2, false) {
                all.push((run.segment(), run.count()));
                run = Run::default();
            }
            run.add(len, 2);
        }
        all.push((run.segment(), run.count()));
        all
    }

    #[test]
    fn equal_lengths_go_together_and_a_shorter_one_ends_the_run() {
        assert_eq!(runs(&[100, 100, 40, 100, 100, 120]), [(100, 3), (100, 2), (0, 1)]);
        assert_eq!(runs(&[40, 100]), [(0, 1), (0, 1)]);
    }

    #[test]
    fn a_send_holds_no_more_than_the_kernel_takes() {
        assert_eq!(runs(&[4112; 32]), [(4112, 15), (4112, 15), (4112, 2)]);
        assert_eq!(runs(&[28; 130]), [(28, 64), (28, 64), (28, 2)]);
        let mut run = Run::default();
        for _ in 0..30 {
            assert!(run.takes(1000, 34, false));
            run.add(1000, 34);
        }
        assert!(!run.takes(1000, 34, false));
        assert!(!run.takes(1000, 1, true));
    }
}
