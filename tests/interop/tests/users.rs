//! Several users of one machine and one daemon: private device nodes, faults and daemons of one user that do no harm to
//! another.

use anyhow::{Result, ensure};
use std::time::Duration;
use weft_interop::{Fabric, Lab, Shape, Table, Who, product, skip};

const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn nodes_are_inodes_of_their_own() {
    let lab = Lab::new(Shape::One).expect("a lab");
    let mut table = Table::new("/dev/infiniband");
    let machine = || -> Result<(u32, u64)> {
        use std::os::unix::fs::MetadataExt;
        let meta = std::fs::metadata("/dev/null")?;
        Ok((meta.mode(), meta.ino()))
    };
    for who in Who::BOTH {
        table.case(&format!("{who:?}, modes and chmod"), || {
            let before = machine()?;
            let words = "set -e; cd /dev/infiniband; stat -c '%a %F %n' uverbs0 rdma_cm; chmod 640 uverbs0; \
                         stat -c '%a %n' uverbs0 rdma_cm; test -c uverbs0; exec 3<>rdma_cm; echo opened; \
                         test uverbs0 -ef /dev/null || echo other";
            let ended = lab.run(lab.client(), who, &[], &["sh", "-c", words])?.success()?;
            for wanted in ["666 character special file uverbs0", "640 uverbs0", "666 rdma_cm", "opened", "other"] {
                ensure!(ended.text.contains(wanted), "no {wanted:?} in\n{}", ended.report());
            }
            ensure!(machine()? == before, "the machine's /dev/null was changed");
            Ok(())
        });
    }
    table.finish();
}

#[test]
fn an_administrator_lets_a_user_at_a_port() {
    if !skip::have("an administrator lets a user at a port", &["ip", "setpriv", "smpquery"]) {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        // In a user namespace with a single user, there is no other user to grant access to.
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let fabric = Fabric::up(&lab, &["--star", "2"]).expect("a fabric");
    let mut table = Table::new("umad0");
    for (what, change, allowed) in [
        ("as it is made", "stat -c %a:%u umad0 | grep -x 600:0", false),
        ("chmod 666", "chmod 666 umad0", true),
        ("chgrp to the user's group", "chmod 660 umad0; chgrp 33 umad0", true),
        ("chgrp to another group", "chmod 660 umad0; chgrp 34 umad0", false),
        ("a node of another's making", "rm -f umad0 2>/dev/null; mount --bind /dev/null umad0", false),
    ] {
        table.case(what, || {
            let user = "setpriv --reuid=33 --regid=33 --clear-groups smpquery -D nodeinfo 0";
            let words = format!("cd /dev/infiniband; {change} || exit 9; {user}");
            let ended = fabric.run("node1", &["sh", "-c", &words])?;
            ensure!(ended.text.contains("BaseVers") == allowed, "{}", ended.report());
            Ok(())
        });
    }
    table.case("a rule of udev's opens it", || {
        // In a mount namespace of its own: the rules of the machine stay as they are.
        let script = "mount -t tmpfs rules /run; mkdir -p /run/udev/rules.d; \
                      echo 'KERNEL==\"umad*\", NAME=\"infiniband/%k\", MODE=\"0666\"' > /run/udev/rules.d/90-rdma-umad.rules; \
                      exec \"$0\" run --host node1 -- sh -c 'stat -c %a /dev/infiniband/umad0; \
                      exec setpriv --reuid=33 --regid=33 --clear-groups smpquery -D nodeinfo 0'";
        let weft = weft_interop::product::weft()?.display().to_string();
        let words = ["unshare", "-m", "sh", "-ec", script, &weft];
        let ended = lab.start_bare(lab.client(), Who::Root, &words)?.wait(Duration::from_secs(60));
        ensure!(ended.text.starts_with("666\n") && ended.text.contains("BaseVers"), "{}", ended.report());
        Ok(())
    });
    table.finish();
}

#[test]
fn root_is_fast_under_the_daemon_of_a_user() {
    if !skip::have("root under a user's daemon", &["ip", "ib_write_bw"]) {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let side = lab.client();
    let mut table = Table::new("root under a user's daemon");
    lab.run(side, Who::Ordinary, &[], &["ibv_devices"]).and_then(|ended| ended.success()).expect("a daemon");
    table.case("copies are the kernel's", || {
        let words = ["ib_write_bw", "-F", "-s", "65536", "-D", "4"];
        let mut server = lab.start(side, Who::Root, &[], &words)?;
        ensure!(server.wait_listening(18515, LIMIT), "the server does not listen:\n{}", server.text());
        let mut client = lab.start(side, Who::Root, &[], &[&words[..], &["127.0.0.1"]].concat())?;
        let mut shown = String::new();
        let copies = client.wait_until(LIMIT, |_| {
            shown = lab.weft(side, Who::Root, &[], &["qp"]).map(|ended| ended.text).unwrap_or_default();
            shown.contains("process_vm")
        });
        ensure!(copies && shown.contains("process_vm"), "by another way:\n{shown}\n{}", client.text());
        client.wait(LIMIT).success()?;
        server.wait(LIMIT).success().map(drop)
    });
    table.finish();
}

#[test]
fn faults_end_with_the_program_that_asked_for_them() {
    if !skip::have("faults and other programs", &["ip", "rping"]) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let side = lab.client();
    let mut table = Table::new("faults and other programs");
    table.case("rping after a daemon was started with faults", || {
        lab.run(side, Who::Root, &[("WEFT_FAULT", "loss=100%")], &["ibv_devices"])?.success()?;
        let mut server = lab.start(side, Who::Root, &[], &["rping", "-s", "-a", "127.0.0.1", "-C", "3"])?;
        std::thread::sleep(Duration::from_millis(500));
        ensure!(server.running(), "{}", server.text());
        lab.run(side, Who::Root, &[], &["rping", "-c", "-a", "127.0.0.1", "-C", "3"])?.success()?;
        server.wait(LIMIT).success().map(drop)
    });
    table.finish();
}

/// The kernel limits a user's descriptors in flight, over all of the user's daemons, to the limit of open files.
#[test]
fn daemons_of_many_namespaces_have_room_in_flight() {
    const NAMESPACES: usize = 14;
    if !skip::have("daemons of one user in many namespaces", &["ip", "prlimit", "setpriv", "ibv_asyncwatch"]) {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let weft = product::weft().expect("the product").display().to_string();
    let mut table = Table::new("daemons of one user");
    table.case(&format!("devices open in {NAMESPACES} namespaces with 1024 open files"), || {
        let user = "setpriv --reuid=33 --regid=33 --clear-groups prlimit --nofile=1024:1024";
        // Each program keeps its device open. The end of the script ends its PID namespace, daemons included.
        let script = format!(
            "for i in $(seq {NAMESPACES}); do \
             unshare -n sh -c 'ip link set lo up; exec {user} {weft} run -- ibv_asyncwatch' & done; wait"
        );
        let line = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", &script];
        let mut all = lab.start_bare(lab.client(), Who::Root, &line)?;
        let opened = |text: &str| text.matches("async event FD").count();
        let ready = all.wait_until(LIMIT, |all| opened(&all.text()) == NAMESPACES || all.text().contains("rror"));
        let text = all.text();
        ensure!(ready && opened(&text) == NAMESPACES, "{} devices open:\n{text}", opened(&text));
        Ok(())
    });
    table.finish();
}
