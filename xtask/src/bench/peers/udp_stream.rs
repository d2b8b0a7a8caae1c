//! A bare stream of UDP datagrams with UDP_SEGMENT and UDP_GRO: the throughput of the kernel's path without
//! acknowledgements, retransmissions or ordering. Only received bytes count.

use super::super::program::{Program, figure_of, number_before};
use super::super::room::{Place, Room, own_words};
use super::super::unit::Unit;
use anyhow::{Context, Result, bail};
use nix::sys::socket::{setsockopt, sockopt};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// The largest UDP datagram over IPv4, and so the largest batch.
const BATCH_MAX: usize = 65_507;
/// The kernel's limit of segments in a batch.
const SEGMENTS_MAX: usize = 64;
/// Length of IPv4's and UDP's headers.
const HEADERS: usize = 28;
/// Receive buffer for datagrams that arrive while the receiver does not run.
const RECEIVE_BUFFER: usize = 4 << 20;
/// Silence after which the stream is over.
const SILENCE: Duration = Duration::from_millis(500);
/// Time limit for the first datagram, which may take longer.
const FIRST_WITHIN: Duration = Duration::from_secs(10);
/// Time limit for the receiver to start listening.
const LISTENS_WITHIN: Duration = Duration::from_secs(5);
const PORT: u16 = 7778;

/// Options of one end.
#[derive(clap::Args)]
pub struct Options {
    /// The address to receive on or, with --client, to send to.
    address: SocketAddr,
    /// Send instead of receiving.
    #[arg(long)]
    client: bool,
    /// Bytes in a datagram.
    #[arg(long, default_value_t = 1472)]
    segment: usize,
    /// Time to send in seconds.
    #[arg(long, default_value_t = 1)]
    seconds: u64,
}

/// Plays one end.
pub fn run(options: &Options) -> Result<()> {
    if !(1..=BATCH_MAX).contains(&options.segment) {
        bail!("datagram size {} is out of range; it must be 1 to {BATCH_MAX} bytes", options.segment);
    }
    if options.client { send(options) } else { receive(options) }
}

fn send(options: &Options) -> Result<()> {
    let (socket, batch) = sender(options)?;
    let until = Instant::now() + Duration::from_secs(options.seconds);
    while Instant::now() < until {
        match socket.send(&batch) {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionRefused) => {}
            Err(error) => return Err(error).context("cannot send"),
        }
    }
    Ok(())
}

/// Creates a socket that splits its sends, and the largest batch that one send takes.
fn sender(options: &Options) -> Result<(UdpSocket, Vec<u8>)> {
    let socket = UdpSocket::bind(("0.0.0.0", 0))?;
    let segment = i32::try_from(options.segment)?;
    setsockopt(&socket, sockopt::UdpGsoSegment, &segment).context("the kernel has no UDP_SEGMENT")?;
    socket.connect(options.address)?;
    let batch = vec![7u8; (BATCH_MAX / options.segment).min(SEGMENTS_MAX) * options.segment];
    Ok((socket, batch))
}

fn receive(options: &Options) -> Result<()> {
    let socket = receiver(options.address)?;
    println!("ready");
    let (bytes, time) = count(&socket, FIRST_WITHIN, SILENCE)?;
    println!("{:.0} bytes/sec", bytes as f64 / time.as_secs_f64().max(1e-9));
    Ok(())
}

/// Creates a socket that receives batches.
fn receiver(address: SocketAddr) -> Result<UdpSocket> {
    let socket = UdpSocket::bind(address).with_context(|| format!("cannot bind {address}"))?;
    setsockopt(&socket, sockopt::UdpGroSegment, &true).context("the kernel has no UDP_GRO")?;
    // Without privilege the kernel gives as much as net.core.rmem_max allows.
    setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BUFFER)
        .or_else(|_| setsockopt(&socket, sockopt::RcvBuf, &RECEIVE_BUFFER))?;
    Ok(socket)
}

/// Returns the bytes received after the first batch, and the time until the last one.
fn count(socket: &UdpSocket, first_within: Duration, silence: Duration) -> Result<(u64, Duration)> {
    let mut buffer = vec![0u8; BATCH_MAX];
    socket.set_read_timeout(Some(first_within))?;
    socket.recv(&mut buffer).context("nothing came")?;
    socket.set_read_timeout(Some(silence))?;
    let (started, mut last, mut bytes) = (Instant::now(), Instant::now(), 0u64);
    loop {
        match socket.recv(&mut buffer) {
            Ok(length) => (last, bytes) = (Instant::now(), bytes + length as u64),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
            Err(error) => return Err(error).context("cannot receive"),
        }
    }
    Ok((bytes, last - started))
}

/// The UDP stream as a peer.
#[derive(Clone, Copy, Debug)]
pub struct UdpStream {
    pub place: Place,
}

impl UdpStream {
    fn segment(self) -> usize {
        match self.place {
            Place::TwoHosts { mtu } => mtu as usize - HEADERS,
            Place::SameHost | Place::Subnet { .. } | Place::Guest { .. } | Place::Storage => BATCH_MAX,
        }
    }
}

impl Program for UdpStream {
    fn name(&self) -> String {
        "bare UDP with GSO/GRO".to_owned()
    }

    fn command(&self, _seconds: u32) -> String {
        format!("xtask bench-peer udp-stream --client SERVER:{PORT} --segment {}", self.segment())
    }

    fn unit(&self) -> Unit {
        Unit::BytesPerSecond
    }

    fn measure(&self, room: &Room) -> Result<f64> {
        let address = format!("{}:{PORT}", room.lab()?.server().v4);
        let mut server = room.serve(&own_words(&format!("udp-stream {address}"))?, &[])?;
        server.wait_until(LISTENS_WITHIN, |p| p.text().contains("ready"));
        let line = own_words(&format!("udp-stream --client {address} --segment {}", self.segment()))?;
        figure_of(room.connect(&line, &[])?, room.seconds, |_| Some(0.0))?;
        figure_of(server, room.seconds, |text| number_before(text, "bytes/sec"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_after_the_first_batch_is_counted() {
        let receiver = receiver(([127, 0, 0, 1], 0).into()).expect("a socket");
        let address = receiver.local_addr().expect("an address");
        let options = Options { address, client: true, segment: 1000, seconds: 0 };
        let (sender, batch) = sender(&options).expect("a socket");
        assert_eq!(batch.len(), 64_000);
        sender.send(&[1; 10]).expect("the first");
        sender.send(&batch).expect("a batch");
        let (bytes, _) = count(&receiver, FIRST_WITHIN, Duration::from_millis(50)).expect("all came");
        assert_eq!(bytes, 64_000);
    }

    #[test]
    fn a_datagram_has_bounds() {
        let options = |segment| Options { address: ([127, 0, 0, 1], 9).into(), client: true, segment, seconds: 0 };
        assert!(run(&options(0)).is_err() && run(&options(BATCH_MAX + 1)).is_err());
    }

    #[test]
    fn a_datagram_fills_the_cable() {
        assert_eq!(UdpStream { place: Place::TwoHosts { mtu: 9000 } }.segment(), 8972);
        assert_eq!(UdpStream { place: Place::SameHost }.segment(), BATCH_MAX);
    }
}
