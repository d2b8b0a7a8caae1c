//! Fuzz target: a peer that writes arbitrary words into the shared memory of a pair and of its key directory.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use weft_sys::event::EventFd;
use weft_sys::pidfd;
use weft_sys::shared::{self, Shared, SharedView};
use weft_transport::Peers;
use weft_transport::frame::{FRAME_BYTES_MAX, Frame, FrameKind, HostRange, Outgoing};
use weft_transport::peers::{Direct, KeyView, PeerId, QpView};
use weft_transport::word::AtomicOp;
use weft_verbs::{Access, PdId, Sge};
use weft_wire::fuzzing::Script;

use super::layout::{COPYING, DIRECTORY_BYTES, PAIR_BYTES, Side, TIERS_MAX, TIERS_USED, key_at, qp_at};
use super::{Host, HostConfig, PeerConfig};

const QPN: [u32; 2] = [1 << 14 | 5, 2 << 14 | 9];
const KEY: u32 = 0x1234_5678;
const PD: PdId = PdId { index: 3, generation: 4 };
const PEER: PeerId = PeerId(1);
/// Number of words that one script writes into an entry or a frame.
const WORDS: usize = 8;

/// A host, and the memory that its peer shares with it.
struct Victim {
    host: Host,
    pair: Shared,
    directory: Shared,
    /// Memory that the host offers to its peer and copies into.
    memory: Vec<u64>,
}

fn host(slot: u32) -> Option<Host> {
    let doorbell = EventFd::new().ok()?.into();
    let directory = Some(shared::create_file("directory", DIRECTORY_BYTES).ok()?.into());
    Host::new(HostConfig { slot, generation: 1000 + u64::from(slot), doorbell, directory }).ok()
}

impl Victim {
    fn new() -> Option<Victim> {
        let (mut victim, peer) = (host(1)?, host(2)?);
        let pair = shared::create_file("pair", PAIR_BYTES).ok()?;
        let file = shared::create_file("directory", DIRECTORY_BYTES).ok()?;
        let directory = Shared::map(&file, DIRECTORY_BYTES).ok()?;
        let original = SharedView::map(peer.directory(), DIRECTORY_BYTES).ok()?;
        for at in (0..128).step_by(8) {
            directory.word(at).store(original.word(at).load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let met = victim.attach(PeerConfig {
            slot: peer.us.slot,
            generation: peer.us.generation,
            pair: pair.try_clone().ok()?.into(),
            doorbell: peer.doorbell().as_fd().try_clone_to_owned().ok()?,
            bell: None,
            process: Some(pidfd::open(std::process::id()).ok()?),
            directory: Some(file.into()),
            found: false,
            arena: None,
        });
        (met.ok()? == PEER).then_some(())?;
        let mut victim =
            Victim { host: victim, pair: Shared::map(&pair, PAIR_BYTES).ok()?, directory, memory: vec![0; 1024] };
        let range = victim.range();
        let key =
            KeyView { key: KEY, pd: PD, qpn: None, base: 0x1_0000, len: range.len, host: range.addr, access: all() };
        victim.host.publish_key(&key);
        victim.host.publish_qp(&QpView { qpn: QPN[0], peer: PEER, dest_qpn: QPN[1], pd: PD, access: all() });
        Some(victim)
    }

    fn range(&mut self) -> HostRange {
        let len = size_of_val(self.memory.as_slice()) as u64;
        HostRange { addr: self.memory.as_mut_ptr().expose_provenance() as u64, len }
    }

    /// Writes a frame with the right stamp at the host's next position, so that the host reads it further.
    fn write_frame(&mut self, script: &mut Script<'_>) {
        let Some(peer) = self.host.peer(PEER.0) else { return };
        let (at, stamp) = peer.inn.next();
        let words = [(); 6].map(|()| script.word());
        let kind = u64::from(script.byte() % 16);
        for (n, word) in words.into_iter().enumerate() {
            let word = if n == 0 { word & !0xff | kind } else { word };
            self.pair.word(at + 8 + n * 8).store(word, Ordering::Relaxed);
        }
        self.pair.word(at).store(stamp, Ordering::Release);
    }

    /// Writes an entry with the number for which the host searches.
    fn write_entry(&mut self, script: &mut Script<'_>) {
        let (at, number) = match script.byte() {
            choice if choice & 1 == 0 => (key_at(usize::from(choice >> 1) % TIERS_MAX, KEY), KEY),
            _ => (qp_at(QPN[1]), QPN[1]),
        };
        for n in 1..WORDS {
            self.directory.word(at + n * 8).store(script.word(), Ordering::Relaxed);
        }
        let version = script.word() & 3;
        self.directory.word(at).store(u64::from(number) << 32 | version, Ordering::Relaxed);
        self.directory.word(TIERS_USED).store(script.word(), Ordering::Relaxed);
    }

    fn step(&mut self, script: &mut Script<'_>) {
        match script.byte() % 12 {
            0 => {
                let at = script.below(PAIR_BYTES / 8) * 8;
                self.pair.word(at).store(script.word(), Ordering::Relaxed);
            }
            1 => {
                // The header stays: the host refuses to meet a peer with a wrong one.
                let at = 128 + script.below(4096 / 8) * 8;
                self.directory.word(at).store(script.word(), Ordering::Relaxed);
            }
            2 | 3 => self.write_frame(script),
            4 => self.write_entry(script),
            5 => self.pair.word(Side(1).taken()).store(script.word(), Ordering::Relaxed),
            6 => self.send(script),
            7 => self.reach_out(script),
            8 => {
                self.host.fall_asleep();
                self.host.wake_up();
                self.host.ring_doorbells();
            }
            9 => {
                // The host waits as long as a live peer announces a copy, as it must: only processes of the same user
                // can announce one.
                self.directory.word(COPYING).store(0, Ordering::Relaxed);
                self.host.revoke_key(KEY);
                self.host.handle_watch();
            }
            _ => self.receive(script),
        }
    }

    fn receive(&mut self, script: &mut Script<'_>) {
        let Some(frame) = self.host.arrival().and_then(|peer| self.host.next_frame(peer)) else { return };
        assert!(frame.bytes <= FRAME_BYTES_MAX);
        let mut bytes = [0; 64];
        self.host.peek(script.word() as u32, &mut bytes);
        let range = self.range();
        self.host.place(script.word() as u32, HostRange { len: range.len.min(script.word()), ..range });
        self.host.end_frame();
    }

    fn send(&mut self, script: &mut Script<'_>) {
        let frame = Frame { seq: 1, ..Frame::new(FrameKind::Send, QPN[0], QPN[1]) };
        let bytes = vec![7; script.below(FRAME_BYTES_MAX as usize + 1)];
        self.host.push(PEER, &frame, Outgoing::Bytes(&bytes));
        self.host.is_taken(PEER, script.word());
    }

    /// Makes direct reads. A write would put bytes where the key directory says: into this very process.
    fn reach_out(&mut self, script: &mut Script<'_>) {
        let range = self.range();
        let (addr, len) = (script.word(), range.len.min(script.word()));
        let need = Access::REMOTE_READ;
        let direct = Direct { peer: PEER, qpn: QPN[0], dest_qpn: QPN[1], key: KEY, addr, whole: len, need };
        self.host.read_direct(&direct, &[HostRange { len, ..range }]);
        self.host.atomic_direct(&direct, AtomicOp::FetchAdd(1));
        let from = Sge { addr, length: script.word() as u32, lkey: KEY };
        self.host.fetch(PEER, &from, script.word(), HostRange { len, ..range });
    }
}

fn all() -> Access {
    Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC
}

/// Checks that no words from a peer in shared memory cause a panic, an access outside it, or an overlong frame.
pub fn shared_memory(bytes: &[u8]) {
    let Some(mut victim) = Victim::new() else { return };
    let mut script = Script::new(bytes);
    while !script.is_over() {
        victim.step(&mut script);
    }
    victim.host.on_gone(2, 1002);
    victim.receive(&mut script);
}

#[cfg(test)]
mod tests {
    use weft_wire::fuzzing::random_scripts;

    #[test]
    fn random_scripts_are_survived() {
        random_scripts(super::shared_memory, 1, 150, 2000);
    }
}
