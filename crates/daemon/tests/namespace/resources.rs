//! Resource use of the daemon: descriptors that must come back, and time that must not be spent.

use super::*;

pub fn descriptors_of(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

pub fn nothing_leaks() {
    let mut watcher = connect();
    let pid = daemon_pid(&mut watcher);
    // Use every slot of the pool once before counting.
    drop((0..63).map(|_| Process::new()).collect::<Vec<_>>());
    wait_until("all slots are free", || watcher.status().unwrap().slots_in_use == 0);
    let (theirs, ours) = (descriptors_of(pid), descriptors_of(std::process::id()));
    for _ in 0..200 {
        let (a, b) = (Process::new(), Process::new());
        drop((a, b));
    }
    wait_until("all slots are free", || watcher.status().unwrap().slots_in_use == 0);
    assert_eq!((descriptors_of(pid), descriptors_of(std::process::id())), (theirs, ours));
    assert_eq!(watcher.status().unwrap().pool_slots, 64);
    // Nor do deaths of the daemon leak anything here.
    let mut process = Process::new();
    let ours = descriptors_of(std::process::id());
    for _ in 0..20 {
        kill_daemon(&mut process.client);
        assert_eq!(process.client.reconnect().unwrap().slot, SlotFate::Kept);
        assert_eq!(descriptors_of(std::process::id()), ours);
    }
    let pid = daemon_pid(&mut process.client);
    // One connection in place of two: each has a socket and a process.
    assert!(descriptors_of(pid) <= theirs, "{} descriptors, {theirs} before", descriptors_of(pid));
}

/// A daemon started by a program with a low limit. Root's daemon raises it; an ordinary user's daemon reports the
/// problem.
pub fn a_daemon_with_few_descriptors_says_so() {
    let limited = |user: &[&str]| {
        let exe = std::env::current_exe().unwrap();
        let mut command = Command::new("prlimit");
        command.arg("--nofile=48:48").args(user).arg(&exe).arg("daemon").spawn().unwrap()
    };
    let serves = || wait_until("it serves", || connect_existing().is_ok());
    let mut daemon = limited(&[]);
    serves();
    // Root of a container may not raise it either.
    let raise = ["--nofile=48:48", "prlimit", "--nofile=65536:65536", "true"];
    let raises = Command::new("prlimit").args(raise).status().unwrap().success();
    if raises {
        let processes: Vec<Process> = (0..20).map(|_| Process::new()).collect();
        drop(processes);
    }
    end_daemon();
    daemon.wait().unwrap();
    let mut daemon = match users::can_become_others() {
        true => limited(&["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups"]),
        false if raises => return,
        false => limited(&[]),
    };
    serves();
    let mut clients = Vec::new();
    let refused = loop {
        match connect_existing().map_err(|error| error.to_string()) {
            Ok(client) => clients.push(client),
            Err(refused) => break refused,
        }
        assert!(clients.len() < 100, "it has more descriptors than it may");
    };
    assert!(refused.contains("ulimit -n"), "{refused}");
    drop(clients);
    wait_until("it has some again", || connect_existing().is_ok_and(|mut client| client.status().is_ok()));
    end_daemon();
    daemon.wait().unwrap();
}

fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    let columns: Vec<&str> = after_name.split_ascii_whitespace().collect();
    columns[11].parse::<u64>().unwrap() + columns[12].parse::<u64>().unwrap()
}

fn context_switches(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let of = |line: &str| line.split_ascii_whitespace().last().and_then(|n| n.parse::<u64>().ok());
    status.lines().filter(|line| line.contains("ctxt_switches")).filter_map(of).sum()
}

pub fn idle_means_idle() {
    let mut process = Process::new();
    let pid = daemon_pid(&mut process.client);
    std::thread::sleep(Duration::from_millis(50));
    let before = (cpu_ticks(pid), context_switches(pid));
    // Packets without a receiver do not wake it either.
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for qpn in [1u32, 77 << 14, 5 << 14] {
        let packet = [&[4, 0, 0xff, 0xff][..], &qpn.to_be_bytes()].concat();
        sender.send_to(&packet, "127.0.0.1:4791").unwrap();
    }
    std::thread::sleep(Duration::from_millis(1000));
    assert_eq!((cpu_ticks(pid), context_switches(pid)), before);
    assert!(process.client.status().unwrap().slot0_packets >= 1);
}
