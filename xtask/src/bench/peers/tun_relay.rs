//! A bare relay: two TUN interfaces in two network namespaces, and one thread that carries packets from one to the other.
//! The limit for IPoIB in user space: the same interfaces with the same offloads, and nothing of InfiniBand between them.

use super::super::ip::Measure;
use super::super::program::Program;
use super::super::room::{Room, own_words};
use super::super::unit::Unit;
use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use weft_sys::tun::{FRAME_HEADER_BYTES, Tun};

/// Name of both interfaces.
const NAME: &str = "relay0";
/// Addresses of the server's and of the client's interface.
const ADDRESSES: [&str; 2] = ["10.98.0.1", "10.98.0.2"];
/// Packets carried in one direction before the other has its turn.
const PACKETS_PER_TURN: usize = 64;
/// The largest packet.
const PACKET_BYTES_MAX: usize = 65536;
/// Time limit for the interfaces to be there.
const READY_WITHIN: Duration = Duration::from_secs(5);

/// Options of the relay.
#[derive(clap::Args)]
pub struct Options {
    /// The other network namespace, such as /run/netns/NAME; the relay starts in the first one.
    other: PathBuf,
    /// MTU of both interfaces.
    #[arg(long)]
    mtu: u32,
}

/// Relays until it is killed.
pub fn run(options: &Options) -> Result<()> {
    let near = interface(ADDRESSES[0], options.mtu)?;
    let other = File::open(&options.other).with_context(|| format!("cannot open {}", options.other.display()))?;
    move_into_link_name_space(other.as_fd(), Some(LinkNameSpaceType::Network))
        .context("cannot enter the other namespace")?;
    let far = interface(ADDRESSES[1], options.mtu)?;
    println!("ready");
    let mut packet = vec![0; PACKET_BYTES_MAX];
    loop {
        let mut fds = [PollFd::new(&near, PollFlags::IN), PollFd::new(&far, PollFlags::IN)];
        poll(&mut fds, None)?;
        carry(&near, &far, &mut packet)?;
        carry(&far, &near, &mut packet)?;
    }
}

/// Makes an interface in the present namespace.
fn interface(address: &str, mtu: u32) -> Result<Tun> {
    let tun = Tun::infiniband(NAME).context("cannot make a TUN interface")?;
    ip(&format!("link set {NAME} mtu {mtu} up"))?;
    ip(&format!("addr add {address}/24 dev {NAME}"))?;
    Ok(tun)
}

fn ip(words: &str) -> Result<()> {
    let status = Command::new("ip").args(words.split(' ')).status().context("cannot run ip")?;
    ensure!(status.success(), "`ip {words}` failed");
    Ok(())
}

/// Carries the packets that wait, or some of them. A full queue loses a packet, as a link does.
fn carry(from: &Tun, to: &Tun, packet: &mut [u8]) -> Result<()> {
    let mut header = [0; FRAME_HEADER_BYTES];
    for _ in 0..PACKETS_PER_TURN {
        let length = match from.read(&mut header, packet) {
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => bail!("cannot read a packet: {error}"),
        };
        let _ = to.write(&header, &packet[..length]);
    }
    Ok(())
}

/// The relay as a peer.
#[derive(Clone, Copy, Debug)]
pub struct TunRelay {
    pub mtu: u32,
    pub of: Measure,
}

impl Program for TunRelay {
    fn name(&self) -> String {
        format!("{} over a bare TUN relay", self.of.name())
    }

    fn command(&self, seconds: u32) -> String {
        let client = self.of.client(ADDRESSES[0], seconds);
        format!("xtask bench-peer tun-relay /run/netns/CLIENT --mtu {}; {client}", self.mtu)
    }

    fn unit(&self) -> Unit {
        self.of.unit()
    }

    fn missing(&self) -> Option<&'static str> {
        self.of.missing()
    }

    fn measure(&self, room: &Room) -> Result<f64> {
        let lab = room.lab()?;
        let words = own_words(&format!("tun-relay /run/netns/{} --mtu {}", lab.client().netns, self.mtu))?;
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let mut relay = lab.start_bare(lab.server(), weft_interop::Who::Root, &words)?;
        let is_ready = relay.wait_until(READY_WITHIN, |relay| relay.text().contains("ready"));
        ensure!(is_ready, "no relay: {}", relay.kill().report());
        let server = |words: &[String]| room.serve(words, &[]);
        self.of.between(room, ADDRESSES[0], server, |words| room.connect(words, &[]))
    }
}
