//! ICMP echo (RFC 792) to many hosts at once.

use std::io;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use weft_sys::icmp::IcmpSocket;

/// Time that the first attempt waits for answers; each further one waits twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// Attempts to reach a host. The first one resolves its address and its path.
const ATTEMPTS: u32 = 4;

const ECHO_REPLY: u8 = 0;
const ECHO: u8 = 8;
/// Bytes of an echo: header, and a random number as data.
const ECHO_BYTES: usize = 16;
/// Longest packet that is read.
const PACKET_BYTES_MAX: usize = 1500;

/// Pings all addresses, each until it answers. Returns what happened, in their order.
///
/// # Errors
/// This host has no ICMP socket.
pub fn ping_all(addresses: &[Option<Ipv4Addr>]) -> Result<Vec<Result<(), String>>, String> {
    let socket = IcmpSocket::open().map_err(|e| format!("no ICMP socket: {}", crate::errno::text(&e)))?;
    let nonce = weft_sys::random::u64();
    let missing = |ip: &Option<Ipv4Addr>| Err(if ip.is_some() { "no answer" } else { "no address" }.to_owned());
    let mut outcomes: Vec<Result<(), String>> = addresses.iter().map(missing).collect();
    let mut wait = FIRST_WAIT;
    for _ in 0..ATTEMPTS {
        for (number, ip) in (0u16..).zip(addresses) {
            let Some(outcome) = outcomes.get_mut(usize::from(number)).filter(|outcome| outcome.is_err()) else {
                continue;
            };
            let Some(ip) = ip else { continue };
            if let Err(error) = socket.send(*ip, &echo(nonce, number)) {
                *outcome = Err(crate::errno::text(&error));
            }
        }
        if collect(&socket, nonce, addresses, &mut outcomes, wait).map_err(|e| crate::errno::text(&e))? {
            break;
        }
        wait *= 2;
    }
    Ok(outcomes)
}

/// Takes answers until all have come or the time is over; returns whether all have.
fn collect(
    socket: &IcmpSocket,
    nonce: u64,
    addresses: &[Option<Ipv4Addr>],
    outcomes: &mut [Result<(), String>],
    within: Duration,
) -> io::Result<bool> {
    let until = Instant::now() + within;
    let mut packet = [0; PACKET_BYTES_MAX];
    while outcomes.iter().any(Result::is_err) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        let Some(length) = socket.recv(&mut packet, left)? else { continue };
        let answer = packet.get(..length).and_then(|packet| reply(packet, nonce));
        if let Some((number, from)) = answer
            && addresses.get(usize::from(number)) == Some(&Some(from))
            && let Some(outcome) = outcomes.get_mut(usize::from(number))
        {
            *outcome = Ok(());
        }
    }
    Ok(true)
}

/// An echo request. Its identifier and data are random, its sequence number tells the address.
fn echo(nonce: u64, number: u16) -> [u8; ECHO_BYTES] {
    let mut bytes = [0; ECHO_BYTES];
    bytes[0] = ECHO;
    bytes[4..6].copy_from_slice(&(nonce as u16).to_be_bytes());
    bytes[6..8].copy_from_slice(&number.to_be_bytes());
    bytes[8..].copy_from_slice(&nonce.to_be_bytes());
    let sum = checksum(&bytes);
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// The sequence number and the sender of an IP packet, if it is an answer to an echo with this number.
fn reply(packet: &[u8], nonce: u64) -> Option<(u16, Ipv4Addr)> {
    let header_bytes = usize::from(packet.first()? & 0xf) * 4;
    let from: [u8; 4] = packet.get(12..16)?.try_into().ok()?;
    let message: &[u8; ECHO_BYTES] = packet.get(header_bytes..header_bytes + ECHO_BYTES)?.try_into().ok()?;
    let is_ours = message[0] == ECHO_REPLY && message[1] == 0 && message[8..] == nonce.to_be_bytes();
    (is_ours && checksum(message) == 0).then(|| (u16::from_be_bytes([message[6], message[7]]), from.into()))
}

/// The Internet checksum (RFC 1071) of an even number of bytes.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_has_a_right_checksum() {
        let echo = echo(0x0123_4567_89ab_cdef, 7);
        assert_eq!(checksum(&echo), 0);
        assert_eq!(echo[..2], [8, 0]);
        // RFC 1071's example.
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    }

    #[test]
    fn only_answers_to_the_echo_count() {
        let nonce = 0x0123_4567_89ab_cdef;
        let mut message = echo(nonce, 7);
        message[0] = ECHO_REPLY;
        message[2..4].fill(0);
        let sum = checksum(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let mut packet = vec![0x45; 20];
        packet[12..16].copy_from_slice(&[10, 0, 0, 2]);
        packet.extend_from_slice(&message);
        assert_eq!(reply(&packet, nonce), Some((7, Ipv4Addr::new(10, 0, 0, 2))));
        assert_eq!(reply(&packet, nonce + 1), None);
        for length in 0..packet.len() {
            assert_eq!(reply(&packet[..length], nonce), None);
        }
        packet[20] = ECHO;
        assert_eq!(reply(&packet, nonce), None, "a request");
        packet[20] = ECHO_REPLY;
        packet[27] ^= 1;
        assert_eq!(reply(&packet, nonce), None, "a wrong checksum");
    }
}
