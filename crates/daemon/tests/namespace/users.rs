//! Users whom the daemon does not trust: they keep their slots when it dies, and their share is bounded.

use std::os::fd::AsRawFd;

use weft_ipc::{DaemonFrame, HelloReply, HelloStatus, Refusal, encode};
use weft_sys::unix::{self, Wait};

use super::*;

const SOL_SOCKET: i32 = 1;
const SO_DETACH_REUSEPORT_BPF: i32 = 68;

/// Another user's process: executes the commands on its standard input, one word a line, and answers each with a line.
pub fn obey() {
    let mut process: Option<Process> = None;
    let mut extra = Vec::new();
    let mut catcher: Option<std::thread::JoinHandle<usize>> = None;
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let answer = match (line.as_str(), &mut process) {
            ("open", process) => process.insert(Process::new()).slot.number.to_string(),
            ("receive", Some(process)) => format!("{:?}", receive(&process.slot.v4)),
            ("noticed", Some(process)) => {
                wait_until("the killed daemon is noticed", || {
                    process.client.poll_events().contains(&Event::Disconnected)
                });
                "noticed".to_owned()
            }
            ("reconnect", Some(process)) => format!("{:?}", process.client.reconnect().unwrap().slot),
            ("more", _) => {
                let mut client = connect();
                let answer = client.allocate_slot().map(|slot| slot.number).map_err(|error| error.to_string());
                extra.push(client);
                format!("{answer:?}")
            }
            ("many", _) => {
                let clients = (0..weft_daemon::limits::SLOTS_PER_USER_MAX).map(|_| connect());
                let with_slot = |mut client: Client| client.allocate_slot().is_ok().then_some(client);
                extra.extend(clients.filter_map(with_slot));
                extra.len().to_string()
            }
            ("none", _) => {
                extra.clear();
                "none".to_owned()
            }
            ("add", Some(process)) => format!("{:?}", process.client.link_add("x", "rxe", "lo").unwrap_err().errno()),
            ("spoil", Some(process)) => {
                for fd in [Some(&process.slot.v4), process.slot.v6.as_ref()].into_iter().flatten() {
                    weft_sys::sockopt::set_int(fd, SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, 0).unwrap();
                }
                "spoilt".to_owned()
            }
            ("squat", _) => {
                let listener = unix::listen_abstract(weft_ipc::SOCKET_NAME, 8).unwrap();
                catcher = Some(std::thread::spawn(move || catch_descriptors(&listener)));
                "squatting".to_owned()
            }
            ("caught", _) => catcher.take().unwrap().join().unwrap().to_string(),
            (other, _) => panic!("{other}"),
        };
        println!("{answer}");
    }
}

/// Poses as the daemon for one client, and counts the descriptors that the client sends.
fn catch_descriptors(listener: &OwnedFd) -> usize {
    let mut client = None;
    wait_until("a client", || {
        client = unix::accept(listener).ok();
        client.is_some()
    });
    let client = client.unwrap();
    let (mut buffer, mut caught) = ([0; 4096], 0);
    let mut greeted = false;
    let deadline = Instant::now() + Duration::from_secs(2);
    while Instant::now() < deadline {
        match unix::recv(&client, &mut buffer, 3, Wait::No) {
            Ok(received) if received.len == 0 => break,
            Ok(received) => {
                caught += received.fds.len();
                let answer = match greeted {
                    false => HelloReply::new(HelloStatus::Welcome, "").encode(),
                    true => {
                        let refusal = Refusal { errno: 1, text: "no".to_owned() };
                        encode(&DaemonFrame::Reply { id: u32::from(buffer[0]), result: Err(refusal) }).unwrap()
                    }
                };
                greeted = true;
                let _ = unix::send(&client, &answer, &[], Wait::No);
            }
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    caught
}

/// Whether this process may become another user.
pub fn can_become_others() -> bool {
    let maps_all = std::fs::read_to_string("/proc/self/uid_map").unwrap().contains("4294967295");
    weft_sys::process::euid() == 0 && maps_all
}

struct OtherUser {
    child: std::process::Child,
    answers: std::io::BufReader<std::process::ChildStdout>,
}

impl OtherUser {
    /// Returns `None` if this process may not become another user.
    fn new(uid: u32) -> Option<OtherUser> {
        if !can_become_others() {
            eprintln!("skipped: needs root to become another user");
            return None;
        }
        // The build may lie in a directory that only its owner may enter: the user runs this program through this
        // process's descriptor of it, in a working directory that everyone may enter.
        let program = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        let mut child = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()))
            .env("WEFT_BIN", "/proc/self/exe")
            .current_dir("/")
            .arg("obey")
            .uid(uid)
            .gid(uid)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let answers = std::io::BufReader::new(child.stdout.take().unwrap());
        Some(OtherUser { child, answers })
    }

    fn tell(&mut self, word: &str) -> String {
        use std::io::{BufRead, Write};
        writeln!(self.child.stdin.as_mut().unwrap(), "{word}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer.trim().to_owned()
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

pub fn other_users_survive_a_killed_daemon() {
    // Root's daemon, and only an ordinary user has a slot.
    let mut watcher = connect();
    watcher.link_add("kept", "rxe", "lo").unwrap();
    let Some(mut user) = OtherUser::new(12345) else { return };
    assert_eq!(user.tell("open"), "1");
    assert_eq!(user.tell("add"), "1");
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let check = |user: &mut OtherUser| {
        let packet = [4, 0, 0xff, 0xff, 0, 0, 0x40, 0x01];
        sender.send_to(&packet, "127.0.0.1:4791").unwrap();
        assert_eq!(user.tell("receive"), format!("Some({packet:?})"));
    };
    check(&mut user);
    for _ in 0..5 {
        let before = daemon_pid(&mut watcher);
        kill_daemon(&mut watcher);
        check(&mut user);
        assert_eq!(user.tell("noticed"), "noticed");
        assert_eq!(user.tell("reconnect"), "Kept");
        check(&mut user);
        let devices = watcher.reconnect().unwrap().devices;
        assert_eq!(devices[0].name, "kept");
        let status = watcher.status().unwrap();
        assert_ne!(status.pid, before);
        assert_eq!((status.uid, status.slots_in_use), (0, 1));
    }
    // The daemon leaves for good once it is unused, and so does its standby.
    watcher.link_del("kept").unwrap();
    let pid = daemon_pid(&mut watcher);
    drop(watcher);
    user.end();
    wait_until("it leaves", || !std::path::Path::new(&format!("/proc/{pid}")).exists());
    wait_until("the port is free", || UdpSocket::bind("0.0.0.0:4791").is_ok());
    assert!(matches!(connect_existing(), Err(ConnectError::NotRunning)));
}

pub fn what_other_users_spoil_is_mended() {
    let good = Process::new();
    check_steering(&[&good]);
    let Some(mut user) = OtherUser::new(12345) else { return };
    user.tell("open");
    assert_eq!(user.tell("spoil"), "spoilt");
    // For a newcomer, while the user is still there.
    let newcomer = Process::new();
    check_steering(&[&good, &newcomer]);
    assert_eq!(user.tell("spoil"), "spoilt");
    // And for every user once it is gone.
    user.end();
    wait_until("the user is gone", || connect().status().unwrap().slots_in_use == 2);
    check_steering(&[&good, &newcomer]);
}

pub fn nobody_else_inherits_the_sockets() {
    let mut root = Process::new();
    let Some(mut user) = OtherUser::new(12345) else { return };
    kill_daemon(&mut root.client);
    assert_eq!(user.tell("squat"), "squatting");
    let fate = root.client.reconnect();
    drop(root);
    assert_eq!(user.tell("caught"), "0", "{fate:?}");
    user.end();
}

pub fn other_users_are_bounded() {
    let _watcher = connect();
    let Some(mut user) = OtherUser::new(12345) else { return };
    for _ in 0..weft_daemon::limits::SLOTS_PER_USER_MAX {
        assert!(user.tell("more").starts_with("Ok"));
    }
    let refused = user.tell("more");
    assert!(refused.contains("--slots-per-user"), "{refused}");
    // Nor does another process get the other user's slot.
    let mut process = Process::new();
    assert_eq!(process.slot.number, 257);
    user.end();
    wait_until("all slots are free", || process.client.status().unwrap().slots_in_use == 1);
    let other = Process::new();
    assert_eq!(other.slot.number, 258);
    check_steering(&[&process, &other]);
}

/// Three users, of whom two take their maximum and leave it in quarantine. (A unit test of the slot table also uses up
/// the whole pool; with sockets that takes too long.)
pub fn a_few_users_lock_out_nobody() {
    let mut watcher = connect();
    let Some(mut users) = [12345, 12346, 12347].map(OtherUser::new).into_iter().collect::<Option<Vec<_>>>() else {
        return;
    };
    let all_free =
        |watcher: &mut Client| wait_until("all slots are free", || watcher.status().unwrap().slots_in_use == 0);
    for user in &mut users[..2] {
        assert_eq!(user.tell("many"), weft_daemon::limits::SLOTS_PER_USER_MAX.to_string());
        assert_eq!(user.tell("none"), "none");
        all_free(&mut watcher);
    }
    // Root and a user without slots get in immediately, and so do those two, whose processes were killed.
    let root: Vec<Process> = (0..8).map(|_| Process::new()).collect();
    let answer = users[2].tell("more");
    assert!(answer.starts_with("Ok"), "{answer}");
    for mut user in users.drain(..2) {
        assert!(user.tell("more").starts_with("Ok"));
        user.child.kill().unwrap();
        user.end();
    }
    check_steering(&root.iter().collect::<Vec<_>>());
    // After the quarantine, all slots that any user had are free for others again.
    users.into_iter().for_each(OtherUser::end);
    drop(root);
    all_free(&mut watcher);
    std::thread::sleep(QUARANTINE);
    let Some(mut other) = OtherUser::new(12348) else { return };
    assert!(other.tell("more").starts_with("Ok"));
    other.end();
}

/// Faults affect only the program that requests them: not the daemon that it starts, nor another program.
pub fn faults_stay_with_their_program() {
    let faulty = ConnectOptions { fault: "loss=100%".to_owned(), ..ConnectOptions::default() };
    let mut client = Client::connect(&faulty).unwrap();
    let faults: Vec<String> = client.status().unwrap().processes.into_iter().map(|process| process.fault).collect();
    assert_eq!(faults, ["loss=100%"]);
    cm::faults_strike_their_program(&faulty);
}
