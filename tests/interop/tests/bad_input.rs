//! Bad input is reported, and harms no other program.

use anyhow::{Result, ensure};
use std::time::Duration;
use weft_interop::{Ended, Lab, Pair, Shape, Table, Who, skip};

/// An exclusive UDP socket on the RoCE port, such as that of Linux's rxe.
const SQUATTER: &str = "import socket, time\n\
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('0.0.0.0', 4791))\n\
    t = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\n\
    t.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1); t.bind(('::', 4791))\n\
    print('squatting', flush=True); time.sleep(60)";

/// A daemon of another version: it accepts any hello and answers with a different protocol.
const STRANGER: &str = "import socket, struct\n\
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.bind('\\0weft-daemon-0'); s.listen(8)\n\
    print('listening', flush=True)\n\
    while True:\n\
    \x20   c, _ = s.accept(); c.recv(4096)\n\
    \x20   c.send(b'WEFD' + struct.pack('<IBH', 4242, 1, 0)); c.close()";

/// A daemon of another user: everything is valid except that the device's name leads out of the directory that `weft
/// run` would make for it, to the file that the argument names.
const TRAP: &str = "import socket, struct, sys\n\
    def v(n):\n\
    \x20   out = b''\n\
    \x20   while True:\n\
    \x20       out += bytes([n & 127 | (128 if n > 127 else 0)]); n >>= 7\n\
    \x20       if not n: return out\n\
    def s(t): return v(len(t)) + t.encode()\n\
    info = v(0) + s('../' * 40 + sys.argv[1].lstrip('/')) + s('rxe') + v(1) + s('eth0') + v(2) + bytes(6) + v(1500) \
    + v(1024) + v(1) + v(2) + v(0) + v(1) + v(0xffff) + b'\\0' + b'\\1'\n\
    l = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); l.bind('\\0weft-daemon-0'); l.listen(8)\n\
    print('listening', flush=True)\n\
    while True:\n\
    \x20   c, _ = l.accept(); c.recv(4096); c.send(b'WEFD' + struct.pack('<IBH', 1, 0, 0))\n\
    \x20   while (m := c.recv(4096)):\n\
    \x20       c.send(v(0) + v(m[0]) + v(0) + (v(0) if m[1] == 1 else v(1) + v(1) + info + b'\\0'))";

/// Arbitrary bytes, and RoCE packets with arbitrary contents, to random queue pair numbers.
const GARBAGE: &str = "import random, socket, sys, time\n\
    random.seed(1); s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); until = time.time() + 3\n\
    while time.time() < until:\n\
    \x20   body = bytes(random.randrange(256) for _ in range(random.choice([0, 1, 4, 12, 16, 28, 60, 300])))\n\
    \x20   if random.random() < 0.7:\n\
    \x20       body = bytes([random.randrange(256), 64, 255, 255, 0, random.randrange(4), random.randrange(256), \
    random.randrange(256)]) + body\n\
    \x20   try: s.sendto(body, (sys.argv[1], 4791))\n\
    \x20   except OSError: pass\n\
    \x20   time.sleep(0.0003)";

/// Messages of a hostile program to the daemon.
const HECKLER: &str = "import os, random, socket, struct\n\
    random.seed(2)\n\
    for round in range(300):\n\
    \x20   c = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); c.settimeout(0.05); c.connect('\\0weft-daemon-0')\n\
    \x20   try:\n\
    \x20       if round % 3: c.send(b'WEFT' + struct.pack('<IBB', 1, 0, 2) + b'xx'); c.recv(4096)\n\
    \x20       for _ in range(20): c.send(os.urandom(random.choice([1, 3, 9, 100, 5000])))\n\
    \x20   except OSError: pass\n\
    \x20   c.close()\n\
    print('done')";

#[test]
fn wrong_devices_ports_daemons() {
    if !skip::have("wrong_devices_ports_daemons", &["ip", "ibv_rc_pingpong", "ibv_devinfo"]) {
        return;
    }
    let lab = Lab::new(Shape::One).expect("a lab");
    let side = lab.client();
    let mut table = Table::new("bad input");
    table.case("unknown device, ibv_devinfo", || {
        let ended = lab.run(side, Who::Root, &[], &["ibv_devinfo", "-d", "nosuch"])?;
        fails_with(&ended, &["nosuch"])
    });
    table.case("unknown device, ibv_rc_pingpong", || {
        let ended = lab.run(side, Who::Ordinary, &[], &["ibv_rc_pingpong", "-d", "nosuch"])?;
        fails_with(&ended, &["nosuch", "not found"])
    });
    table.case("unknown program", || {
        let ended = lab.run(side, Who::Ordinary, &[], &["no-such-program"])?;
        fails_with(&ended, &["no-such-program"])
    });
    table.case("exit status of the program", || {
        let ended = lab.run(side, Who::Ordinary, &[], &["sh", "-c", "exit 7"])?;
        ensure!(ended.status.and_then(|s| s.code()) == Some(7), "not 7: {}", ended.report());
        Ok(())
    });
    table.case("a heckler at the daemon's socket", || {
        lab.run(side, Who::Root, &[], &["ibv_devinfo"])?.success()?;
        let daemon = lab.daemon(side);
        ensure!(daemon.is_some(), "no daemon runs");
        lab.start_bare(side, Who::Ordinary, &["/usr/bin/python3", "-c", HECKLER])?
            .wait(Duration::from_secs(60))
            .success()?;
        ensure!(lab.daemon(side) == daemon, "the daemon did not survive");
        lab.run(side, Who::Root, &[], &["ibv_devinfo"])?.success().map(drop)
    });
    table.case("garbage at the RoCE port in the middle of traffic", || {
        let gid = lab.device(side)?.gid_v4.to_string();
        let noise = lab.start_bare(side, Who::Ordinary, &["/usr/bin/python3", "-c", GARBAGE, side.v4])?;
        for _ in 0..5 {
            Pair::new("ibv_rc_pingpong", &format!("-c -n 2000 -g {gid}")).devices(&lab)?.succeed(&lab)?;
        }
        noise.wait(Duration::from_secs(10)).success().map(drop)
    });
    table.case("a capture that cannot be written", || {
        let ended = lab.run(side, Who::Ordinary, &[("WEFT_PCAP", "/nonexistent/x.pcapng")], &["ibv_devinfo"])?;
        ensure!(ended.status.is_some_and(|s| s.code().is_some()), "it crashed: {}", ended.report());
        Ok(())
    });
    table.finish();
}

#[test]
fn port_taken() {
    let lab = Lab::new(Shape::One).expect("a lab");
    let side = lab.client();
    let mut table = Table::new("port 4791 taken");
    table.case("it is said, and passes", || {
        let mut squatter = lab.start_bare(side, Who::Root, &["/usr/bin/python3", "-c", SQUATTER])?;
        ensure!(squatter.wait_until(Duration::from_secs(5), |p| p.text().contains("squatting")), "no squatter");
        let ended = lab.run(side, Who::Root, &[], &["ibv_rc_pingpong", "-g", "0"])?;
        fails_with(&ended, &["4791"])?;
        squatter.kill();
        // It recovers without a restart.
        let until = std::time::Instant::now() + Duration::from_secs(15);
        loop {
            let result = Pair::new("ibv_rc_pingpong", "-c -g 0").succeed(&lab);
            if result.is_ok() || std::time::Instant::now() > until {
                return result.map(drop);
            }
        }
    });
    table.finish();
}

#[test]
fn daemon_of_another_version() {
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let side = lab.client();
    let mut table = Table::new("another version");
    table.case("both protocols are named", || {
        let mut stranger = lab.start_bare(side, Who::Root, &["/usr/bin/python3", "-c", STRANGER])?;
        ensure!(stranger.wait_until(Duration::from_secs(5), |p| p.text().contains("listening")), "no stranger");
        let ended = lab.run(side, Who::Ordinary, &[], &["ibv_devinfo"])?;
        fails_with(&ended, &["4242"])
    });
    table.finish();
}

#[test]
fn daemon_of_another_user() {
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let side = lab.client();
    let mut table = Table::new("a daemon of another user");
    table.case("makes root write nowhere", || {
        let victim = lab.file("victim");
        let name = victim.to_str().unwrap_or_default();
        let mut trap = lab.start_bare(side, Who::Ordinary, &["/usr/bin/python3", "-c", TRAP, name])?;
        ensure!(
            trap.wait_until(Duration::from_secs(10), |p| p.text().contains("listening")),
            "no trap: {}",
            trap.text()
        );
        let ended = lab.run(side, Who::Root, &[], &["true"])?;
        ensure!(!victim.exists(), "{name} was made: {}", ended.report());
        fails_with(&ended, &["answered what was not asked"])
    });
    table.finish();
}

fn fails_with(ended: &Ended, wanted: &[&str]) -> Result<()> {
    ensure!(ended.status.is_some_and(|s| s.code().is_some_and(|c| c != 0)), "it did not fail: {}", ended.report());
    for word in wanted {
        ensure!(ended.text.contains(word), "nothing says {word:?}: {}", ended.report());
    }
    Ok(())
}
