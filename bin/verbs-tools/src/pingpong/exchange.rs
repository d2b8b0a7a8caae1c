//! The TCP exchange of two pingpongs before they use RDMA: fixed-size texts with a zero at the end.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::devinfo::gid_text;

/// Address of a queue pair in the format of the four simpler tools: `LID:QPN:PSN:GID`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Dest {
    /// LID (InfiniBand).
    pub lid: u16,
    /// Queue pair number.
    pub qpn: u32,
    /// First PSN sent.
    pub psn: u32,
    /// GID.
    pub gid: [u8; 16],
}

/// Address of a pair of queue pairs and a shared receive queue in ibv_xsrq_pingpong's format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct XrcDest {
    /// LID (InfiniBand).
    pub lid: u16,
    /// The queue pair that receives (XRC target).
    pub recv_qpn: u32,
    /// The queue pair that sends (XRC initiator).
    pub send_qpn: u32,
    /// First PSN sent.
    pub psn: u32,
    /// The shared receive queue.
    pub srqn: u32,
    /// GID.
    pub gid: [u8; 16],
}

/// A text message of the exchange.
pub trait Message: Sized {
    /// Its length including the final zero.
    const BYTES: usize;
    /// Formats the message.
    fn encode(&self) -> String;
    /// Parses a message.
    fn decode(text: &str) -> Option<Self>;
}

impl Dest {
    /// The address of an unused queue pair.
    pub const EMPTY: Dest = Dest { lid: 0, qpn: 0, psn: 0, gid: [0; 16] };
}

impl Message for Dest {
    const BYTES: usize = 52;

    fn encode(&self) -> String {
        format!("{:04x}:{:06x}:{:06x}:{}", self.lid, self.qpn, self.psn, hex(&self.gid))
    }

    fn decode(text: &str) -> Option<Dest> {
        let [lid, qpn, psn, gid] = fields(text)?;
        Some(Dest { lid: number(lid)? as u16, qpn: number(qpn)?, psn: number(psn)?, gid: unhex(gid)? })
    }
}

impl Message for XrcDest {
    const BYTES: usize = 66;

    fn encode(&self) -> String {
        let XrcDest { lid, recv_qpn, send_qpn, psn, srqn, gid } = self;
        format!("{lid:04x}:{recv_qpn:06x}:{send_qpn:06x}:{psn:06x}:{srqn:06x}:{}", hex(gid))
    }

    fn decode(text: &str) -> Option<XrcDest> {
        let [lid, recv_qpn, send_qpn, psn, srqn, gid] = fields(text)?;
        Some(XrcDest {
            lid: number(lid)? as u16,
            recv_qpn: number(recv_qpn)?,
            send_qpn: number(send_qpn)?,
            psn: number(psn)?,
            srqn: number(srqn)?,
            gid: unhex(gid)?,
        })
    }
}

fn fields<const N: usize>(text: &str) -> Option<[&str; N]> {
    text.trim().split(':').collect::<Vec<_>>().try_into().ok()
}

fn number(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 16).ok()
}

fn hex(bytes: &[u8; 16]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 16]> {
    (text.len() == 32).then_some(())?;
    Some(u128::from_str_radix(text, 16).ok()?.to_be_bytes())
}

impl Dest {
    /// The line that prints the address; `separator` precedes the GID (it differs in ibv_ud_pingpong's local address).
    pub fn line(&self, whose: &str, separator: &str) -> String {
        let Dest { lid, qpn, psn, gid } = self;
        let whose = format!("{whose} address:");
        format!("  {whose:<15} LID {lid:#06x}, QPN {qpn:#08x}, PSN {psn:#08x}{separator} GID {}\n", gid_text(gid))
    }
}

impl XrcDest {
    /// The line that prints the address.
    pub fn line(&self, whose: &str) -> String {
        let XrcDest { lid, recv_qpn, send_qpn, psn, srqn, gid } = self;
        format!(
            "{whose:>8}: LID {lid:04x}, QPN RECV {recv_qpn:06x} SEND {send_qpn:06x}, PSN {psn:06x}, SRQN {srqn:06x}, GID {}\n",
            gid_text(gid)
        )
    }
}

/// A TCP connection to the peer.
#[derive(Debug)]
pub struct Link(TcpStream);

/// A listening server.
#[derive(Debug)]
pub struct Acceptor(TcpListener);

/// Connects to a server.
///
/// # Errors
/// The line to print.
pub fn connect_to(server: &str, port: u16) -> Result<Link, String> {
    let stream = TcpStream::connect((server, port)).map_err(|e| {
        // A name that does not resolve is the other common error.
        match e.raw_os_error() {
            Some(_) => format!("Couldn't connect to {server}:{port}"),
            None => format!("{e} for {server}:{port}"),
        }
    })?;
    Ok(Link::new(stream))
}

impl Acceptor {
    /// Listens on `port` of every address.
    ///
    /// # Errors
    /// The line to print.
    pub fn listen(port: u16) -> Result<Acceptor, String> {
        // [::] accepts IPv4 too; a host without IPv6 can only use 0.0.0.0.
        TcpListener::bind(("::", port))
            .or_else(|_| TcpListener::bind(("0.0.0.0", port)))
            .map(Acceptor)
            .map_err(|_| format!("Couldn't listen to port {port}"))
    }

    /// Waits for a client.
    pub fn accept(&self) -> Result<Link, String> {
        let (stream, _) = self.0.accept().map_err(|_| "accept() failed".to_owned())?;
        Ok(Link::new(stream))
    }
}

impl Link {
    fn new(stream: TcpStream) -> Link {
        // Only reduces latency.
        let _ = stream.set_nodelay(true);
        Link(stream)
    }

    /// Sends a text, padded with zeroes to `bytes` bytes.
    pub fn send_text(&mut self, text: &str, bytes: usize) -> Result<(), String> {
        let mut message = text.as_bytes().to_vec();
        message.resize(bytes, 0);
        self.0.write_all(&message).map_err(|_| "Couldn't send local address".to_owned())
    }

    /// Receives `bytes` bytes and returns the text up to the first zero.
    fn receive_text(&mut self, bytes: usize) -> Result<String, String> {
        let mut message = vec![0; bytes];
        let mut got = 0;
        while got < bytes {
            match self.0.read(&mut message[got..]) {
                Ok(n) if n > 0 => got += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                _ => return Err(format!("{got}/{bytes}: Couldn't read remote address")),
            }
        }
        let end = message.iter().position(|&b| b == 0).unwrap_or(bytes);
        Ok(String::from_utf8_lossy(&message[..end]).into_owned())
    }

    /// Sends an address.
    pub fn send<M: Message>(&mut self, message: &M) -> Result<(), String> {
        self.send_text(&message.encode(), M::BYTES)
    }

    /// Receives an address.
    pub fn receive<M: Message>(&mut self) -> Result<M, String> {
        let text = self.receive_text(M::BYTES)?;
        M::decode(&text).ok_or_else(|| format!("Couldn't understand remote address '{}'", text.escape_debug()))
    }

    /// Tells the server that this client is ready.
    pub fn say_done(&mut self) -> Result<(), String> {
        self.send_text("done", 5)
    }

    /// Waits for the client to be ready. Neither the message's contents nor a closed connection matters.
    pub fn await_done(&mut self) {
        let _ = self.receive_text(5);
    }

    /// Tells the peer that the run of ibv_xsrq_pingpong is over.
    pub fn say_end(&mut self) -> Result<(), String> {
        self.send_text("END", 4).map_err(|_| "Couldn't send termination ack".to_owned())
    }

    /// Waits for the peer to end the run.
    pub fn await_end(&mut self) -> Result<(), String> {
        match self.receive_text(4).as_deref() {
            Ok("END") => Ok(()),
            Ok(_) => Err("Invalid termination ack was accepted".to_owned()),
            Err(_) => Err("Couldn't read remote termination ack".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message from Debian's ibv_rc_pingpong over TCP.
    const GOLDEN: &str = "0000:000014:c76c9f:00000000000000000000ffff0a4d0001";

    fn dest() -> Dest {
        let gid = "::ffff:10.77.0.1".parse::<std::net::Ipv6Addr>().unwrap().octets();
        Dest { lid: 0, qpn: 0x14, psn: 0xc7_6c9f, gid }
    }

    #[test]
    fn an_address_has_the_originals_form() {
        assert_eq!(dest().encode(), GOLDEN);
        assert_eq!(GOLDEN.len() + 1, Dest::BYTES);
        assert_eq!(Dest::decode(GOLDEN), Some(dest()));
        assert_eq!(
            dest().line("local", ","),
            "  local address:  LID 0x0000, QPN 0x000014, PSN 0xc76c9f, GID ::ffff:10.77.0.1\n"
        );
    }

    #[test]
    fn an_xrc_address_comes_back() {
        let dest = XrcDest { lid: 1, recv_qpn: 2, send_qpn: 3, psn: 4, srqn: 5, gid: [7; 16] };
        assert_eq!(dest.encode().len() + 1, XrcDest::BYTES);
        assert_eq!(XrcDest::decode(&dest.encode()), Some(dest));
        assert!(
            dest.line("local")
                .starts_with("   local: LID 0001, QPN RECV 000002 SEND 000003, PSN 000004, SRQN 000005, GID ")
        );
    }

    #[test]
    fn garbage_is_no_address() {
        for text in ["", "0:0:0", "x:0:0:0", "0000:000014:c76c9f:00", &GOLDEN.replace('f', "é")] {
            assert_eq!(Dest::decode(text), None, "{text}");
        }
    }
}
