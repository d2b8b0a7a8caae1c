//! A bare UDP ping-pong that polls: the cost of the kernel's path without any protocol above it.
//!
//! Both ends spin on non-blocking sockets, like a program that polls its completion queue; the client prints the median
//! of half the round trip, which `ib_send_lat` calls typical.

use super::super::program::{Program, figure_of, number_before};
use super::super::room::{Room, own_words};
use super::super::unit::Unit;
use anyhow::{Context, Result, bail};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Maximum payload of a datagram.
const PAYLOAD_MAX: usize = 65_000;

/// Every datagram starts with its number, so that a late answer is not taken for the next.
const NUMBER_SIZE: usize = 8;

/// Time after which a lost datagram is sent again; the median does not see it.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Silence of the peer after which an end gives up.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Time limit for the answering end to start listening.
const LISTENS_WITHIN: Duration = Duration::from_secs(5);
/// Port of the answering end.
pub const PORT: u16 = 7777;

/// Options of one end.
#[derive(clap::Args)]
pub struct Options {
    /// The address to answer on or, with --client, to send to.
    address: SocketAddr,
    /// Send requests instead of answering.
    #[arg(long)]
    client: bool,
    /// Bytes in a datagram.
    #[arg(long, default_value_t = 8)]
    payload: usize,
    /// Round trips.
    #[arg(long, default_value_t = 20_000)]
    count: usize,
}

/// Plays one end.
pub fn run(options: &Options) -> Result<()> {
    if !(NUMBER_SIZE..=PAYLOAD_MAX).contains(&options.payload) || options.count == 0 {
        bail!("the payload must be {NUMBER_SIZE} to {PAYLOAD_MAX} bytes, with at least one round trip");
    }
    if options.client { ask(options) } else { answer(options) }
}

fn answer(options: &Options) -> Result<()> {
    let socket = UdpSocket::bind(options.address).with_context(|| format!("cannot bind {}", options.address))?;
    socket.set_nonblocking(true)?;
    println!("ready");
    let mut buffer = vec![0u8; PAYLOAD_MAX];
    // It ends with its client: initial silence longer than any start means the end too.
    while let Some((length, from)) = receive(&socket, &mut buffer, SILENCE_MAX)? {
        socket.send_to(&buffer[..length], from)?;
    }
    Ok(())
}

fn ask(options: &Options) -> Result<()> {
    let any: SocketAddr = if options.address.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.set_nonblocking(true)?;
    let (mut ping, mut pong) = (vec![7u8; options.payload], vec![0u8; PAYLOAD_MAX]);
    let mut halves = Vec::with_capacity(options.count);
    for number in 0..options.count as u64 {
        ping[..NUMBER_SIZE].copy_from_slice(&number.to_be_bytes());
        let sent = Instant::now();
        socket.send_to(&ping, options.address)?;
        let mut spoken = sent;
        while !is_answer(receive(&socket, &mut pong, AGAIN_AFTER)?, &pong, number) {
            if sent.elapsed() > SILENCE_MAX {
                bail!("the other end is silent");
            }
            if spoken.elapsed() >= AGAIN_AFTER {
                spoken = Instant::now();
                socket.send_to(&ping, options.address)?;
            }
        }
        halves.push(sent.elapsed() / 2);
    }
    halves.sort_unstable();
    println!("typical {:.3} us", halves[halves.len() / 2].as_secs_f64() * 1e6);
    Ok(())
}

/// Whether a received datagram starts with this number.
fn is_answer(came: Option<(usize, SocketAddr)>, pong: &[u8], number: u64) -> bool {
    came.is_some_and(|(length, _)| pong[..length].starts_with(&number.to_be_bytes()))
}

/// Spins until a datagram arrives; `None` after `silence`.
fn receive(socket: &UdpSocket, buffer: &mut [u8], silence: Duration) -> Result<Option<(usize, SocketAddr)>> {
    let since = Instant::now();
    loop {
        match socket.recv_from(buffer) {
            Ok(got) => return Ok(Some(got)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if since.elapsed() > silence {
                    return Ok(None);
                }
                std::hint::spin_loop();
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// The UDP ping-pong as a peer.
#[derive(Clone, Copy, Debug)]
pub struct UdpPong {
    pub payload: u64,
}

impl Program for UdpPong {
    fn name(&self) -> String {
        "bare UDP, polling".to_owned()
    }

    fn command(&self, _seconds: u32) -> String {
        format!("xtask bench-peer udp-pong --client SERVER:{PORT} --payload {}", self.payload)
    }

    fn unit(&self) -> Unit {
        Unit::Microseconds
    }

    fn measure(&self, room: &Room) -> Result<f64> {
        let address = format!("{}:{PORT}", room.lab()?.server().v4);
        let mut server = room.serve(&own_words(&format!("udp-pong {address}"))?, &[])?;
        server.wait_until(LISTENS_WITHIN, |p| p.text().contains("ready"));
        let line = own_words(&format!("udp-pong --client {address} --payload {}", self.payload))?;
        figure_of(room.connect(&line, &[])?, room.seconds, |text| number_before(text, "us"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_play_and_a_late_answer_counts_for_nothing() {
        let answering = UdpSocket::bind(("127.0.0.1", 0)).expect("a socket");
        let address = answering.local_addr().expect("an address");
        answering.set_nonblocking(true).expect("polling");
        let player = std::thread::spawn(move || run(&Options { address, client: true, payload: 8, count: 3 }));
        let mut buffer = [0u8; 64];
        for number in 0..3u64 {
            let came = receive(&answering, &mut buffer, SILENCE_MAX).expect("a ping");
            assert!(is_answer(came, &buffer, number));
            let (_, from) = came.expect("a ping");
            answering.send_to(&99u64.to_be_bytes(), from).expect("what nobody asked for");
            answering.send_to(&number.to_be_bytes(), from).expect("a pong");
        }
        player.join().expect("no panic").expect("the client ends well");
    }

    #[test]
    fn what_is_lost_is_asked_again() {
        let answering = UdpSocket::bind(("127.0.0.1", 0)).expect("a socket");
        let address = answering.local_addr().expect("an address");
        answering.set_nonblocking(true).expect("polling");
        let player = std::thread::spawn(move || run(&Options { address, client: true, payload: 8, count: 1 }));
        let mut buffer = [0u8; 64];
        receive(&answering, &mut buffer, SILENCE_MAX).expect("a ping that is lost").expect("no silence");
        let (length, from) = receive(&answering, &mut buffer, SILENCE_MAX).expect("it again").expect("no silence");
        answering.send_to(&buffer[..length], from).expect("a pong");
        player.join().expect("no panic").expect("the client ends well");
    }
}
