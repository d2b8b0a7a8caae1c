//! One direction of a cable: frames leave at its rate, arrive after its delay, and some of them never.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// Frames that wait for the line to be free, in bytes; more are dropped, as a switch's port does.
const WAITING_BYTES_MAX: u64 = 4 << 20;

/// Frames on the line, with those that wait, in bytes.
const BYTES_MAX: usize = 64 << 20;

const PPM: u64 = 1_000_000;
const BITS: u64 = 8;

/// Limits of a line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Rate in Mb/s; `None` for no limit.
    pub rate_mbps: Option<u32>,
    /// Time from one end to the other.
    pub delay: Duration,
    /// Frames to lose per million.
    pub loss_ppm: u32,
}

/// A line with the frames on it, oldest first.
#[derive(Debug)]
pub struct Line {
    limits: Limits,
    random: SplitMix64,
    /// When the last frame has left its end.
    free_at: Option<Instant>,
    /// Frames, and when they arrive.
    frames: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
}

impl Line {
    /// Makes an empty line; the same seed loses the same frames.
    pub fn new(limits: Limits, seed: u64) -> Line {
        let random = SplitMix64::seed_from_u64(seed);
        Line { limits, random, free_at: None, frames: VecDeque::new(), bytes: 0 }
    }

    /// Returns the bytes of the frames on it.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sends a frame of `length` bytes on the wire; `frame` may have a header that is not. Returns whether it will
    /// arrive.
    pub fn push(&mut self, now: Instant, frame: &[u8], length: usize) -> bool {
        let is_lost = self.limits.loss_ppm > 0 && self.random.next_u64() % PPM < u64::from(self.limits.loss_ppm);
        let starts = self.free_at.map_or(now, |free| free.max(now));
        let waits = starts.saturating_duration_since(now);
        if self.bytes + frame.len() > BYTES_MAX || waits > self.time_of(WAITING_BYTES_MAX) {
            return false;
        }
        let left = starts + self.time_of(length as u64);
        self.free_at = Some(left);
        // A frame that gets lost takes its time on the line, too.
        if !is_lost {
            self.bytes += frame.len();
            self.frames.push_back((left + self.limits.delay, frame.to_vec()));
        }
        !is_lost
    }

    /// Takes the next frame that has arrived.
    pub fn pop(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.poll_timeout()? > now {
            return None;
        }
        let (_, frame) = self.frames.pop_front()?;
        self.bytes -= frame.len();
        Some(frame)
    }

    /// Returns when the next frame arrives.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.frames.front().map(|(at, _)| *at)
    }

    fn time_of(&self, bytes: u64) -> Duration {
        const NANOS_PER_MICRO: u64 = 1000;
        match self.limits.rate_mbps {
            // Mb/s are bits per microsecond.
            Some(rate) => Duration::from_nanos(bytes * BITS * NANOS_PER_MICRO / u64::from(rate.max(1))),
            None => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: [u8; 1250] = [7; 1250];

    fn sent(limits: Limits, count: usize) -> (Line, Instant) {
        let (mut line, now) = (Line::new(limits, 1), Instant::now());
        for _ in 0..count {
            line.push(now, &FRAME, FRAME.len());
        }
        (line, now)
    }

    #[test]
    fn frames_leave_one_after_the_other_and_arrive_after_the_delay() {
        let delay = Duration::from_micros(100);
        // 1,250 bytes at 1 Gb/s are 10 us.
        let (mut line, now) = sent(Limits { rate_mbps: Some(1000), delay, loss_ppm: 0 }, 3);
        let at = |micros| now + Duration::from_micros(micros);
        assert_eq!(line.poll_timeout(), Some(at(110)));
        assert_eq!(line.pop(at(109)), None);
        assert_eq!((line.pop(at(110)).is_some(), line.poll_timeout()), (true, Some(at(120))));
        assert!(line.pop(at(130)).is_some() && line.pop(at(130)).is_some() && line.pop(at(999)).is_none());
        assert_eq!((line.bytes, line.poll_timeout()), (0, None));
    }

    #[test]
    fn a_line_without_a_rate_only_delays() {
        let delay = Duration::from_millis(1);
        let (mut line, now) = sent(Limits { delay, ..Limits::default() }, 100);
        assert_eq!(line.pop(now), None);
        assert_eq!(std::iter::from_fn(|| line.pop(now + delay)).count(), 100);
    }

    #[test]
    fn a_full_line_drops_frames() {
        let (line, _) = sent(Limits { rate_mbps: Some(1), ..Limits::default() }, 10_000);
        let kept = line.frames.len() as u64 * FRAME.len() as u64;
        assert!((WAITING_BYTES_MAX..WAITING_BYTES_MAX + 3000).contains(&kept), "{kept}");
        let (line, _) = sent(Limits { delay: Duration::from_secs(1), ..Limits::default() }, 100_000);
        assert!(line.bytes <= BYTES_MAX && line.bytes > BYTES_MAX - FRAME.len());
    }

    #[test]
    fn the_share_of_lost_frames_is_the_wanted_one() {
        let lossy = Limits { loss_ppm: 100_000, ..Limits::default() };
        let (line, _) = sent(lossy, 10_000);
        assert!((8_800..9_200).contains(&line.frames.len()), "{}", line.frames.len());
        assert_eq!(line.frames.len(), sent(lossy, 10_000).0.frames.len());
        assert_eq!(sent(Limits { loss_ppm: 1_000_000, ..Limits::default() }, 100).0.frames.len(), 0);
    }
}
