//! Measures the path within a host by itself: a frame's round trip between two threads, a stream of frames, and a
//! direct write of eight bytes. It needs two otherwise idle cores.
//!
//! ```sh
//! cargo run --profile dist -p weft-link --example same_host
//! ```

use std::os::fd::AsFd;
use std::time::Instant;

use weft_link::shm::{DIRECTORY_BYTES, Host, HostConfig, PAIR_BYTES, PeerConfig};
use weft_sys::event::EventFd;
use weft_sys::share::{Arena, Extent, View};
use weft_sys::{pidfd, shared};
use weft_transport::Peers;
use weft_transport::frame::{Frame, FrameKind, Outgoing};
use weft_transport::peers::{Direct, KeyView, PeerId, QpView};
use weft_verbs::{Access, PdId};

const PEER: PeerId = PeerId(1);
const PD: PdId = PdId { index: 1, generation: 1 };
const QPN: [u32; 2] = [1 << 14, 2 << 14];
const KEY: u32 = 0x1234_5601;
const ROUNDS: u32 = 1_000_000;

type Error = Box<dyn std::error::Error>;

fn host(slot: u32) -> Result<Host, Error> {
    let directory = shared::create_file("directory", DIRECTORY_BYTES)?.into();
    let config =
        HostConfig { slot, generation: slot.into(), doorbell: EventFd::new()?.into(), directory: Some(directory) };
    Ok(Host::new(config)?)
}

fn config_of(host: &Host, slot: u32, pair: &std::fs::File, arena: &std::fs::File) -> Result<PeerConfig, Error> {
    Ok(PeerConfig {
        slot,
        generation: slot.into(),
        pair: pair.try_clone()?.into(),
        doorbell: host.doorbell().as_fd().try_clone_to_owned()?,
        bell: None,
        process: Some(pidfd::open(std::process::id())?),
        directory: Some(host.directory().try_clone_to_owned()?),
        found: false,
        arena: Some(arena.try_clone()?.into()),
    })
}

fn send(host: &mut Host, frame: &Frame) {
    while !host.push(PEER, frame, Outgoing::Bytes(&[7; 8])) {
        std::hint::spin_loop();
    }
    host.ring_doorbells();
}

fn receive(host: &mut Host) {
    loop {
        if let Some(peer) = host.arrival()
            && host.next_frame(peer).is_some()
        {
            let mut bytes = [0; 8];
            host.peek(0, &mut bytes);
            host.end_frame();
            return;
        }
        std::hint::spin_loop();
    }
}

fn tell(what: &str, start: Instant, count: u32) {
    println!("{what:<44} {:8.1} ns", start.elapsed().as_nanos() as f64 / f64::from(count));
}

fn rings(a: &mut Host, b: &mut Host) {
    let frame = Frame::new(FrameKind::Send, QPN[0], QPN[1]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                receive(b);
                send(b, &frame);
            }
            for _ in 0..ROUNDS {
                receive(b);
            }
            send(b, &frame);
        });
        let start = Instant::now();
        for _ in 0..ROUNDS {
            send(a, &frame);
            receive(a);
        }
        tell("frame of 8 bytes, there and back", start, ROUNDS);
        let start = Instant::now();
        for _ in 0..ROUNDS {
            send(a, &frame);
        }
        receive(a);
        tell("frame of 8 bytes, one after the other", start, ROUNDS);
    });
    let start = Instant::now();
    for _ in 0..ROUNDS {
        send(a, &frame);
        receive(b);
    }
    tell("frame of 8 bytes, written and read by one core", start, ROUNDS);
}

fn writes(a: &mut Host, b: &mut Host, arena: std::fs::File) -> Result<(), Error> {
    const LEN: u64 = 4 << 20;
    let mut view = View::new(arena.into())?;
    let host = view.slice(0, LEN).ok_or("no memory")?.expose_provenance() as u64;
    let access = Access::REMOTE_WRITE;
    let key = KeyView { key: KEY, pd: PD, qpn: None, base: host, len: LEN, host, access };
    b.publish_qp(&QpView { qpn: QPN[1], peer: PEER, dest_qpn: QPN[0], pd: PD, access });
    let at = |whole| Direct { peer: PEER, qpn: QPN[0], dest_qpn: QPN[1], key: KEY, addr: host, whole, need: access };
    let data = vec![1u8; LEN as usize];
    for (how, extent) in [("shared pages", Some(Extent { addr: host, len: LEN, offset: 0 })), ("by the kernel", None)] {
        b.publish_shared_key(&key, extent);
        for (len, count) in [(8, ROUNDS), (4096, 100_000), (1 << 20, 2000)] {
            let start = Instant::now();
            for _ in 0..count {
                if !a.write_direct(&at(len as u64), Outgoing::Bytes(&data[..len])) {
                    return Err("refused".into());
                }
            }
            tell(&format!("direct write of {len} bytes, {how}"), start, count);
        }
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    let (mut a, mut b) = (host(1)?, host(2)?);
    let pair = shared::create_file("pair", PAIR_BYTES)?;
    let arena = Arena::create_file()?;
    a.attach(config_of(&b, 2, &pair, &arena)?)?;
    b.attach(config_of(&a, 1, &pair, &arena)?)?;
    rings(&mut a, &mut b);
    writes(&mut a, &mut b, arena)
}
