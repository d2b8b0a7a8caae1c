//! Both ends: the sockets, their options, and the series of tests.

use std::io;

use libc::{
    IPPROTO_TCP, SO_KEEPALIVE, SO_RCVBUF, SO_REUSEADDR, SO_SNDBUF, SOL_SOCKET, TCP_KEEPIDLE, TCP_NODELAY, c_int,
};
use weft_abi_types::RAI_PASSIVE;

use super::options::{Options, Shape};
use super::report::{HEAD, size_text};
use super::transfer::{Link, Pattern};
use crate::cm_tools::perror;
use crate::outln;
use crate::output::print;
use weft_client::rdmacm::{AddrInfo, CmLibrary, Hints, LookupError, SockAddr, Socket, SocketCalls, lookup};

/// `SOL_RDMA` of `<rdma/rsocket.h>`.
const SOL_RDMA: c_int = 0x10000;
/// `RDMA_INLINE`.
const RDMA_INLINE: c_int = 2;
/// `RDMA_ROUTE`.
const RDMA_ROUTE: c_int = 4;
/// Default size of send and receive buffers.
const BUFFER_SIZE: c_int = 1 << 19;
/// The shortest and the longest transfer of the series, as powers of two; there are half steps between them.
const SIZES_LOG2: std::ops::RangeInclusive<u32> = 6..=22;
/// Sizes that are always tested.
const FEW_LOG2: [u32; 4] = [6, 12, 16, 20];

/// The purpose of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    Mixed,
    Latency,
    Bandwidth,
}

struct Peer<'a> {
    options: &'a Options,
    calls: SocketCalls,
    library: Option<CmLibrary>,
    listener: Option<Socket>,
    buffer: Vec<u8>,
    pattern: Pattern,
}

/// Runs the tests.
///
/// # Errors
/// The exit status.
pub fn run(options: &Options, calls: SocketCalls, library: Option<CmLibrary>) -> Result<(), i32> {
    let longest = options.custom.map_or(3 << (SIZES_LOG2.end() - 1), |shape| shape.size.max(16));
    let (buffer, pattern) = (vec![0; longest], Pattern::default());
    let mut peer = Peer { options, calls, library, listener: None, buffer, pattern };
    if options.dst.is_none() {
        peer.listener = Some(peer.listen()?);
    }
    print(HEAD);
    match options.custom {
        Some(shape) => peer.connection(Purpose::Mixed, |link| link.test("custom", shape)),
        None => {
            let sizes = || sizes(options.all_sizes);
            // If one size fails, the tool still tests the other sizes and ends normally.
            peer.connection(Purpose::Latency, |link| {
                for size in sizes() {
                    let _ = link.test(&format!("{}_lat", size_text(size as u64)), latency(size));
                }
                Ok(())
            })?;
            peer.connection(Purpose::Bandwidth, |link| {
                for size in sizes() {
                    let _ = link.test(&format!("{}_bw", size_text(size as u64)), bandwidth(size));
                }
                Ok(())
            })
        }
    }
}

/// The sizes of the series.
fn sizes(all: bool) -> impl Iterator<Item = usize> {
    SIZES_LOG2.flat_map(move |log2| {
        let half = (log2 > *SIZES_LOG2.start()).then_some((1 << log2) + (1 << (log2 - 1)));
        let whole = all || FEW_LOG2.contains(&log2);
        whole.then_some(1 << log2).into_iter().chain(half.filter(|_| all))
    })
}

/// Number of transfers of a size in a test.
fn repeats(size: usize) -> u32 {
    match size {
        0x10_0000.. => 100,
        0x1_0000.. => 1000,
        0x400.. => 10_000,
        _ => 100_000,
    }
}

fn latency(size: usize) -> Shape {
    Shape { size, count: 1, iterations: repeats(size) }
}

fn bandwidth(size: usize) -> Shape {
    Shape { size, count: repeats(size), iterations: 1 }
}

impl Peer<'_> {
    /// Connects, runs a series, and disconnects; in a child process, if the options ask for it.
    fn connection(
        &mut self,
        purpose: Purpose,
        series: impl FnOnce(&mut Link<'_>) -> Result<(), i32>,
    ) -> Result<(), i32> {
        let socket = match self.options.dst {
            Some(_) => self.connect(purpose)?,
            None => self.accept(purpose)?,
        };
        if self.options.dst.is_none() && self.options.fork {
            // SAFETY: plain TCP: this process has one thread, so the child may call any function.
            match unsafe { libc::fork() } {
                0 => {
                    self.set_options(&socket, purpose);
                    let status = self.serve(&socket, series).err().unwrap_or(0);
                    std::process::exit(status & 0xff);
                }
                child => {
                    // SAFETY: a null pointer is valid: the call then stores no status.
                    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
                    return Ok(());
                }
            }
        }
        if self.options.dst.is_none() {
            self.set_options(&socket, purpose);
        }
        self.serve(&socket, series)
    }

    fn serve(&mut self, socket: &Socket, series: impl FnOnce(&mut Link<'_>) -> Result<(), i32>) -> Result<(), i32> {
        let Peer { options, buffer, pattern, .. } = self;
        let result = series(&mut Link { options, socket, buffer, pattern });
        let _ = socket.shutdown();
        result
    }

    fn listen(&self) -> Result<Socket, i32> {
        let addr = self.local_address().map_err(|error| unknown("getaddrinfo", error))?;
        let listener = self.socket(&addr)?;
        let failed = |what: &str, error: io::Error| failure(what, &error);
        listener.set_option(SOL_SOCKET, SO_REUSEADDR, 1).map_err(|e| failed("rsetsockopt SO_REUSEADDR", e))?;
        listener.bind(&addr).map_err(|e| failed("rbind", e))?;
        listener.listen(1).map_err(|e| failed("rlisten", e))?;
        Ok(listener)
    }

    fn socket(&self, addr: &SockAddr) -> Result<Socket, i32> {
        Socket::new(self.calls, addr.family()).map_err(|e| {
            match e.raw_os_error() {
                Some(libc::ENODEV) if self.calls.rdma => crate::errln!("No RDMA devices were detected"),
                _ if self.calls.rdma => perror("rsocket failed", &e),
                _ => {}
            }
            -1
        })
    }

    fn accept(&self, purpose: Purpose) -> Result<Socket, i32> {
        let Some(listener) = &self.listener else { return Err(-1) };
        self.set_options(listener, purpose);
        loop {
            if self.options.poll {
                self.poll(listener, libc::POLLIN)?;
            }
            match listener.accept() {
                Ok(socket) => return Ok(socket),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                Err(e) => return Err(failure("raccept", &e)),
            }
        }
    }

    fn connect(&self, purpose: Purpose) -> Result<Socket, i32> {
        let (addr, route) = self.peer_address().map_err(|error| unknown("getaddrinfo", error))?;
        let src = match self.options.src {
            Some(_) => Some(self.local_address().map_err(|error| unknown("getaddrinfo src_addr", error))?),
            None => None,
        };
        let socket = self.socket(&addr)?;
        self.set_options(&socket, purpose);
        if let Some(src) = src {
            socket.bind(&src).map_err(|e| failure("rbind", &e))?;
        }
        if !route.is_empty() {
            let set = socket.set_option_bytes(SOL_RDMA, RDMA_ROUTE, &route);
            set.map_err(|e| failure("rsetsockopt RDMA_ROUTE", &e))?;
        }
        match socket.connect(&addr) {
            Ok(()) => {}
            Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => {
                self.poll(&socket, libc::POLLOUT)?;
                match socket.option(SOL_SOCKET, libc::SO_ERROR).map_err(|_| -1)? {
                    0 => {}
                    errno => return Err(failure("async rconnect", &io::Error::from_raw_os_error(errno))),
                }
            }
            Err(e) => return Err(failure("rconnect", &e)),
        }
        Ok(socket)
    }

    fn poll(&self, socket: &Socket, events: i16) -> Result<(), i32> {
        match socket.wait(events, self.options.poll_timeout()) {
            Ok(0) => Ok(()),
            Ok(revents) => {
                // Prints whatever errno currently is, as in the original.
                perror("rpoll", &io::Error::last_os_error());
                Err(revents.into())
            }
            Err(e) => Err(failure("rpoll", &e)),
        }
    }

    fn local_address(&self) -> Result<SockAddr, LookupError> {
        let Options { src, port, hints, .. } = self.options;
        match self.cm() {
            Some(library) => {
                let hints = Hints { flags: hints.flags | RAI_PASSIVE, ..*hints };
                let found = AddrInfo::resolve(library, src.as_deref(), None, port, hints)?;
                found.src.ok_or(LookupError(libc::EAI_NONAME))
            }
            None => lookup(src.as_deref(), Some(port), self.options.ai_flags | libc::AI_PASSIVE),
        }
    }

    /// The address, and its resolved paths.
    fn peer_address(&self) -> Result<(SockAddr, Vec<u8>), LookupError> {
        let Options { dst, port, hints, .. } = self.options;
        match self.cm() {
            Some(library) => {
                let found = AddrInfo::resolve(library, None, dst.as_deref(), port, *hints)?;
                Ok((found.dst.ok_or(LookupError(libc::EAI_NONAME))?, found.route))
            }
            None => Ok((lookup(dst.as_deref(), Some(port), self.options.ai_flags)?, Vec::new())),
        }
    }

    fn cm(&self) -> Option<CmLibrary> {
        self.library.filter(|_| self.options.resolve_by_cm)
    }

    /// Sets the socket's options; ignores those that it does not support.
    fn set_options(&self, socket: &Socket, purpose: Purpose) {
        let set = |level, name, value| drop(socket.set_option(level, name, value));
        let size = self.options.buffer_size.unwrap_or(BUFFER_SIZE);
        set(SOL_SOCKET, SO_SNDBUF, size);
        set(SOL_SOCKET, SO_RCVBUF, size);
        set(IPPROTO_TCP, TCP_NODELAY, 1);
        if self.options.flags & libc::MSG_DONTWAIT != 0 {
            let _ = socket.set_nonblocking();
        }
        match purpose {
            Purpose::Latency if socket.calls().rdma => set(SOL_RDMA, RDMA_INLINE, self.options.inline_size),
            Purpose::Bandwidth if socket.calls().rdma => set(SOL_RDMA, RDMA_INLINE, 0),
            _ => {}
        }
        if let Some(seconds) = self.options.keepalive {
            set_keepalive(socket, seconds);
        }
    }
}

fn set_keepalive(socket: &Socket, seconds: c_int) {
    if let Err(e) = socket.set_option(SOL_SOCKET, SO_KEEPALIVE, 1) {
        return perror("rsetsockopt SO_KEEPALIVE", &e);
    }
    if let Err(e) = socket.set_option(IPPROTO_TCP, TCP_KEEPIDLE, seconds) {
        perror("rsetsockopt TCP_KEEPIDLE", &e);
    }
    if let Ok(on) = socket.option(SOL_SOCKET, SO_KEEPALIVE) {
        outln!("Keepalive: {}", if on == 0 { "OFF" } else { "ON" });
    }
    if let Ok(time) = socket.option(IPPROTO_TCP, TCP_KEEPIDLE) {
        outln!("  time: {time}");
    }
}

fn unknown(call: &str, error: LookupError) -> i32 {
    outln!("{call}: {error}");
    error.0
}

fn failure(what: &str, error: &io::Error) -> i32 {
    perror(what, error);
    -1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_is_the_originals() {
        assert_eq!(sizes(false).collect::<Vec<_>>(), [64, 4096, 65536, 1 << 20]);
        let all: Vec<_> = sizes(true).collect();
        assert_eq!((all.len(), &all[..4], all[32]), (33, &[64, 128, 192, 256][..], 6 << 20));
        assert_eq!([64, 1024, 65536, 1 << 20].map(repeats), [100_000, 10_000, 1000, 100]);
    }
}
