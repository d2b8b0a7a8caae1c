//! Fuzz targets for bytes from the other end: a daemon that sends arbitrary answers, and either end of the rings for
//! management datagrams. See [`weft_wire::fuzzing`].

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use weft_sys::shared::Shared;
use weft_sys::unix::{self, Wait};
use weft_wire::fuzzing::Script;

use crate::umad::UmadHead;
use crate::umad_ring::{
    DaemonRing, UMAD_RING_BYTES, UMAD_RING_MAD_BYTES, UMAD_RING_SLOTS, UMAD_SLOT_BYTES, program_ends,
};
use crate::{
    Client, ConnectOptions, DaemonFrame, DeviceInfo, EVENTS_QUEUED_MAX, GID_TABLE_ROWS_MAX, HelloReply, McastGroup,
    PEER_FDS_MAX, PathRequest, Request, RequestError, Response, encode,
};

/// Extra frames that the daemon sends with one answer.
const FRAMES_BESIDE_MAX: usize = 3;
/// Answers of one daemon, which then hangs up.
const ANSWERS_MAX: u32 = 16;
/// Bytes of one frame.
const FRAME_BYTES_MAX: usize = 600;

/// A daemon that sends only frames from the script.
struct Rogue<'a> {
    script: Script<'a>,
    socket: OwnedFd,
    memory: File,
}

impl Rogue<'_> {
    /// Sends answers to the first requests, other frames among them, and hangs up.
    fn say_all(&mut self) -> Option<()> {
        for id in 1..=ANSWERS_MAX {
            for _ in 0..self.script.below(FRAMES_BESIDE_MAX) {
                self.frame(&[])?;
            }
            // A frame's bytes up to its response, without the one byte of `Done`.
            let mut head = encode(&DaemonFrame::Reply { id, result: Ok(Response::Done) }).ok()?;
            head.pop();
            self.frame(&head)?;
        }
        unix::end_sending(&self.socket).ok()
    }

    fn frame(&mut self, head: &[u8]) -> Option<()> {
        let (len, fds) = (self.script.below(FRAME_BYTES_MAX), self.script.below(PEER_FDS_MAX + 2));
        let bytes = [head, self.script.bytes(len)].concat();
        let fds: Vec<BorrowedFd<'_>> = (0..fds).map(|_| self.memory.as_fd()).collect();
        unix::send(&self.socket, &bytes, &fds, Wait::No).ok().map(|_| ())
    }
}

/// Checks that no answer of a daemon makes the library panic or wait forever, or makes its lists grow beyond their
/// bounds.
pub fn replies(bytes: &[u8]) {
    assert!(HelloReply::decode(bytes).is_none_or(|hello| hello.text.len() <= 3 * bytes.len()));
    let Ok((ours, theirs)) = unix::pair() else { return };
    let Ok(memory) = weft_sys::memory::anonymous_file("rogue") else { return };
    let mut client = Client::over(ours, &ConnectOptions::default());
    let mut script = Script::new(bytes);
    let questions = script.bytes(ANSWERS_MAX as usize);
    let mut rogue = Rogue { script, socket: theirs, memory };
    // If the socket does not take all frames of a script immediately, the client would wait.
    if rogue.say_all().is_some() {
        questions.iter().for_each(|&question| ask(&mut client, question));
    }
    assert!(client.poll_events().len() <= EVENTS_QUEUED_MAX);
}

fn ask(client: &mut Client, question: u8) {
    let group = McastGroup { group: [239, 1, 1, 1].into(), ifindex: 1 };
    let path = PathRequest {
        device: 0,
        port: 1,
        dlid: 2,
        dgid: [0; 16],
        sl: 0,
        pkey: 0xffff,
        mtu: 4096,
        slot: 3,
        there_and_back: true,
    };
    match question % 15 {
        0 => check_devices(client.list_devices()),
        1 => check_devices(client.subscribe()),
        2 => drop(client.allocate_slot()),
        3 => drop(client.join_multicast(group)),
        4 => drop(client.status()),
        5 => drop(client.open_ledger()),
        6 => drop(client.stat()),
        7 => drop(client.list_qps()),
        8 => drop(client.publish(7, true)),
        9 => drop(client.meet_peer(3, None)),
        10 => drop(client.request(Request::Path(path))),
        11 => drop(client.request(Request::GroupPath(path))),
        12 => drop(client.request(Request::OpenPacketChannel)),
        13 => drop(client.capture(&[]).and_then(|mut capture| capture.take())),
        _ => drop(client.poll_events()),
    }
}

fn check_devices(devices: Result<Vec<DeviceInfo>, RequestError>) {
    for device in devices.iter().flatten() {
        assert!(crate::valid_device_name(&device.name) && device.gids.len() <= GID_TABLE_ROWS_MAX);
    }
}

/// Checks that no words in the memory of a port's rings cause a panic, or make an end take more than the rings hold.
pub fn umad_rings(bytes: &[u8]) {
    // Without descriptors or memory there is nothing to test.
    let _ = run_umad_rings(bytes);
}

fn run_umad_rings(bytes: &[u8]) -> std::io::Result<()> {
    let (mut daemon, file) = DaemonRing::create()?;
    let (mut requests, mut answers) = program_ends(&file)?;
    let memory = Shared::map(&file, UMAD_RING_BYTES)?;
    let (mut slot, mad, head) = ([0; UMAD_SLOT_BYTES], [3; UMAD_RING_MAD_BYTES], UmadHead::default());
    let mut script = Script::new(bytes);
    while !script.is_over() {
        match script.byte() % 9 {
            0 => memory.word(script.below(UMAD_RING_BYTES / 8) * 8).store(script.word(), Ordering::SeqCst),
            // One of the words for positions, attention and processors.
            1 => memory.word(usize::from(script.byte() % 14) * 64).store(script.word(), Ordering::SeqCst),
            2 => drop(requests.push(&head, &mad)),
            3 => drop(daemon.push(&head, &mad)),
            4 => {
                let taken = (0..=2 * UMAD_RING_SLOTS).take_while(|_| daemon.pop(&mut slot)).count() as u64;
                assert!(taken <= 2 * UMAD_RING_SLOTS, "requests without end");
            }
            5 => {
                answers.begin_look();
                let taken = (0..=2 * UMAD_RING_SLOTS).take_while(|_| answers.pop(&mut slot)).count() as u64;
                assert!(taken <= 2 * UMAD_RING_SLOTS, "answers without end");
                answers.end_wait();
            }
            6 => {
                let mut back = 0;
                daemon.take_back_from_sleeper(&mut |_| back += 1);
                daemon.take_back_unless_looked_at(&mut |_| back += 1);
                daemon.take_back_all(&mut |_| back += 1);
                assert!(back <= 3 * UMAD_RING_SLOTS);
                daemon.on_sent(back as usize);
                daemon.end_move();
            }
            7 => {
                let _ = (answers.begin_sleep(), answers.peek(&mut slot), answers.moves(), answers.must_call());
                answers.on_socket(script.byte() & 1 == 0);
            }
            _ => {
                daemon.attend();
                let _ = (daemon.sleep(), daemon.processor(), daemon.activity(), daemon.has_answers());
                let _ = (answers.is_worth_looking(), answers.is_socket_due());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use weft_wire::fuzzing::random_scripts;

    #[test]
    fn random_scripts_are_survived() {
        random_scripts(super::replies, 3, 500, 4000);
        random_scripts(super::umad_rings, 4, 500, 2000);
    }
}
