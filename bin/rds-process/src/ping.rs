//! `weft rds ping`: rds-ping. A ping is an empty datagram to port 0; the host answers it to the sender's port. Sockets take
//! turns, so that an answer tells which ping it is for.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use weft_client::rdmacm::lookup;
use weft_sys::epoll::{Epoll, Interest, Ready};
use weft_tool::outln;

use crate::service_client::ServiceClient;

/// Sockets that take turns.
const SOCKETS: usize = 8;
/// Port for a UDP socket that is only asked for its own address.
const ANY_PORT: u16 = 1;

/// Options of `weft rds ping`.
#[derive(Args, Clone, Debug)]
pub struct PingArgs {
    /// Number of pings; without it, they go on
    #[arg(short = 'c', value_name = "COUNT")]
    count: Option<u64>,
    /// Interval between pings: 1, 0.5, 200ms
    #[arg(short = 'i', value_name = "TIME", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// Source address
    #[arg(short = 'I', value_name = "ADDRESS")]
    source: Option<Ipv4Addr>,
    /// Host: a name or an IPv4 address
    host: String,
}

fn interval(text: &str) -> Result<Duration, String> {
    let units = [("msec", 1e-3), ("ms", 1e-3), ("usec", 1e-6), ("us", 1e-6), ("s", 1.0), ("", 1.0)];
    let found = units.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let (number, seconds) = found.unwrap_or((text, &1.0));
    let number: f64 = number.parse().map_err(|_| format!("`{text}` is no time; use 1, 0.5 or 200ms"))?;
    Duration::try_from_secs_f64(number * seconds).map_err(|error| error.to_string())
}

/// Ping under way.
#[derive(Clone, Copy, Debug)]
struct Sent {
    number: u64,
    at: Instant,
}

/// Sends pings. The exit status tells whether any was answered.
///
/// # Errors
/// The host is unknown, or no RDMA device leads to it.
pub fn run(args: &PingArgs) -> Result<ExitCode> {
    let host = address(&args.host)?;
    let source = match args.source {
        Some(source) => source,
        None => source_for(host)?,
    };
    let epoll = Epoll::new()?;
    let mut sockets = Vec::new();
    for token in 0..SOCKETS {
        let socket = ServiceClient::connect_or_start()?;
        socket.bind(SocketAddrV4::new(source, 0)).with_context(|| {
            format!("{source}: no RDMA device has this address; -I names another, and `weft link` lists devices")
        })?;
        epoll.add(&socket, token as u64, Interest::READ)?;
        sockets.push((socket, None::<Sent>));
    }
    let (mut sent, mut answered) = (0, 0);
    let mut next = Instant::now();
    while args.count.is_none_or(|count| answered < count) {
        let now = Instant::now();
        if now >= next {
            if args.count.is_some_and(|count| sent >= count) {
                break;
            }
            next = now + args.interval;
            let slot = sent as usize % SOCKETS;
            if let Some((socket, pending @ None)) = sockets.get_mut(slot) {
                sent += 1;
                socket.send_empty(SocketAddrV4::new(host, 0)).context("the RDS service")?;
                *pending = Some(Sent { number: sent, at: now });
            }
        }
        let mut ready: Vec<Ready> = Vec::new();
        epoll.wait(&mut ready, Some(next.saturating_duration_since(now)))?;
        for event in ready {
            let Some((socket, pending)) = sockets.get_mut(event.token as usize) else { continue };
            while let Some(from) = socket.receive().context("the RDS service has ended")? {
                let Some(ping) = pending.take() else { continue };
                answered += 1;
                let from = if *from.ip() == host { String::new() } else { format!(" ({})", from.ip()) };
                outln!(" {:>3}: {} usec{from}", ping.number, ping.at.elapsed().as_micros());
            }
        }
    }
    Ok(if answered > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn address(host: &str) -> Result<Ipv4Addr> {
    let address = lookup(Some(host), None, 0).map_err(|error| anyhow::anyhow!("{host}: {error}"))?;
    match address.ip() {
        Some(std::net::IpAddr::V4(ip)) => Ok(ip),
        _ => bail!("{host}: not an IPv4 address; RDS is there for IPv4 alone"),
    }
}

/// Returns this machine's address towards a host.
fn source_for(host: Ipv4Addr) -> Result<Ipv4Addr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect((host, ANY_PORT)).with_context(|| format!("{host}: no route"))?;
    match socket.local_addr()?.ip() {
        std::net::IpAddr::V4(ip) => Ok(ip),
        std::net::IpAddr::V6(_) => bail!("{host}: no IPv4 address leads there"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_units() {
        for (text, milliseconds) in [("1", 1000), ("0.5", 500), ("200ms", 200), ("30msec", 30), ("2s", 2000)] {
            assert_eq!(interval(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        assert!(interval("x").is_err() && interval("-1").is_err());
    }
}
