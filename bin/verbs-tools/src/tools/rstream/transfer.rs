//! Timed transfers over one connection.

use std::io;
use std::time::Instant;

use libc::{POLLIN, POLLOUT};

use super::options::{Options, Shape};
use super::report;
use crate::cm_tools::perror;
use crate::outln;
use crate::output::print;
use weft_client::rdmacm::Socket;

/// Bytes that both sides exchange before the clock starts.
const SYNC: usize = 16;

/// The byte pattern of both ends, which continues from transfer to transfer over all connections.
#[derive(Default)]
pub struct Pattern {
    sent: u8,
    received: u8,
    total: u64,
}

impl Pattern {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = self.sent;
            self.sent = self.sent.wrapping_add(1);
        }
    }

    fn check(&mut self, bytes: &[u8]) -> Result<(), i32> {
        for byte in bytes {
            let expected = self.received;
            self.received = self.received.wrapping_add(1);
            if *byte != expected {
                outln!("data verification failed byte {}", self.total);
                return Err(-1);
            }
            self.total += 1;
        }
        Ok(())
    }
}

/// A connection and the state of its transfers.
pub struct Link<'a> {
    /// The parsed command line.
    pub options: &'a Options,
    /// The connection.
    pub socket: &'a Socket,
    /// A buffer that is large enough for every transfer.
    pub buffer: &'a mut [u8],
    /// The pattern to verify data with.
    pub pattern: &'a mut Pattern,
}

impl Link<'_> {
    /// Runs one test and prints its line of the table.
    ///
    /// # Errors
    /// The exit status.
    pub fn test(&mut self, name: &str, shape: Shape) -> Result<(), i32> {
        let client = self.options.dst.is_some();
        self.way(client, SYNC)?;
        self.way(!client, SYNC)?;
        let start = Instant::now();
        for _ in 0..shape.iterations {
            for out in [client, !client] {
                (0..shape.count).try_for_each(|_| self.way(out, shape.size))?;
            }
        }
        print(&report::line(name, shape, start.elapsed().as_micros() as f32));
        Ok(())
    }

    fn way(&mut self, out: bool, size: usize) -> Result<(), i32> {
        if out { self.send(size) } else { self.receive(size) }
    }

    fn send(&mut self, size: usize) -> Result<(), i32> {
        if self.options.verify {
            self.pattern.fill(&mut self.buffer[..size]);
        }
        let mut offset = 0;
        while offset < size {
            self.poll(POLLOUT)?;
            match self.socket.send(&self.buffer[offset..size], self.options.flags) {
                Ok(0) => return Err(failed("rsend", &io::ErrorKind::WriteZero.into(), 0)),
                Ok(n) => offset += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.yield_now(),
                Err(e) => return Err(failed("rsend", &e, -1)),
            }
        }
        Ok(())
    }

    fn receive(&mut self, size: usize) -> Result<(), i32> {
        let mut offset = 0;
        while offset < size {
            self.poll(POLLIN)?;
            match self.socket.recv(&mut self.buffer[offset..size], self.options.flags) {
                Ok(0) => return Err(failed("rrecv", &io::ErrorKind::UnexpectedEof.into(), 0)),
                Ok(n) => offset += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.yield_now(),
                Err(e) => return Err(failed("rrecv", &e, -1)),
            }
        }
        if self.options.verify { self.pattern.check(&self.buffer[..size]) } else { Ok(()) }
    }

    /// Waits with `poll`, if the options ask for it.
    fn poll(&self, events: i16) -> Result<(), i32> {
        if !self.options.poll {
            return Ok(());
        }
        match self.socket.wait(events, self.options.poll_timeout()) {
            Ok(0) => Ok(()),
            Ok(revents) => Err(revents.into()),
            Err(_) => Err(-1),
        }
    }

    /// Yields the processor: both ends spin, and on a host with few processors the other end needs it too.
    fn yield_now(&self) {
        std::thread::yield_now();
    }
}

impl Options {
    /// Timeout of one `poll`: 0, or infinite if calls may block.
    pub fn poll_timeout(&self) -> libc::c_int {
        if self.flags & libc::MSG_DONTWAIT == 0 { -1 } else { 0 }
    }
}

fn failed(what: &str, error: &io::Error, status: i32) -> i32 {
    perror(what, error);
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_goes_on() {
        let (mut ours, mut theirs) = (Pattern::default(), Pattern::default());
        let mut bytes = [0; 300];
        for size in [300, 7, 1] {
            ours.fill(&mut bytes[..size]);
            theirs.check(&bytes[..size]).unwrap();
        }
        assert_eq!(theirs.check(&bytes[..1]), Err(-1));
    }
}
