//! The real daemon and its clients, in a network namespace of their own: the tests really send packets to the port, and
//! really kill the daemon. This program is also the daemon that the clients start: `namespace daemon`.

mod cm;
mod hostile;
mod resources;
mod users;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use weft_ipc::{
    Client, ConnectError, ConnectOptions, Event, McastGroup, PortState, RequestError, Slot, SlotFate, Spawn,
    stop_daemon,
};

const INSIDE: &str = "WEFT_TEST_INSIDE_NAMESPACE";
const IDLE_EXIT: Duration = Duration::from_millis(400);
const QUARANTINE: Duration = Duration::from_secs(2);

const TESTS: &[(&str, fn())] = &[
    ("racing_clients_share_one_daemon", racing_clients_share_one_daemon),
    ("devices_follow_addresses", devices_follow_addresses),
    ("links_are_added_and_removed", links_are_added_and_removed),
    ("packets_reach_their_slot", packets_reach_their_slot),
    ("a_killed_daemon_moves_nothing", a_killed_daemon_moves_nothing),
    ("devices_survive_a_killed_daemon", devices_survive_a_killed_daemon),
    ("the_slot_of_who_does_not_come_back_is_free", the_slot_of_who_does_not_come_back_is_free),
    ("the_pool_grows_and_survives", the_pool_grows_and_survives),
    ("a_dead_process_frees_its_slot_though_children_live", a_dead_process_frees_its_slot_though_children_live),
    ("other_users_survive_a_killed_daemon", users::other_users_survive_a_killed_daemon),
    ("what_other_users_spoil_is_mended", users::what_other_users_spoil_is_mended),
    ("nobody_else_inherits_the_sockets", users::nobody_else_inherits_the_sockets),
    ("other_users_are_bounded", users::other_users_are_bounded),
    ("a_few_users_lock_out_nobody", users::a_few_users_lock_out_nobody),
    ("faults_stay_with_their_program", users::faults_stay_with_their_program),
    ("settings_keep_the_daemon", settings_keep_the_daemon),
    ("a_daemon_with_few_descriptors_says_so", resources::a_daemon_with_few_descriptors_says_so),
    ("hostile_clients_harm_nobody", hostile::hostile_clients_harm_nobody),
    ("programs_connect", cm::programs_connect),
    ("a_channel_is_readable_while_an_event_waits", cm::a_channel_is_readable_while_an_event_waits),
    ("a_dead_process_leaves_nothing_behind", cm::a_dead_process_leaves_nothing_behind),
    ("a_dead_daemon_ends_the_channels", cm::a_dead_daemon_ends_the_channels),
    ("neighbours_and_routes_are_resolved", cm::neighbours_and_routes_are_resolved),
    ("floods_at_queue_pair_1_are_counted", cm::floods_at_queue_pair_1_are_counted),
    ("thousands_of_connections_live", cm::thousands_of_connections_live),
    ("hostile_programs_of_the_connection_manager", cm::hostile_programs_of_the_connection_manager),
    ("multicast_reaches_who_joined", multicast_reaches_who_joined),
    ("nothing_leaks", resources::nothing_leaks),
    ("idle_means_idle", resources::idle_means_idle),
    ("a_taken_port_is_said_so", a_taken_port_is_said_so),
    ("nobody_needs_it_so_it_leaves", nobody_needs_it_so_it_leaves),
];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("daemon") => {
            let options =
                weft_daemon::Options { idle_exit: Some(IDLE_EXIT), slot_quarantine: QUARANTINE, ..Default::default() };
            weft_daemon::run(&options).unwrap();
        }
        Some("hold-slot") => hold_slot(),
        Some("obey") => users::obey(),
        Some("cm-victim") => cm::victim(args.get(1).map_or("", String::as_str)),
        // For `cargo test -- --list` and nextest.
        Some("--list") => {}
        filter => inside_or_enter(filter.filter(|arg| !arg.starts_with('-'))),
    }
}

fn inside_or_enter(filter: Option<&str>) {
    if std::env::var_os("WEFT_EMULATED").is_some() {
        println!(
            "skipped: QEMU's user emulation has no clone(2) without a signal at the child's end, which starts daemons"
        );
        return;
    }
    if std::env::var_os(INSIDE).is_none() {
        let exe = std::env::current_exe().unwrap();
        let root = weft_sys::process::euid() == 0;
        let flags: &[&str] = if root { &["--net"] } else { &["--net", "--map-root-user"] };
        if Command::new("ip").arg("-V").output().is_err() {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "`ip` is not installed");
            eprintln!("skipped: `ip` is not installed (package iproute2)");
            return;
        }
        let works = Command::new("unshare").args(flags).arg("true").status().is_ok_and(|status| status.success());
        if !works {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "network namespaces are not allowed here");
            eprintln!("skipped: network namespaces are not allowed here");
            return;
        }
        let error =
            Command::new("unshare").args(flags).arg(&exe).args(filter).env(INSIDE, "1").env("WEFT_BIN", &exe).exec();
        panic!("unshare: {error}");
    }
    ip("link set lo up");
    wait_until("loopback has ::1", || UdpSocket::bind("[::1]:0").is_ok());
    for (name, test) in TESTS.iter().filter(|(name, _)| filter.is_none_or(|filter| name.contains(filter))) {
        let start = Instant::now();
        test();
        println!("test {name} ... ok ({:.2} s)", start.elapsed().as_secs_f64());
        end_daemon();
    }
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn connect() -> Client {
    Client::connect(&ConnectOptions::default()).unwrap()
}

fn connect_existing() -> Result<Client, ConnectError> {
    Client::connect(&ConnectOptions { spawn: Spawn::Never, ..Default::default() })
}

fn end_daemon() {
    // A daemon that a client was starting may appear after the one that is stopped.
    wait_until("the daemon is gone", || {
        stop_daemon(&ConnectOptions::default()).is_ok_and(|ran| !ran) && UdpSocket::bind("0.0.0.0:4791").is_ok()
    });
}

fn daemon_pid(client: &mut Client) -> u32 {
    client.status().unwrap().pid
}

fn kill_daemon(client: &mut Client) {
    let pid = daemon_pid(client);
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
    wait_until("the killed daemon is noticed", || client.poll_events().contains(&Event::Disconnected));
    assert!(!client.is_connected());
    assert!(matches!(client.status(), Err(RequestError::Disconnected)));
}

/// A process as the daemon sees it: a connection with a slot.
struct Process {
    client: Client,
    slot: Slot,
}

impl Process {
    fn new() -> Process {
        let mut client = connect();
        let slot = client.allocate_slot().unwrap();
        Process { client, slot }
    }
}

fn receive(fd: &OwnedFd) -> Option<Vec<u8>> {
    let mut buffer = [0; 64];
    match weft_sys::epoll::wait_readable(fd, Duration::from_millis(200)) {
        Ok(true) => {
            let socket = UdpSocket::from(fd.try_clone().unwrap());
            let length = socket.recv(&mut buffer).ok()?;
            Some(buffer[..length].to_vec())
        }
        _ => None,
    }
}

/// Sends a packet to every process's QP numbers over both protocols and checks which process receives it.
fn check_steering(processes: &[&Process]) {
    let v4 = UdpSocket::bind("127.0.0.1:0").unwrap();
    let v6 = UdpSocket::bind("[::1]:0").unwrap();
    for process in processes {
        let qpn = process.slot.number << 14 | 0x1234;
        let mut packet = vec![4, 0, 0xff, 0xff];
        packet.extend(qpn.to_be_bytes());
        packet.extend(b"payload");
        v4.send_to(&packet, SocketAddr::from((Ipv4Addr::LOCALHOST, 4791))).unwrap();
        v6.send_to(&packet, SocketAddr::from((Ipv6Addr::LOCALHOST, 4791))).unwrap();
        assert_eq!(receive(&process.slot.v4).as_ref(), Some(&packet), "slot {} IPv4", process.slot.number);
        let socket = process.slot.v6.as_ref().unwrap();
        assert_eq!(receive(socket).as_ref(), Some(&packet), "slot {} IPv6", process.slot.number);
    }
}

fn racing_clients_share_one_daemon() {
    let threads: Vec<_> = (0..12).map(|_| std::thread::spawn(connect)).collect();
    let mut clients: Vec<Client> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let pids: std::collections::BTreeSet<u32> = clients.iter_mut().map(daemon_pid).collect();
    assert_eq!(pids.len(), 1);
    // Those that lost the race check whether the other really serves before they leave.
    wait_until("only the clients are there", || clients[0].status().unwrap().processes.len() == 12);
    // None of the daemons that lost the race is a child of this process.
    let children = format!("/proc/self/task/{}/children", std::process::id());
    assert_eq!(std::fs::read_to_string(children).unwrap_or_default().trim(), "");
}

fn devices_follow_addresses() {
    let mut client = connect();
    let devices = client.subscribe().unwrap();
    let [lo] = &devices[..] else { panic!("{devices:?}") };
    assert_eq!((lo.name.as_str(), lo.netdev.as_str(), lo.active_mtu, lo.auto), ("rxe_lo", "lo", 4096, true));
    assert_eq!(lo.state, PortState::Active);
    assert_ne!(lo.node_guid, 0);
    let gids: Vec<_> = lo.gids.iter().map(|entry| entry.gid).collect();
    assert_eq!(gids, [Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets(), Ipv6Addr::LOCALHOST.octets()]);

    let changed = |client: &mut Client, what: &str, wanted: &dyn Fn(&Event) -> bool| {
        wait_until(what, || client.poll_events().iter().any(wanted));
    };
    let address = "10.9.9.9".parse::<Ipv4Addr>().unwrap().to_ipv6_mapped().octets();
    let has =
        move |event: &Event| matches!(event, Event::DeviceChanged(info) if info.gids.iter().any(|e| e.gid == address));
    ip("addr add 10.9.9.9/24 dev lo");
    changed(&mut client, "the new address", &has);
    ip("addr del 10.9.9.9/24 dev lo");
    changed(&mut client, "the address gone", &move |event| !has(event));
    ip("link set lo mtu 1500");
    changed(&mut client, "the MTU", &|event| matches!(event, Event::DeviceChanged(info) if info.active_mtu == 1024));
    ip("link set lo down");
    changed(&mut client, "down", &|event| matches!(event, Event::DeviceChanged(info) if info.state == PortState::Down));
    ip("link set lo mtu 65536");
    ip("link set lo up");
    changed(&mut client, "up", &|event| matches!(event, Event::DeviceChanged(info) if info.state == PortState::Active));

    ip("link add wt0 type veth peer name wt1");
    ip("addr add 10.8.0.1/24 dev wt0");
    let is_wt0 =
        |event: &Event| matches!(event, Event::DeviceChanged(info) if info.netdev == "wt0" && info.gids.len() == 1);
    changed(&mut client, "a device on the new interface", &is_wt0);
    let names = |client: &mut Client| -> Vec<String> {
        client.list_devices().unwrap().into_iter().map(|info| info.name).collect()
    };
    assert_eq!(names(&mut client), ["rxe_lo", "rxe_wt0"], "nothing reaches an interface that is down");
    ip("link set wt0 up");
    ip("link set wt1 up");
    let is_whole =
        |event: &Event| matches!(event, Event::DeviceChanged(info) if info.netdev == "wt0" && info.gids.len() == 2);
    changed(&mut client, "the link-local address", &is_whole);
    // The cable's other end may have a link-local address by now, too.
    assert_eq!(names(&mut client)[..2], ["rxe_wt0", "rxe_lo"], "the loopback is last");
    ip("link del wt0");
    changed(&mut client, "the device gone", &|event| matches!(event, Event::DeviceRemoved { .. }));
}

fn links_are_added_and_removed() {
    let errno = |result: Result<(), RequestError>| result.map_err(|error| error.errno());
    let mut client = connect();
    let auto = client.list_devices().unwrap().remove(0);
    assert_eq!(errno(client.link_add("mine", "irdma", "lo")), Err(22));
    assert_eq!(errno(client.link_add("mine", "rxe", "nonesuch")), Err(19));
    assert_eq!(errno(client.link_add("mi/ne", "rxe", "lo")), Err(22));
    assert_eq!(errno(client.link_del("rxe_lo")), Err(22));
    assert_eq!(errno(client.link_add("mine", "rxe", "lo")), Ok(()));
    assert_eq!(errno(client.link_add("mine", "rxe", "lo")), Err(17));
    assert_eq!(errno(client.link_add("other", "rxe", "lo")), Err(17));
    let explicit = client.list_devices().unwrap().remove(0);
    assert_eq!((explicit.name.as_str(), explicit.auto, explicit.index), ("mine", false, auto.index));
    assert_eq!(errno(client.dev_rename("mine", "yours")), Ok(()));
    assert_eq!(errno(client.dev_rename("mine", "yours")), Err(19));
    // The renamed device keeps the daemon alive.
    drop(client);
    std::thread::sleep(IDLE_EXIT * 2);
    let mut client = connect_existing().unwrap();
    assert_eq!(client.list_devices().unwrap().remove(0).name, "yours");
    assert_eq!(errno(client.link_del("yours")), Ok(()));
    let again = client.list_devices().unwrap().remove(0);
    assert_eq!((again.name.as_str(), again.auto), ("rxe_lo", true));
    assert_ne!(again.index, auto.index, "programs that used the removed one must not find another in its place");
    assert_eq!(errno(client.link_add("iwarp", "siw", "lo")), Ok(()));
    let rnic = client.list_devices().unwrap().remove(0);
    assert!(rnic.is_iwarp() && rnic.name == "iwarp" && rnic.gids.len() == 1, "{rnic:?}");
    assert_eq!(errno(client.link_del("iwarp")), Ok(()));
    assert_eq!(client.list_devices().unwrap().remove(0).name, auto.name);
}

fn settings_keep_the_daemon() {
    use weft_cm::rdma_cm::{Command as Cm, RoceMode};
    let mut client = connect();
    let device = client.list_devices().unwrap().remove(0);
    let set = |client: &mut Client, tos| {
        let command = Cm::SetDefaults { device: device.index, roce_mode: Some(RoceMode::V2), roce_tos: Some(tos) };
        client.request(weft_ipc::Request::Cm(command)).unwrap();
    };
    let outlives_its_clients = |client: Client, what: &str| {
        drop(client);
        std::thread::sleep(IDLE_EXIT * 2);
        connect_existing().unwrap_or_else(|error| panic!("{what} went with the daemon: {error}"))
    };
    client.dev_rename(&device.name, "mlx4_0").unwrap();
    let mut client = outlives_its_clients(client, "the name");
    assert_eq!(client.list_devices().unwrap()[0].name, "mlx4_0");
    client.dev_rename("mlx4_0", &device.name).unwrap();
    set(&mut client, 106);
    let mut client = outlives_its_clients(client, "the type of service");
    // Without any setting the daemon leaves.
    set(&mut client, 0);
    let pid = daemon_pid(&mut client);
    drop(client);
    wait_until("it leaves", || !std::path::Path::new(&format!("/proc/{pid}")).exists());
}

fn packets_reach_their_slot() {
    let processes: Vec<Process> = (0..3).map(|_| Process::new()).collect();
    assert_eq!(processes.iter().map(|process| process.slot.number).collect::<Vec<_>>(), [1, 2, 3]);
    check_steering(&processes.iter().collect::<Vec<_>>());
    let [a, b, c] = <[Process; 3]>::try_from(processes).ok().unwrap();
    drop(b);
    check_steering(&[&a, &c]);
    let mut d = Process::new();
    assert_eq!(d.slot.number, 4);
    check_steering(&[&a, &c, &d]);
    assert!(matches!(d.client.allocate_slot(), Err(RequestError::Refused(_))));
    let status = d.client.status().unwrap();
    assert_eq!((status.slots_in_use, status.processes.len()), (3, 3));
}

fn a_killed_daemon_moves_nothing() {
    let (mut a, mut b, mut c) = (Process::new(), Process::new(), Process::new());
    for round in 0..12 {
        kill_daemon(&mut a.client);
        check_steering(&[&a, &b, &c]);
        // A different one comes first each time, and an unrelated program connects in between.
        let stranger = std::thread::spawn(Process::new);
        let mut order = [&mut a, &mut b, &mut c];
        order.rotate_left(round % 3);
        for process in order {
            let reconnected = process.client.reconnect().unwrap();
            assert_eq!(reconnected.slot, SlotFate::Kept);
            assert_eq!(reconnected.devices.len(), 1);
        }
        let stranger = stranger.join().unwrap();
        assert!(stranger.slot.number > 3);
        check_steering(&[&a, &b, &c, &stranger]);
    }
    // All come back at once.
    kill_daemon(&mut a.client);
    std::thread::scope(|scope| {
        for process in [&mut a, &mut b, &mut c] {
            scope.spawn(|| assert_eq!(process.client.reconnect().unwrap().slot, SlotFate::Kept));
        }
    });
    check_steering(&[&a, &b, &c]);
}

fn devices_survive_a_killed_daemon() {
    ip("addr add 10.7.0.1/32 dev lo");
    ip("addr add 10.7.0.2/32 dev lo");
    let mut a = Process::new();
    a.client.link_add("kept", "rxe", "lo").unwrap();
    a.client.subscribe().unwrap();
    ip("addr del 10.7.0.1/32 dev lo");
    wait_until("the address gone", || a.client.list_devices().unwrap()[0].gids.iter().all(|entry| entry.index != 0));
    let before = a.client.list_devices().unwrap();
    kill_daemon(&mut a.client);
    assert_eq!(a.client.reconnect().unwrap().devices, before);
    ip("addr add 10.7.0.3/32 dev lo");
    let row0 = "10.7.0.3".parse::<Ipv4Addr>().unwrap().to_ipv6_mapped().octets();
    wait_until("events go on and the hole is filled", || {
        a.client.poll_events().iter().any(
            |event| matches!(event, Event::DeviceChanged(info) if info.gids[0].gid == row0 && info.gids[0].index == 0),
        )
    });
    ip("addr del 10.7.0.3/32 dev lo");
    ip("addr del 10.7.0.2/32 dev lo");
    a.client.link_del("kept").unwrap();
}

fn the_slot_of_who_does_not_come_back_is_free() {
    let (mut a, b) = (Process::new(), Process::new());
    let lost = b.slot.number;
    kill_daemon(&mut a.client);
    drop(b);
    assert_eq!(a.client.reconnect().unwrap().slot, SlotFate::Kept);
    assert_eq!(a.client.status().unwrap().slots_in_use, 2);
    wait_until("its slot is free", || a.client.status().unwrap().slots_in_use == 1);
    check_steering(&[&a]);
    let others: Vec<Process> = (0..62).map(|_| Process::new()).collect();
    // Slots that never had a process come first, but on a slow machine this one has rested meanwhile.
    assert!(others.iter().any(|process| process.slot.number == lost));
    check_steering(&others.iter().collect::<Vec<_>>());
}

fn the_pool_grows_and_survives() {
    let mut processes: Vec<Process> = (0..200).map(|_| Process::new()).collect();
    check_steering(&processes.iter().collect::<Vec<_>>());
    assert_eq!(processes[0].client.status().unwrap().pool_slots, 256);
    assert_eq!(processes[0].client.status().unwrap().processes.len(), 200);
    kill_daemon(&mut processes[0].client);
    check_steering(&processes.iter().collect::<Vec<_>>());
    for process in &mut processes {
        assert_eq!(process.client.reconnect().unwrap().slot, SlotFate::Kept);
    }
    check_steering(&processes.iter().collect::<Vec<_>>());
    let more: Vec<Process> = (0..100).map(|_| Process::new()).collect();
    check_steering(&more.iter().collect::<Vec<_>>());
}

/// Another process: takes a slot, prints it, leaves a child with all its descriptors, waits to be killed.
fn hold_slot() {
    use std::io::Write;
    let process = Process::new();
    println!("{}", process.slot.number);
    std::io::stdout().flush().unwrap();
    // SAFETY: the child only sleeps and exits.
    if unsafe { libc::fork() } == 0 {
        std::thread::sleep(Duration::from_secs(5));
        // SAFETY: `_exit` ends the child without running any handlers or destructors.
        unsafe { libc::_exit(0) };
    }
    std::thread::sleep(Duration::from_secs(30));
}

fn a_dead_process_frees_its_slot_though_children_live() {
    use std::io::{BufRead, BufReader};
    let mut watcher = connect();
    let mut other = Command::new(std::env::current_exe().unwrap())
        .arg("hold-slot")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(other.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line.trim(), "1");
    assert_eq!(watcher.status().unwrap().slots_in_use, 1);
    std::thread::sleep(Duration::from_millis(50));
    other.kill().unwrap();
    other.wait().unwrap();
    wait_until("its slot is free", || watcher.status().unwrap().slots_in_use == 0);
    drop(watcher);
    // The child still holds the sockets.
    wait_until("the child is gone", || UdpSocket::bind("0.0.0.0:4791").is_ok());
}

fn multicast_reaches_who_joined() {
    let (mut a, b) = (Process::new(), Process::new());
    let loopback = a.client.list_devices().unwrap()[0].ifindex;
    let group = McastGroup { group: "239.1.2.3".parse().unwrap(), ifindex: loopback };
    a.client.join_multicast(group).unwrap();
    a.client.join_multicast(group).unwrap();
    let refused = a.client.join_multicast(McastGroup { group: "10.1.2.3".parse().unwrap(), ifindex: loopback });
    assert_eq!(refused.unwrap_err().errno(), 22);
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    ip("route add 239.0.0.0/8 dev lo");
    let packet = [4, 0, 0xff, 0xff, 0, 0xff, 0xff, 0xff];
    let send = || sender.send_to(&packet, "239.1.2.3:4791").unwrap();
    send();
    assert_eq!(receive(&a.slot.v4).as_deref(), Some(&packet[..]));
    assert_eq!(receive(&b.slot.v4), None);
    kill_daemon(&mut a.client);
    a.client.reconnect().unwrap();
    send();
    assert_eq!(receive(&a.slot.v4).as_deref(), Some(&packet[..]));
    a.client.leave_multicast(group).unwrap();
    send();
    assert_eq!(receive(&a.slot.v4), None);
    ip("route del 239.0.0.0/8 dev lo");
}

fn a_taken_port_is_said_so() {
    let taken = UdpSocket::bind("0.0.0.0:4791").unwrap();
    let mut client = connect();
    assert_eq!(client.list_devices().unwrap().len(), 1, "devices are listed all the same");
    let Err(RequestError::Refused(refusal)) = client.allocate_slot() else { panic!() };
    assert_eq!(refusal.errno, 98);
    assert!(refusal.text.contains("UDP port 4791"), "{}", refusal.text);
    drop(taken);
    client.allocate_slot().unwrap();
}

fn nobody_needs_it_so_it_leaves() {
    let mut process = Process::new();
    let pid = daemon_pid(&mut process.client);
    drop(process);
    wait_until("it leaves", || !std::path::Path::new(&format!("/proc/{pid}")).exists());
    assert!(matches!(connect_existing(), Err(ConnectError::NotRunning)));
    UdpSocket::bind("0.0.0.0:4791").unwrap();
}
