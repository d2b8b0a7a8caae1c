//! TCP and UDP tests, for comparison.

use std::io::{self, Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Instant;

use super::control::{Failure, Result, system};
use super::run::{NAP, Run};
use super::wire::Number;

/// Whether the error is only a timeout or an interruption.
fn is_nap(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// The peer's address with this port.
fn peer_at(run: &Run, port: u32) -> Result<SocketAddr> {
    let mut addr = run.control.stream().peer_addr().map_err(|e| system("getpeername failed", &e))?;
    addr.set_port(port as u16);
    Ok(addr)
}

fn own(run: &Run) -> SocketAddr {
    (Ipv6Addr::UNSPECIFIED, run.number(Number::Port) as u16).into()
}

fn tell_port(run: &mut Run, addr: io::Result<SocketAddr>) -> Result<()> {
    let port = addr.map_err(|e| system("getsockname failed", &e))?.port();
    run.control.send(&u32::from(port).to_le_bytes(), "port")
}

/// Sets the send and receive buffer sizes, if the user set one.
fn set_buffers(fd: i32, size: u32) -> Result<()> {
    if size == 0 {
        return Ok(());
    }
    let size = size as libc::c_int;
    for (name, what) in [(libc::SO_SNDBUF, "send"), (libc::SO_RCVBUF, "receive")] {
        // SAFETY: the value is a `c_int`, and `len` is its size.
        let set = unsafe {
            let len = size_of::<libc::c_int>() as libc::socklen_t;
            libc::setsockopt(fd, libc::SOL_SOCKET, name, (&raw const size).cast(), len)
        };
        if set != 0 {
            return Err(system(format!("Failed to set {what} buffer size on socket"), &io::Error::last_os_error()));
        }
    }
    Ok(())
}

/// A TCP connection for test data.
struct Stream(TcpStream);

impl Stream {
    fn open(run: &mut Run) -> Result<Stream> {
        let stream = if run.client { Stream::connect(run)? } else { Stream::accept(run)? };
        let times = stream.set_read_timeout(Some(NAP)).and_then(|()| stream.set_write_timeout(Some(NAP)));
        times.map_err(|e| system("setsockopt failed", &e))?;
        Ok(Stream(stream))
    }

    fn connect(run: &mut Run) -> Result<TcpStream> {
        let port = u32::from_le_bytes(run.control.recv("port")?);
        TcpStream::connect(peer_at(run, port)?)
            .map_err(|_| Failure::Ours("could not make TCP connection to server".to_owned()))
    }

    fn accept(run: &mut Run) -> Result<TcpStream> {
        let listener =
            TcpListener::bind(own(run)).map_err(|_| Failure::Ours("unable to make TCP socket".to_owned()))?;
        tell_port(run, listener.local_addr())?;
        let end = Instant::now() + run.control.timeout;
        listener.set_nonblocking(true).map_err(|e| system("listen failed", &e))?;
        loop {
            match listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false).map_err(|e| system("accept failed", &e))?;
                    set_buffers(stream.as_raw_fd(), run.number(Number::SockBufSize))?;
                    return Ok(stream);
                }
                Err(e) if is_nap(&e) && Instant::now() < end => {
                    run.control.check()?;
                    std::thread::sleep(NAP / 10);
                }
                Err(e) => return Err(system("accept failed", &e)),
            }
        }
    }

    /// Sends a whole message; `false` if the time is over first.
    fn send(&mut self, run: &mut Run, bytes: &[u8]) -> Result<bool> {
        let mut at = 0;
        while at < bytes.len() {
            if run.finished()? {
                return Ok(false);
            }
            match self.0.write(&bytes[at..]) {
                Ok(n) => at += n,
                Err(e) if is_nap(&e) => {}
                Err(_) => {
                    run.finish();
                    return Ok(false);
                }
            }
        }
        run.stat.sent.add(bytes.len());
        Ok(true)
    }

    /// Receives a whole message; `false` if the time is over first, on this side or the peer's.
    fn recv(&mut self, run: &mut Run, into: &mut [u8]) -> Result<bool> {
        let mut at = 0;
        while at < into.len() {
            if run.finished()? {
                return Ok(false);
            }
            match self.0.read(&mut into[at..]) {
                Ok(0) => run.finish(),
                Ok(n) => at += n,
                Err(e) if is_nap(&e) => {}
                Err(_) => run.finish(),
            }
        }
        run.stat.received.add(into.len());
        Ok(true)
    }
}

/// TCP test, one way.
pub fn tcp_bandwidth(run: &mut Run) -> Result<()> {
    let mut stream = Stream::open(run)?;
    let mut buffer = vec![0; run.msg_size()];
    run.sync()?;
    while !run.finished()? {
        match run.client {
            true => stream.send(run, &buffer)?,
            false => stream.recv(run, &mut buffer)?,
        };
    }
    Ok(())
}

/// TCP test, ping-pong.
pub fn tcp_latency(run: &mut Run) -> Result<()> {
    let mut stream = Stream::open(run)?;
    let _ = stream.0.set_nodelay(true);
    let mut buffer = vec![0; run.msg_size()];
    run.sync()?;
    let mut sends = run.client;
    while !run.finished()? {
        let done = if sends { stream.send(run, &buffer)? } else { stream.recv(run, &mut buffer)? };
        if done {
            sends = !sends;
        }
    }
    Ok(())
}

fn datagrams(run: &mut Run) -> Result<UdpSocket> {
    let failed = |_| Failure::Ours("unable to make UDP socket".to_owned());
    let socket = if run.client {
        let port = u32::from_le_bytes(run.control.recv("port")?);
        let peer = peer_at(run, port)?;
        let any: SocketAddr = if peer.is_ipv4() { ([0; 4], 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
        let socket = UdpSocket::bind(any).map_err(failed)?;
        socket.connect(peer).map_err(failed)?;
        socket
    } else {
        let socket = UdpSocket::bind(own(run)).map_err(failed)?;
        set_buffers(socket.as_raw_fd(), run.number(Number::SockBufSize))?;
        tell_port(run, socket.local_addr())?;
        socket
    };
    let times = socket.set_read_timeout(Some(NAP)).and_then(|()| socket.set_write_timeout(Some(NAP)));
    times.map_err(|e| system("setsockopt failed", &e))?;
    Ok(socket)
}

/// UDP test, one way.
pub fn udp_bandwidth(run: &mut Run) -> Result<()> {
    let socket = datagrams(run)?;
    let mut buffer = vec![0; run.msg_size()];
    run.sync()?;
    while !run.finished()? {
        let moved = if run.client { socket.send(&buffer) } else { socket.recv(&mut buffer) };
        if run.finished()? {
            break;
        }
        let stat = &mut run.stat;
        let count = if run.client { &mut stat.sent } else { &mut stat.received };
        match moved {
            Ok(n) => count.add(n),
            Err(e) if is_nap(&e) => {}
            Err(_) => count.errs += 1,
        }
    }
    Ok(())
}

/// UDP test, ping-pong. A lost datagram ends the exchange, as in the original.
pub fn udp_latency(run: &mut Run) -> Result<()> {
    let socket = datagrams(run)?;
    let mut buffer = vec![0; run.msg_size()];
    run.sync()?;
    let mut sends = run.client;
    let mut peer = None;
    while !run.finished()? {
        let moved = match (sends, peer) {
            (true, Some(peer)) => socket.send_to(&buffer, peer),
            (true, None) => socket.send(&buffer),
            (false, _) => socket.recv_from(&mut buffer).map(|(n, from)| {
                peer = (!run.client).then_some(from);
                n
            }),
        };
        let count = if sends { &mut run.stat.sent } else { &mut run.stat.received };
        match moved {
            Ok(n) => {
                count.add(n);
                sends = !sends;
            }
            Err(e) if is_nap(&e) => {}
            Err(_) => count.errs += 1,
        }
    }
    Ok(())
}
