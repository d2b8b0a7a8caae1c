//! The limit of one copy: the C library's memcpy between two buffers like perftest's, one written and one read
//! repeatedly.

use super::super::program::{Program, figure_of, number_before};
use super::super::room::{Room, own_words};
use super::super::unit::Unit;
use anyhow::{Result, bail};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// perftest's buffers are page-aligned.
const PAGE: usize = 4096;

/// The largest buffer.
pub const SIZE_MAX: usize = 1 << 30;

/// Bytes copied between two clock readings.
const BYTES_PER_LOOK: usize = 64 << 20;

/// Options of the copy.
#[derive(clap::Args)]
pub struct Options {
    /// Bytes in a buffer.
    #[arg(long)]
    size: usize,
    /// Run time in seconds.
    #[arg(long, default_value_t = 1)]
    seconds: u64,
}

/// Copies, and prints bytes per second.
pub fn run(options: &Options) -> Result<()> {
    if !(1..=SIZE_MAX).contains(&options.size) {
        bail!("size {} is out of range; it must be 1 to {SIZE_MAX} bytes", options.size);
    }
    let (mut from, mut to) = (Buffer::new(options.size, 7), Buffer::new(options.size, 0));
    let speed = copy_for(Duration::from_secs(options.seconds), options.size, || {
        black_box(to.bytes()).copy_from_slice(black_box(from.bytes()));
        Ok(())
    })?;
    println!("{speed:.0} bytes/sec");
    Ok(())
}

/// Repeats `copy` of `size` bytes for a time; returns the speed in bytes per second.
pub fn copy_for(time: Duration, size: usize, mut copy: impl FnMut() -> Result<()>) -> Result<f64> {
    let per_look = (BYTES_PER_LOOK / size).clamp(1, 1 << 16);
    let mut copies = 0u64;
    let started = Instant::now();
    while started.elapsed() < time {
        for _ in 0..per_look {
            copy()?;
        }
        copies += per_look as u64;
    }
    Ok(copies as f64 * size as f64 / started.elapsed().as_secs_f64())
}

/// Page-aligned memory, every page of it touched.
pub struct Buffer {
    memory: Vec<u8>,
    start: usize,
    size: usize,
}

impl Buffer {
    /// Creates `size` bytes of `fill`, such that the compiler cannot optimise them away.
    pub fn new(size: usize, fill: u8) -> Buffer {
        let mut memory = vec![fill; size + PAGE];
        for page in memory.chunks_mut(PAGE) {
            *black_box(&mut page[0]) = fill;
        }
        let start = memory.as_ptr().align_offset(PAGE).min(PAGE);
        Buffer { memory, start, size }
    }

    /// Returns the bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..][..self.size]
    }
}

/// memcpy of this size as a limit.
#[derive(Clone, Copy, Debug)]
pub struct Memcpy {
    pub size: u64,
}

impl Program for Memcpy {
    fn name(&self) -> String {
        "memcpy".to_owned()
    }

    fn command(&self, _seconds: u32) -> String {
        format!("xtask bench-peer memcpy --size {}", self.size)
    }

    fn unit(&self) -> Unit {
        Unit::BytesPerSecond
    }

    fn measure(&self, room: &Room) -> Result<f64> {
        let words = own_words(&format!("memcpy --size {}", self.size))?;
        figure_of(room.connect(&words, &[])?, room.seconds, |text| number_before(text, "bytes/sec"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_begin_at_a_page() {
        for size in [1, 4095, 1 << 20] {
            let mut buffer = Buffer::new(size, 3);
            let bytes = buffer.bytes();
            assert_eq!((bytes.len(), bytes.as_ptr().align_offset(PAGE)), (size, 0));
            assert!(bytes.iter().all(|&byte| byte == 3));
        }
    }

    #[test]
    fn every_copy_is_counted_and_a_failure_ends_them() {
        let mut copies = 0;
        let failed = copy_for(Duration::from_secs(600), 1, || {
            copies += 1;
            if copies == 10 { bail!("enough") } else { Ok(()) }
        });
        assert!(failed.is_err() && copies == 10);
    }
}
