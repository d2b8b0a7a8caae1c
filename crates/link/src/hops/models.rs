//! The packet channel under loom: a process and the daemon in two threads, in every order that the memory model
//! permits. A wait without an end is a lost wake-up: loom reports it as too many branches.

use std::os::fd::AsFd;

use loom::thread;

use super::*;

const PORT: PortName = (3, 1);

fn ends() -> (SwitchEnd, ProcessEnd) {
    let (switch, fds) = SwitchEnd::create().unwrap();
    (switch, ProcessEnd::new(fds).unwrap())
}

/// Waits until a bell rings, and leaves it ringing.
fn await_bell(bell: impl AsFd) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let rings = || {
        let mut fds = [PollFd::new(&bell, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
    };
    while !rings() {
        thread::yield_now();
    }
}

/// The daemon attends while packets come, and sleeps when there are none.
fn serve(switch: &mut SwitchEnd, packets: usize) {
    let (mut came, mut out) = (0, Vec::new());
    loop {
        while switch.pop(&mut out).unwrap().is_some() {
            assert_eq!(out, [came as u8 + 1; 8]);
            came += 1;
        }
        if came == packets {
            return;
        }
        if switch.sleep() {
            await_bell(switch.call());
        }
        assert_eq!(switch.attend(), Heard::Rung);
    }
}

#[test]
fn loom_a_sleeping_daemon_is_called_for_every_packet() {
    loom::model(|| {
        let (mut switch, mut process) = ends();
        let sender = thread::spawn(move || {
            for n in 1..=2 {
                assert!(process.push(PORT, &[n; 8]));
                process.announce();
            }
            process
        });
        serve(&mut switch, 2);
        sender.join().unwrap();
    });
}

#[test]
fn loom_packets_are_whole_in_reused_room_and_a_waiting_daemon_learns_of_room() {
    // Four packets of sixteen bytes fill the ring.
    const PACKETS: u8 = 6;
    loom::model(|| {
        let (mut switch, mut process) = ends();
        for n in 1..=4 {
            assert!(switch.push(PORT, 0, &[n; 8]));
        }
        assert!(!switch.push(PORT, 0, &[5; 8]));
        let receiver = thread::spawn(move || {
            let (mut came, mut out) = (0, Vec::new());
            while came < PACKETS {
                match process.pop(&mut out).unwrap() {
                    Some(_) => {
                        came += 1;
                        assert_eq!(out, [came; 8]);
                        process.made_room();
                    }
                    None => thread::yield_now(),
                }
            }
            process
        });
        for n in 5..=PACKETS {
            let mut put = switch.push(PORT, 0, &[n; 8]);
            while !put {
                if switch.want_room() && switch.sleep() {
                    // Room made while the daemon still attended caused no call.
                    put = switch.push(PORT, 0, &[n; 8]);
                    if !put {
                        await_bell(switch.call());
                    }
                }
                assert_eq!(switch.attend(), Heard::Rung);
                put = put || switch.push(PORT, 0, &[n; 8]);
            }
        }
        receiver.join().unwrap();
    });
}

#[test]
fn loom_a_sleeping_process_is_rung_for_every_packet() {
    loom::model(|| {
        let (mut switch, mut process) = ends();
        let sender = thread::spawn(move || {
            for n in 1..=2 {
                assert!(switch.push(PORT, 0, &[n; 8]));
                switch.announce();
            }
            switch
        });
        let (mut came, mut out) = (0, Vec::new());
        while came < 2 {
            if process.pop(&mut out).unwrap().is_some() {
                came += 1;
                assert_eq!(out, [came; 8]);
            } else {
                if process.fall_asleep() {
                    await_bell(process.bell().unwrap());
                }
                assert!(process.wake_up().is_none());
            }
        }
        sender.join().unwrap();
    });
}
