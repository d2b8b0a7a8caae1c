//! The process that carries the frames of cables with limits. It reads them from the TAP at one end, lets each wait on
//! its [`Line`], and writes it to the TAP at the other end. It ends with the process that started it.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use weft_sys::epoll::{Epoll, Interest};
use weft_sys::event::TimerFd;
use weft_sys::tun::{FRAME_BYTES_MAX, FRAME_HEADER_BYTES, Tap};
use weft_sys::unix::{self, Wait};
use weft_sys::{spawn, thread};

use super::line::{Limits, Line};
use super::port::CableLimits;

/// Frames of one interface before the others get a turn.
const FRAMES_PER_TURN: usize = 64;

/// Bytes of the frames on all lines; more are dropped.
const BYTES_MAX: usize = 512 << 20;

const MESSAGE_BYTES_MAX: usize = 128;

/// Descriptors of a message: the TAPs of the host and of the switch.
const ENDS: usize = 2;

/// Tokens of the socket on which cables come, and of the timer; those of interfaces count from 0.
const TOKEN_CABLES: u64 = u64::MAX;
const TOKEN_TIMER: u64 = u64::MAX - 1;

/// The process.
#[derive(Debug)]
pub struct Shaper(OwnedFd);

impl Shaper {
    /// Starts it. Returns a descriptor that hangs up when it ends, too. The calling process must be single-threaded.
    pub fn start() -> io::Result<(Shaper, OwnedFd)> {
        let (ours, theirs) = unix::pair()?;
        let (end, held) = unix::pair()?;
        spawn::fork_apart(vec![held, theirs], |mut keep| {
            if let Some(socket) = keep.pop() {
                // After an error the interfaces end with the process, and the hosts lose their link.
                let _ = Cables::new(socket).and_then(Cables::carry);
            }
        })?;
        Ok((Shaper(ours), end))
    }

    /// Hands over a cable.
    pub fn add(&self, host: &Tap, switch: &Tap, limits: &CableLimits) -> io::Result<()> {
        let bytes = postcard::to_allocvec(limits).map_err(io::Error::other)?;
        unix::send(&self.0, &bytes, &[host.as_fd(), switch.as_fd()], Wait::Block).map(drop)
    }
}

/// One end of a cable, and the line that leads from it to the other end.
struct End {
    tap: Tap,
    line: Line,
}

/// All cables: their ends side by side.
struct Cables {
    socket: OwnedFd,
    epoll: Epoll,
    /// Fires when the first frame arrives: a time limit of epoll counts whole milliseconds.
    timer: TimerFd,
    ends: Vec<End>,
    /// When the next frame of each line arrives, by the number of the end that it left.
    due: BTreeSet<(Instant, usize)>,
    /// Bytes of the frames on all lines.
    bytes: usize,
}

impl Cables {
    fn new(socket: OwnedFd) -> io::Result<Cables> {
        let epoll = Epoll::new()?;
        epoll.add(&socket, TOKEN_CABLES, Interest::READ)?;
        let timer = TimerFd::new()?;
        epoll.add(&timer, TOKEN_TIMER, Interest::READ)?;
        Ok(Cables { socket, epoll, timer, ends: Vec::new(), due: BTreeSet::new(), bytes: 0 })
    }

    fn carry(mut self) -> io::Result<()> {
        thread::sleep_precisely();
        let (mut ready, mut buffer) = (Vec::new(), vec![0; FRAME_BYTES_MAX]);
        loop {
            self.timer.arm(self.due.first().map(|(at, _)| at.saturating_duration_since(Instant::now())))?;
            self.epoll.wait(&mut ready, None)?;
            for source in &ready {
                match source.token {
                    TOKEN_CABLES => {
                        if !self.take_cable()? {
                            return Ok(());
                        }
                    }
                    TOKEN_TIMER => {
                        self.timer.take();
                    }
                    number => self.read(number as usize, &mut buffer),
                }
            }
            self.deliver(Instant::now());
        }
    }

    /// Takes a new cable; returns false once the process that started this one is gone.
    fn take_cable(&mut self) -> io::Result<bool> {
        let mut bytes = [0; MESSAGE_BYTES_MAX];
        let received = unix::recv(&self.socket, &mut bytes, ENDS, Wait::No)?;
        let mut taps: VecDeque<Tap> = received.fds.into_iter().map(Tap::of).collect();
        let limits = postcard::from_bytes::<CableLimits>(bytes.get(..received.len).unwrap_or_default());
        let (Ok(limits), Some(host), Some(switch)) = (limits, taps.pop_front(), taps.pop_front()) else {
            return Ok(false);
        };
        let up = Limits { rate_mbps: limits.rate_mbps, delay: limits.delay, loss_ppm: limits.loss_ppm };
        let down = Limits { rate_mbps: limits.rate_mbps, ..Limits::default() };
        for (tap, limits_of_line) in [(host, up), (switch, down)] {
            self.epoll.add(&tap, self.ends.len() as u64, Interest::READ)?;
            self.ends.push(End { tap, line: Line::new(limits_of_line, limits.seed) });
        }
        Ok(true)
    }

    /// Puts the frames that the kernel sends at an end on its line.
    fn read(&mut self, number: usize, buffer: &mut [u8]) {
        let Some(end) = self.ends.get_mut(number) else { return };
        let (before, bytes) = (end.line.poll_timeout(), end.line.bytes());
        for _ in 0..FRAMES_PER_TURN {
            let Ok(length) = end.tap.read(buffer) else { break };
            let Some(frame) = buffer.get(..length) else { break };
            if self.bytes - bytes + end.line.bytes() > BYTES_MAX {
                continue;
            }
            end.line.push(Instant::now(), frame, length.saturating_sub(FRAME_HEADER_BYTES));
        }
        self.bytes = self.bytes - bytes + end.line.bytes();
        // New frames queue behind the others, so only the first one of an empty line sets a time.
        if before.is_none() {
            self.due.extend(end.line.poll_timeout().map(|at| (at, number)));
        }
    }

    /// Hands over the frames that have arrived.
    fn deliver(&mut self, now: Instant) {
        while let Some((_, number)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.due.pop_first();
            let other = number ^ 1;
            while let Some(frame) = self.ends.get_mut(number).and_then(|end| end.line.pop(now)) {
                self.bytes -= frame.len();
                // An interface that is switched off takes no frames.
                let _ = self.ends.get(other).map(|end| end.tap.write(&frame));
            }
            self.due.extend(self.ends.get(number).and_then(|end| end.line.poll_timeout()).map(|at| (at, number)));
        }
    }
}
