//! Captures of the tap between host and guest.

use super::dissection::{self, Dissection};
use crate::lab::Lab;
use crate::proc::{Ended, Proc};
use crate::user::Who;
use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use std::path::PathBuf;
use std::time::Duration;
use weft_wire::{Packet, icrc, pcapng, roce};

/// Maximum capture size: enough for every check, without filling the disk.
const CAPTURE_MAX_KB: u32 = 1_000_000;

/// Time that packets may stay in the kernel's capture ring, which dumpcap does not empty when it ends.
const CAPTURE_LAGS: Duration = Duration::from_millis(600);

/// A capture in progress.
#[derive(Debug)]
pub struct Capture {
    program: Proc,
    file: PathBuf,
}

/// Counts of captured packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// RoCE v2 packets over IPv4, from Weft and from the kernel.
    pub v4: [usize; 2],
    /// RoCE v2 packets over IPv6, from Weft and from the kernel.
    pub v6: [usize; 2],
    /// Packets that the capture missed.
    pub missed: usize,
}

impl Capture {
    /// Begins a capture of the tap. `number` tells its file from those of other captures.
    pub(super) fn start(lab: &Lab, number: u32) -> Result<Capture> {
        let file = lab.file(&format!("tap-{number}.pcap"));
        let side = lab.client();
        let path = file.to_str().context("the lab's path is not UTF-8")?;
        let limit = format!("filesize:{CAPTURE_MAX_KB}");
        let words = ["dumpcap", "-q", "-P", "-B", "64", "-a", &limit, "-i", side.interface, "-w", path];
        let mut program = lab.start_bare(side, Who::Root, &words)?;
        if !program.wait_until(Duration::from_secs(20), |p| p.text().contains("File:") && file.exists()) {
            bail!("dumpcap does not capture: {}", program.kill().report());
        }
        Ok(Capture { program, file })
    }

    /// Ends the capture; returns dumpcap's output and the file.
    fn end(self) -> (Ended, PathBuf) {
        std::thread::sleep(CAPTURE_LAGS);
        self.program.signal(Signal::INT);
        (self.program.wait(Duration::from_secs(20)), self.file)
    }

    /// Ends the capture, and has tshark read its iWARP connections.
    pub fn dissect(self, ours: [&str; 2]) -> Result<Dissection> {
        let (_, file) = self.end();
        dissection::dissect(&file, &ours)
    }

    /// Ends the capture and recomputes the ICRC of every packet; an error reports the first wrong one.
    pub fn finish(self, ours: [&str; 2]) -> Result<Captured> {
        let (ended, file) = self.end();
        let mut captured = Captured { missed: missed(&ended.text), ..Captured::default() };
        let file = std::fs::read(&file)?;
        for (number, frame) in pcapng::frames(&file).enumerate() {
            ensure!(!is_fragment(frame), "packet {} is a fragment", number + 1);
            let Some((meta, ib)) = roce::parse_v2_frame(frame) else { continue };
            let flow = meta.flow().context("addresses of two families")?;
            let found = Packet::icrc(ib).with_context(|| format!("packet {} has no ICRC", number + 1))?;
            let right = icrc::of_packet(flow.seed(ib.len(), meta.ip_id), ib);
            ensure!(found == right, "packet {}, {meta:?}: ICRC {found:08x}, and {right:08x} is right", number + 1);
            let from_them = usize::from(!ours.contains(&meta.src.to_string().as_str()));
            let counts = if meta.src.is_ipv4() { &mut captured.v4 } else { &mut captured.v6 };
            counts[from_them] += 1;
        }
        Ok(captured)
    }
}

/// Parses `Packets received/dropped on interface 'eth0': 28/0 (pcap:0/...)`.
fn missed(text: &str) -> usize {
    let counts = text.lines().find_map(|line| line.split_once("received/dropped on interface")?.1.split_once("': "));
    let dropped = counts.and_then(|(_, counts)| counts.split(['/', ' ']).nth(1)?.parse().ok());
    dropped.unwrap_or(0)
}

/// Returns whether a frame is an IPv4 fragment of a UDP datagram: neither side may send those.
fn is_fragment(frame: &[u8]) -> bool {
    match frame.get(12..).and_then(|rest| rest.first_chunk::<22>()) {
        Some([0x08, 0x00, 0x45, _, _, _, _, _, flags, offset, _, 17, ..]) => flags & 0x3f != 0 || *offset != 0,
        _ => false,
    }
}
