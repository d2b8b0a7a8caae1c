//! A bare TCP ping-pong that polls: the cost of the kernel's path without MPA, DDP and RDMAP above it.
//!
//! Both ends spin on non-blocking sockets, as a program that polls its completion queue does; the client prints the median
//! of half the round trip, which `ib_send_lat` calls typical.

use super::super::program::{Program, figure_of, number_before};
use super::super::room::{Room, own_words};
use super::super::unit::Unit;
use anyhow::{Context, Result, bail};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Maximum length of a message.
const PAYLOAD_MAX: usize = 65_000;
/// Silence of the peer after which an end gives up.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Time limit for the answering end to start listening.
const LISTENS_WITHIN: Duration = Duration::from_secs(5);
/// Port of the answering end.
const PORT: u16 = 7778;

/// Options of one end.
#[derive(clap::Args)]
pub struct Options {
    /// The address to listen on or, with --client, to connect to.
    address: SocketAddr,
    /// Send requests instead of answering.
    #[arg(long)]
    client: bool,
    /// Bytes in a message.
    #[arg(long, default_value_t = 8)]
    payload: usize,
    /// Round trips.
    #[arg(long, default_value_t = 20_000)]
    count: usize,
}

/// Plays one end.
pub fn run(options: &Options) -> Result<()> {
    if !(1..=PAYLOAD_MAX).contains(&options.payload) || options.count == 0 {
        bail!("the payload must be 1 to {PAYLOAD_MAX} bytes, with at least one round trip");
    }
    if options.client { ask(options) } else { answer(options) }
}

fn answer(options: &Options) -> Result<()> {
    let listener = TcpListener::bind(options.address).with_context(|| format!("cannot bind {}", options.address))?;
    println!("ready");
    let (stream, _) = listener.accept()?;
    let mut stream = polling(stream)?;
    let mut message = vec![0u8; options.payload];
    while receive(&mut stream, &mut message)? {
        stream.write_all(&message)?;
    }
    Ok(())
}

fn ask(options: &Options) -> Result<()> {
    let mut stream = polling(TcpStream::connect(options.address)?)?;
    let (ping, mut pong) = (vec![7u8; options.payload], vec![0u8; options.payload]);
    let mut halves = Vec::with_capacity(options.count);
    for _ in 0..options.count {
        let sent = Instant::now();
        stream.write_all(&ping)?;
        if !receive(&mut stream, &mut pong)? {
            bail!("the other end has closed the connection");
        }
        halves.push(sent.elapsed() / 2);
    }
    halves.sort_unstable();
    println!("typical {:.3} us", halves[halves.len() / 2].as_secs_f64() * 1e6);
    Ok(())
}

fn polling(stream: TcpStream) -> Result<TcpStream> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Spins until a whole message has come. Returns `false` at the end of the stream.
fn receive(stream: &mut TcpStream, message: &mut [u8]) -> Result<bool> {
    let since = Instant::now();
    let mut received = 0;
    while received < message.len() {
        match stream.read(&mut message[received..]) {
            Ok(0) => return Ok(false),
            Ok(bytes) => received += bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if since.elapsed() > SILENCE_MAX {
                    bail!("the other end is silent");
                }
                std::hint::spin_loop();
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

/// The TCP ping-pong as a peer.
#[derive(Clone, Copy, Debug)]
pub struct TcpPong {
    pub payload: u64,
}

impl Program for TcpPong {
    fn name(&self) -> String {
        "bare TCP, polling".to_owned()
    }

    fn command(&self, _seconds: u32) -> String {
        format!("xtask bench-peer tcp-pong --client SERVER:{PORT} --payload {}", self.payload)
    }

    fn unit(&self) -> Unit {
        Unit::Microseconds
    }

    fn measure(&self, room: &Room) -> Result<f64> {
        let address = format!("{}:{PORT}", room.lab()?.server().v4);
        let payload = self.payload;
        let mut server = room.serve(&own_words(&format!("tcp-pong {address} --payload {payload}"))?, &[])?;
        server.wait_until(LISTENS_WITHIN, |p| p.text().contains("ready"));
        let line = own_words(&format!("tcp-pong --client {address} --payload {payload}"))?;
        figure_of(room.connect(&line, &[])?, room.seconds, |text| number_before(text, "us"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_play_until_the_client_has_its_count() {
        let free = TcpListener::bind(("127.0.0.1", 0)).expect("a port").local_addr().expect("an address");
        let server = std::thread::spawn(move || run(&Options { address: free, client: false, payload: 8, count: 1 }));
        let client = loop {
            // The answering end may not listen yet.
            match run(&Options { address: free, client: true, payload: 8, count: 50 }) {
                Err(error) if error.to_string().contains("refused") => std::thread::yield_now(),
                played => break played,
            }
        };
        client.expect("the client ends well");
        server.join().expect("no panic").expect("the server ends with its client");
    }
}
