//! A capture of this process's sent and received packets: `WEFT_PCAP=file.pcapng`. UDP sockets show no frames, so the
//! capture reconstructs Ethernet, IP and UDP headers around each packet as they were on the wire: IPv4's identification
//! is the one that the ICRC proves, and the MAC addresses are derived from the IP addresses. Received packets are
//! captured if their ICRC is correct. On an InfiniBand fabric that packets cross hop by hop, they are InfiniBand's own,
//! LRH to VCRC, in ERF records.
//!
//! A file belongs to one process: `%p` in the name becomes the pid, and if another running process holds the file, the
//! pid is appended to the name.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::FlockOperation;
use weft_sys::file_size;
use weft_wire::ethernet;
use weft_wire::grh::Grh;
use weft_wire::pcapng::{self, Direction};
use weft_wire::roce::IpMeta;

/// Bytes buffered before a write.
const WRITE_BYTES: usize = 256 << 10;

/// A capture file.
#[derive(Debug)]
pub struct Capture {
    file: File,
    path: PathBuf,
    pending: Vec<u8>,
    frame: Vec<u8>,
    /// Set when a write failed: the capture ends there, after the last whole block.
    failed: Option<io::Error>,
}

impl Capture {
    /// Starts a capture; `name` as the user gave it. `ib` says that its packets are InfiniBand's.
    pub fn create(name: &str, ib: bool) -> io::Result<Capture> {
        let pid = std::process::id();
        let path = PathBuf::from(name.replace("%p", &pid.to_string()));
        let (file, path) = match claim(&path) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut other = path.into_os_string();
                other.push(format!(".{pid}"));
                let other = PathBuf::from(other);
                (claim(&other)?, other)
            }
            claimed => (claimed?, path),
        };
        // Pipes and devices have no length.
        if file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        let mut capture = Capture { file, path, pending: Vec::new(), frame: Vec::new(), failed: None };
        let link = if ib { pcapng::LINKTYPE_ERF } else { pcapng::LINKTYPE_ETHERNET };
        pcapng::put_header(&mut capture.pending, "weft", link);
        capture.flush();
        match capture.failed.take() {
            Some(error) => Err(error),
            None => Ok(capture),
        }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records a packet, BTH to ICRC.
    pub fn packet(&mut self, direction: Direction, meta: &IpMeta, ib: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        self.frame.clear();
        ethernet::put_v2(&mut self.frame, meta, ib);
        self.put(direction);
    }

    /// Records a packet of RoCE v1.
    pub fn packet_v1(&mut self, direction: Direction, grh: &Grh, ib: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        self.frame.clear();
        ethernet::put_v1(&mut self.frame, grh, ib);
        self.put(direction);
    }

    /// Records a packet of InfiniBand, LRH to VCRC.
    pub fn packet_ib(&mut self, direction: Direction, packet: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        self.frame.clear();
        pcapng::put_infiniband(&mut self.frame, now_ns(), packet);
        self.put(direction);
    }

    fn put(&mut self, direction: Direction) {
        pcapng::put_packet(&mut self.pending, now_ns(), direction, &self.frame);
        if self.pending.len() >= WRITE_BYTES {
            self.flush();
        }
    }

    /// Writes the pending blocks: a process may end without notice.
    pub fn flush(&mut self) {
        if self.pending.is_empty() || self.failed.is_some() {
            return;
        }
        let (written, error) = file_size::write(&self.file, &self.pending);
        if let Some(error) = error {
            self.end_early(written, error);
        }
        self.pending.clear();
    }

    /// Ends the capture after the last block that was written whole, and reports that where the user sees it: a capture
    /// that ends before its program is easily mistaken for a whole one.
    fn end_early(&mut self, written: usize, error: io::Error) {
        let extra = written - whole_blocks(&self.pending, written);
        if let Ok(at) = self.file.stream_position() {
            // A pipe cannot be truncated.
            let _ = self.file.set_len(at.saturating_sub(extra as u64));
        }
        let _ = writeln!(io::stderr(), "weft: WEFT_PCAP: {} ends early: {error}", self.path.display());
        self.failed = Some(error);
    }

    /// Returns why the capture ended early, if it did.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failed.as_ref()
    }
}

/// Returns how many of the first `written` bytes are whole blocks.
fn whole_blocks(blocks: &[u8], written: usize) -> usize {
    let mut end = 0;
    loop {
        let length = blocks.get(end + 4..).and_then(|rest| rest.first_chunk()).map(|word| u32::from_le_bytes(*word));
        match length.map(|length| end + length as usize) {
            Some(next) if next > end && next <= written => end = next,
            _ => return end,
        }
    }
}

/// Returns nanoseconds since the epoch.
fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

/// Opens and locks the file; `WouldBlock` means that another process holds it.
fn claim(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    #[test]
    fn a_capture_ends_at_a_packet() {
        let mut blocks = Vec::new();
        pcapng::put_header(&mut blocks, "weft", pcapng::LINKTYPE_ETHERNET);
        let header = blocks.len();
        pcapng::put_packet(&mut blocks, 1, Direction::Inbound, &[7; 100]);
        let one = blocks.len();
        pcapng::put_packet(&mut blocks, 2, Direction::Inbound, &[7; 33]);
        for (written, whole) in [(blocks.len(), blocks.len()), (blocks.len() - 1, one), (one, one), (one - 1, header)] {
            assert_eq!(whole_blocks(&blocks, written), whole, "{written}");
        }
        // A disk that is full from the start.
        let mut capture = Capture::create("/dev/null", false).unwrap();
        capture.file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (src, dst) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let meta = IpMeta { src, dst, sport: 50_000, traffic_class: 0, hop_limit: 64, ip_id: 0 };
        capture.packet(Direction::Inbound, &meta, &[0; 64]);
        capture.flush();
        assert!(capture.failure().is_some());
    }

    #[test]
    fn a_name_in_use_gets_the_number_of_the_process() {
        let dir = std::env::temp_dir();
        let name = format!("weft-capture-test-{}", std::process::id());
        let name = dir.join(name).to_string_lossy().into_owned();
        let first = Capture::create(&name, false).unwrap();
        let second = Capture::create(&name, false).unwrap();
        assert_eq!(first.path(), Path::new(&name));
        assert_eq!(second.path(), Path::new(&format!("{name}.{}", std::process::id())));
        let third = Capture::create(&format!("{name}-%p"), true).unwrap();
        assert!(third.path().to_string_lossy().ends_with(&format!("-{}", std::process::id())));
        for capture in [first, second, third] {
            std::fs::remove_file(capture.path()).unwrap();
        }
    }
}
