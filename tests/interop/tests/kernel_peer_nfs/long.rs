//! Every way and version at length, with loss, and with ends that are killed: what `WEFT_ALL=1` adds.

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use weft_interop::guest::GuestProc;
use weft_interop::guest_peer::GUEST_V4;
use weft_interop::{Table, table};

use super::linux_server::RELAY_PORT;
use super::{LIMIT, MOUNT_PORT, MOUNTED, NFS_PORT, STARTS_WITHIN, Serving, Sides};

/// Workload of the guest: file operations of file servers' clients for so many seconds, and a repository that is cloned.
const DBENCH_SECONDS: u32 = 60;
const OPERATIONS: u32 = 1000;
/// Times that a run is repeated whose rxe stopped.
const TRIES_MAX: u32 = 3;
/// Mebibytes of the file that is copied while an end is killed, and of the long file.
const COPIED: u32 = 48;
const LONG: u32 = 10 * 1024;

/// Our program between Linux's client, which is in the guest, and the files.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Carrier {
    /// `weft nfs serve --export`: Linux's client over RDMA.
    Export,
    /// `weft nfs serve --backend`: Linux's client over RDMA, and Linux's server over TCP.
    Gateway,
    /// `weft nfs relay`: Linux's client over TCP, and Linux's server over RDMA.
    Relay,
}

/// A way to mount, with a version of NFS.
#[derive(Clone, Copy, Debug)]
struct Way {
    carrier: Carrier,
    version: &'static str,
}

const WAYS: &[Way] = &[
    Way { carrier: Carrier::Export, version: "3" },
    Way { carrier: Carrier::Gateway, version: "3" },
    Way { carrier: Carrier::Gateway, version: "4.0" },
    Way { carrier: Carrier::Gateway, version: "4.1" },
    Way { carrier: Carrier::Relay, version: "3" },
    Way { carrier: Carrier::Relay, version: "4.0" },
    Way { carrier: Carrier::Relay, version: "4.1" },
];

/// Adds the cases.
pub fn cases(sides: &Sides, table: &mut Table) {
    for way in WAYS {
        let name = format!("{:?}, NFS {}", way.carrier, way.version);
        table.case(&format!("{name}: dbench"), || way.mounted(sides, &[], || sides.dbench()));
        table.case(&format!("{name}: git"), || way.mounted(sides, &[], || sides.git()));
        table.case(&format!("{name}: random accesses"), || way.mounted(sides, &[], || sides.exercise(41, OPERATIONS)));
        table.case(&format!("{name}: 1% loss"), || way.with_loss(sides));
        table.case(&format!("{name}: killed and back under a copy"), || way.killed(sides));
        table.case(&format!("{name}: the client is killed under a copy"), || way.killed_client(sides));
        if way.carrier == Carrier::Relay {
            table.case(&format!("{name}: Linux's server stops and is back under a copy"), || way.stopped_server(sides));
        }
    }
    table.case(&format!("{LONG} MiB, written and read"), || WAYS[0].mounted(sides, &[], || sides.long_file()));
}

impl Way {
    /// Starts our program.
    fn start(self, sides: &Sides, env: &[(&str, &str)]) -> Result<Serving> {
        match self.carrier {
            Carrier::Export => sides.serve_with(&[], env),
            Carrier::Gateway => {
                sides.start_nfsd()?;
                sides.serve_words(&["--backend", &format!("{GUEST_V4}:2049")], env)
            }
            Carrier::Relay => {
                sides.start_nfsd_over_rdma()?;
                sides.relay(env).map(Serving)
            }
        }
    }

    fn mount(self, sides: &Sides) -> Result<()> {
        let (address, version) = (sides.address(), self.version);
        let of_linux = format!(",mountaddr={GUEST_V4}");
        let (directory, carried, mount_address) = match self.carrier {
            Carrier::Export => ("/", format!("rdma,port={NFS_PORT}"), ""),
            Carrier::Gateway => ("/srv", format!("rdma,port={NFS_PORT}"), &of_linux[..]),
            Carrier::Relay => ("/srv", format!("proto=tcp,port={RELAY_PORT}"), &of_linux[..]),
        };
        let mountd = match version {
            "3" => format!(",nolock,mountport={MOUNT_PORT},mountproto=tcp{mount_address}"),
            _ => String::new(),
        };
        sides.guest(&format!("mount.nfs {address}:{directory} {MOUNTED} -o vers={version},{carried}{mountd}")).map(drop)
    }

    /// Takes steps on a mount.
    fn mounted(self, sides: &Sides, env: &[(&str, &str)], steps: impl FnOnce() -> Result<()>) -> Result<()> {
        let server = self.start(sides, env)?;
        self.mount(sides).with_context(|| server.0.text())?;
        let done = steps();
        let options = if done.is_ok() { "" } else { "-f -l" };
        let unmounted = sides.guest(&format!("umount {options} {MOUNTED}"));
        done.and(unmounted.map(drop)).with_context(|| server.0.text())?;
        match self.carrier {
            Carrier::Relay => drop(server.0.kill()),
            _ => server.terminate()?,
        }
        Ok(())
    }

    /// Our end loses packets. rxe itself may stop then, which is no result.
    fn with_loss(self, sides: &Sides) -> Result<()> {
        let mut tries = 1;
        loop {
            let trace = sides.peer.lab().file(&format!("lost-{:?}-{}-{tries}", self.carrier, self.version));
            let traced = format!("{},packet", trace.display());
            let faults = format!("loss=1%,seed={tries}");
            let mut stopped = false;
            let done = self.mounted(sides, &[("WEFT_FAULT", &faults), ("WEFT_TRACE", &traced)], || {
                let tree = match self.carrier {
                    Carrier::Export => sides.tree_both_ways(2),
                    _ => sides.guest(&super::tree_and_long_directory()).map(drop),
                };
                let done = tree.and_then(|()| sides.exercise(43, 100));
                stopped = done.is_err() && sides.peer.rxe_stopped(&trace)?;
                done
            });
            if done.is_ok() || !stopped || tries == TRIES_MAX {
                return done;
            }
            tries += 1;
        }
    }

    /// Mounts, and starts a copy; returns once some of it has arrived.
    fn copying(self, sides: &Sides, server: &mut Serving) -> Result<GuestProc> {
        self.mount(sides).with_context(|| server.0.text())?;
        sides.guest(&format!("head -c {} /dev/urandom > /tmp/data", COPIED << 20))?;
        let copy = sides.peer.guest().start(&["sh", "-ec", &format!("cp /tmp/data {MOUNTED}/copied; sync")]);
        let place = match self.carrier {
            Carrier::Export => sides.export.join("copied").display().to_string(),
            _ => "/srv/copied".to_owned(),
        };
        let some = |_: &_| match self.carrier {
            Carrier::Export => std::fs::metadata(&place).is_ok_and(|found| found.len() > 1 << 20),
            _ => sides.guest(&format!("test $(stat -c %s {place}) -gt 1048576")).is_ok(),
        };
        ensure!(server.0.wait_until(LIMIT, some), "the copy did not begin");
        Ok(copy)
    }

    /// The copy is whole, and the mount goes.
    fn compare(sides: &Sides, copy: GuestProc, server: Serving) -> Result<()> {
        copy.wait(LIMIT).success().with_context(|| server.0.text())?;
        let compare = format!("echo 3 > /proc/sys/vm/drop_caches; cmp /tmp/data {MOUNTED}/copied; rm {MOUNTED}/copied");
        sides.guest(&compare)?;
        sides.guest(&format!("umount {MOUNTED}; rm /tmp/data"))?;
        drop(server.0.kill());
        Ok(())
    }

    /// Our program is killed under a copy, and started again: the client's mount is hard.
    fn killed(self, sides: &Sides) -> Result<()> {
        let mut server = self.start(sides, &[])?;
        let copy = self.copying(sides, &mut server)?;
        server.0.signal(Signal::KILL);
        drop(server.0.wait(STARTS_WITHIN));
        let again = self.start(sides, &[])?;
        Self::compare(sides, copy, again)
    }

    /// Linux's server loses its listeners, connections and state under a copy.
    fn stopped_server(self, sides: &Sides) -> Result<()> {
        let mut server = self.start(sides, &[])?;
        let copy = self.copying(sides, &mut server)?;
        sides.restart_nfsd()?;
        Self::compare(sides, copy, server)
    }

    /// The program that copies is killed, and its mount goes: the next mount finds what was copied, and can remove it.
    fn killed_client(self, sides: &Sides) -> Result<()> {
        let mut server = self.start(sides, &[])?;
        let copy = self.copying(sides, &mut server)?;
        copy.signal(Signal::KILL);
        sides.guest(&format!("umount -f -l {MOUNTED}"))?;
        drop(copy.wait(LIMIT));
        self.mount(sides).with_context(|| server.0.text())?;
        sides.guest(&format!("test -s {MOUNTED}/copied; rm {MOUNTED}/copied; umount {MOUNTED}; rm /tmp/data"))?;
        ensure!(server.0.running(), "our program died: {}", server.0.text());
        drop(server.0.kill());
        Ok(())
    }
}

impl Sides {
    /// Debian's dbench, with the recorded load of file servers that its package brings.
    fn dbench(&self) -> Result<()> {
        let text = self.guest(&format!(
            "mkdir -p {MOUNTED}/dbench; dbench -D {MOUNTED}/dbench -t {DBENCH_SECONDS} -c /usr/share/dbench/client.txt 2
             rm -r {MOUNTED}/dbench"
        ))?;
        let last = text.lines().rfind(|line| line.starts_with("Throughput")).with_context(|| text.clone())?;
        table::note(&format!("kernel peer, NFS: dbench, 2 clients: {last}"));
        Ok(())
    }

    /// A repository on the mount is cloned to the mount and from it, and is whole.
    fn git(&self) -> Result<()> {
        let text = self.guest(&format!(
            "export HOME=/tmp GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0=n
             export GIT_CONFIG_KEY_1=user.email GIT_CONFIG_VALUE_1=n@n GIT_TEMPLATE_DIR=
             cd {MOUNTED}; rm -rf repo clone /tmp/clone; mkdir repo; cd repo; git init -q .
             for n in $(seq 5); do head -c 100000 /dev/urandom > f$n; git add f$n; git commit -q -m $n; done
             cd ..; git clone -q --no-local repo clone; git clone -q --no-local repo /tmp/clone
             git -C clone fsck --full; git -C /tmp/clone fsck --full; git -C clone log --oneline | wc -l
             for n in $(seq 5); do cmp repo/f$n clone/f$n; cmp repo/f$n /tmp/clone/f$n; done
             rm -rf repo clone /tmp/clone; echo same"
        ))?;
        ensure!(text.ends_with("5\nsame\n"), "{text}");
        Ok(())
    }

    fn long_file(&self) -> Result<()> {
        let text = self.peer.guest().start(&["exercise", &format!("{MOUNTED}/long"), "7", &format!("{LONG}MiB")]);
        let ended = text.wait(12 * LIMIT).success().with_context(|| self.kernel_log())?;
        let line = ended.text.lines().next_back().unwrap_or_default();
        ensure!(line.contains("agree"), "{}", ended.text);
        table::note(&format!("kernel peer, NFS: {line}"));
        std::fs::remove_file(self.export.join("long")).context("the long file")
    }
}
