//! Hostile programs.

use std::os::fd::AsFd;

use weft_ipc::{ClientFrame, Hello, Purpose, Request, encode};
use weft_sys::unix::{self, Wait};

use super::resources::descriptors_of;
use super::*;

pub fn hostile_clients_harm_nobody() {
    let mut good = Process::new();
    let raw = || unix::connect_abstract(weft_ipc::SOCKET_NAME).unwrap();
    let greeted = || {
        let fd = raw();
        unix::send(&fd, &Hello::new(Purpose::Session, "hostile").encode(), &[], Wait::Block).unwrap();
        fd
    };
    let ended = |fd: &OwnedFd| {
        let mut buffer = [0; 4096];
        wait_until("it is dropped", || {
            while matches!(unix::recv(fd, &mut buffer, 0, Wait::No), Ok(received) if received.len > 0) {}
            unix::send(fd, b"x", &[], Wait::No).is_err()
        });
    };
    // Programs that do not speak the protocol, at either stage, or send too much.
    let garbage = raw();
    unix::send(&garbage, &[0xff; 100], &[], Wait::Block).unwrap();
    ended(&garbage);
    let garbage = greeted();
    unix::send(&garbage, &[0xff; 100], &[], Wait::Block).unwrap();
    ended(&garbage);
    let long = greeted();
    unix::send(&long, &vec![0; weft_ipc::MESSAGE_BYTES_MAX + 1], &[], Wait::Block).unwrap();
    ended(&long);
    // A program that sends requests and does not read: its requests wait in the kernel, and when it reads after all, it
    // gets every answer.
    let deaf = greeted();
    assert!(unix::recv(&deaf, &mut [0; 4096], 0, Wait::Block).unwrap().len > 0);
    let ask = encode(&ClientFrame { id: 1, request: Request::ListDevices { offset: 0 } }).unwrap();
    let mut asked = 0;
    let mut last = Instant::now();
    while last.elapsed() < Duration::from_millis(200) {
        match unix::send(&deaf, &ask, &[], Wait::No) {
            Ok(_) => (asked, last) = (asked + 1, Instant::now()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_micros(50))
            }
            Err(error) => panic!("dropped after {asked} requests: {error}"),
        }
        assert!(asked < 20_000, "the daemon keeps what it is asked");
    }
    for answer in 0..asked {
        wait_until("an answer", || match unix::recv(&deaf, &mut [0; 4096], 0, Wait::No) {
            Ok(received) => received.len > 0,
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "after {answer} answers of {asked}");
                false
            }
        });
    }
    // A program that sends unwanted descriptors; none may stay open.
    let pid = daemon_pid(&mut good.client);
    let before = descriptors_of(pid);
    let giver = greeted();
    let status = encode(&ClientFrame { id: 1, request: Request::Status { offset: 0 } }).unwrap();
    for _ in 0..100 {
        let gift = [giver.as_fd(); 100];
        while unix::send(&giver, &status, &gift, Wait::No).is_err() {
            let _ = unix::recv(&giver, &mut [0; 4096], 0, Wait::No);
        }
    }
    good.client.status().unwrap();
    assert!(descriptors_of(pid) <= before + 2);
    drop(giver);
    // Programs that connect and send nothing, as many as possible: root's may, up to the total limit.
    let silent: Vec<_> = (0..300).map(|_| raw()).collect();
    check_steering(&[&good]);
    assert_eq!(good.client.status().unwrap().slots_in_use, 1);
    assert_eq!(daemon_pid(&mut good.client), pid);
    drop(silent);
}
