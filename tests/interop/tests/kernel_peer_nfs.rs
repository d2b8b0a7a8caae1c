//! Linux's NFS client over RDMA, in a guest with rdma_rxe, against `weft nfs serve` on the host: an exported directory by
//! NFSv3, and Linux's own NFS server (in the same guest) behind the gateway by NFSv3 and NFSv4.1. Linux's server over RDMA
//! is the peer of Weft's clients: of the mount by FUSE, and of the relay.
//!
//! The client's tool is Debian's mount.nfs. Data is compared by sha256 on both sides. `WEFT_ALL=1` adds larger files, a longer
//! directory, short transfers with loss, and every way and version at length (`long.rs`).

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use weft_interop::guest::{Additions, Driver};
use weft_interop::proc::Proc;
use weft_interop::{Peer, Table, Who, guest, product, skip, table};

#[path = "kernel_peer_nfs/linux_server.rs"]
mod linux_server;
#[path = "kernel_peer_nfs/long.rs"]
mod long;

/// MTU of the cable.
const CABLE: u32 = 9000;
/// Modules of the family, with their dependencies.
const MODULES: &[&str] = &["sunrpc", "rpcrdma", "nfs", "nfsv3", "nfsv4", "nfsd"];
/// Programs and files of the host that the guest gets. Names of transports are in /etc/netconfig.
const FILES: &[&str] = &[
    "/usr/sbin/mount.nfs",
    "/usr/sbin/exportfs",
    "/usr/sbin/rpc.mountd",
    "/usr/sbin/rpcbind",
    "/usr/bin/setpriv",
    "/etc/netconfig",
];
/// Those that only all tests use, and their names in the guest.
const FILES_OF_ALL: &[(&str, &str)] = &[
    ("/usr/bin/dbench", "/usr/bin/dbench"),
    ("/usr/share/dbench/client.txt", "/usr/share/dbench/client.txt"),
    ("/usr/bin/git", "/usr/bin/git"),
    ("/usr/bin/git", "/usr/bin/git-upload-pack"),
];
const EXERCISE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernel_peer_nfs/exercise.c");

/// Ports of the server: other tests of the machine do not see them, since the lab has a network of its own.
const NFS_PORT: u16 = 20049;
const MOUNT_PORT: u16 = 20048;
/// Directory of the mount in the guest.
const MOUNTED: &str = "/mnt";
/// Time limit of one step in the guest.
const LIMIT: Duration = Duration::from_secs(300);
const STARTS_WITHIN: Duration = Duration::from_secs(30);
/// Entries of a directory whose listing takes long replies: by default, and of all tests.
const ENTRIES: (usize, usize) = (600, 3000);
/// Size of the largest file in mebibytes: by default, and of all tests.
const LARGE: (u32, u32) = (8, 64);

#[test]
fn the_kernels_client_over_rdma() {
    let name = "the_kernels_client_over_rdma";
    if let Some(why) = guest::obstacle() {
        return skip::skip(name, &why);
    }
    let of_all: &[&str] = if table::all() { &["dbench", "git"] } else { &[] };
    if !skip::have(name, FILES) || !skip::have(name, &["cc"]) || !skip::have(name, of_all) {
        return;
    }
    let sides = Sides::new().expect("a guest with NFS");
    let mut table = Table::new("kernel peer, NFS");
    table::note(&format!("kernel peer, NFS: {}", sides.peer.guest().package));
    let mut server = sides.serve(&[]).expect("a server");
    table.case("a tree goes both ways", || {
        sides.with_mount(|| sides.tree_both_ways(if table::all() { LARGE.1 } else { LARGE.0 }))
    });
    table.case("names, links, sizes and a long directory", || sides.with_mount(|| sides.names()));
    table.case("random accesses equal a copy in memory", || sides.with_mount(|| sides.exercise(11, 400)));
    table.case("a client that is killed leaves the server fine", || sides.killed_client(&mut server));
    table.case("SIGTERM ends the server", || server.terminate());
    // Short transfers take a minute.
    let transfers = [(3, "rsize=1048576,wsize=1048576"), (4, "rsize=65536,wsize=65536")];
    for (seed, options) in transfers.into_iter().take(if table::all() { 2 } else { 1 }) {
        table.case(&format!("1% loss, {options}"), || sides.with_loss(seed, options));
    }
    table.case("a server that is killed comes back under a copy", || sides.killed_server());
    table.case("--read-only refuses changes", || sides.read_only());
    table.case("users are those of the client, root is nobody", || sides.users());
    table.case("an ordinary user serves a directory", || sides.ordinary());
    table.case("NFSv4.1 through the gateway to Linux's server", || sides.gateway("vers=4.1,rdma"));
    let large = if table::all() { LARGE.1 } else { LARGE.0 };
    table.case("Linux's server over RDMA, mounted by FUSE", || sides.mount_linux("hard", large));
    if table::all() {
        table.case("Linux's server, short transfers", || sides.mount_linux("rsize=16384,wsize=16384,noac", 2));
    }
    if table::all() {
        long::cases(&sides, &mut table);
    }
    table.case("the kernel has nothing to complain of", || {
        let complaints = sides.peer.complaints()?;
        ensure!(complaints.is_empty(), "{}", complaints.join("\n"));
        Ok(())
    });
    table.finish();
}

/// The guest and the host.
struct Sides {
    peer: Peer,
    export: PathBuf,
}

/// Returns the guest's script for a mount of its own /srv: a tree that is copied there and compared, and a long directory.
fn tree_and_long_directory() -> String {
    format!(
        "rm -rf /tmp/from; mkdir /tmp/from; cd /tmp/from
         : > empty; head -c 4097 /dev/urandom > small; head -c 8388608 /dev/urandom > large; ln -s large link
         cp -a /tmp/from {MOUNTED}/tree; sync; echo 3 > /proc/sys/vm/drop_caches
         cmp large {MOUNTED}/tree/large; cmp small {MOUNTED}/tree/small; cmp large /srv/tree/large
         mkdir {MOUNTED}/many; cd {MOUNTED}/many; for n in $(seq 300); do : > \"name of some length $n\"; done
         test $(ls -l | grep -c length) = 300; cd /; rm -r {MOUNTED}/many {MOUNTED}/tree"
    )
}

/// A running `weft nfs serve`.
struct Serving(Proc);

impl Serving {
    fn terminate(self) -> Result<()> {
        self.0.signal(Signal::TERM);
        self.0.wait(STARTS_WITHIN).success().map(drop)
    }
}

impl Sides {
    fn new() -> Result<Sides> {
        let agent = Path::new(env!("CARGO_BIN_EXE_weft-guest"));
        let exercise = std::env::temp_dir().join(format!("weft-exercise-{}", std::process::id()));
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-Werror", "-O1", "-o"]).arg(&exercise).arg(EXERCISE);
        ensure!(cc.status().context("cc runs")?.success(), "exercise.c does not compile");
        let mut files: Vec<_> = FILES.iter().map(|file| (PathBuf::from(file), (*file).to_owned())).collect();
        if table::all() {
            files.extend(FILES_OF_ALL.iter().map(|(from, to)| (PathBuf::from(from), (*to).to_owned())));
        }
        files.push((exercise.clone(), "/usr/bin/exercise".to_owned()));
        let additions = Additions { files: &files, modules: MODULES };
        let peer = Peer::boot_with(agent, Driver::Rxe, additions, CABLE);
        std::fs::remove_file(&exercise)?;
        let peer = peer?;
        let export = peer.lab().file("export");
        std::fs::create_dir(&export)?;
        Ok(Sides { peer, export })
    }

    fn address(&self) -> &'static str {
        self.peer.lab().client().v4
    }

    /// Starts a server of the exported directory.
    fn serve(&self, options: &[&str]) -> Result<Serving> {
        self.serve_with(options, &[])
    }

    fn serve_with(&self, options: &[&str], env: &[(&str, &str)]) -> Result<Serving> {
        let export = self.export.display().to_string();
        self.serve_words(&[&["--export", &export, "--no-root-squash"], options].concat(), env)
    }

    fn serve_words(&self, options: &[&str], env: &[(&str, &str)]) -> Result<Serving> {
        self.serve_as(Who::Root, options, env)
    }

    fn serve_as(&self, who: Who, options: &[&str], env: &[(&str, &str)]) -> Result<Serving> {
        let lab = self.peer.lab();
        let weft = product::weft()?.display().to_string();
        let line = lab.bare(lab.client(), who, &[&[&weft[..], "nfs", "serve"], options].concat());
        let mut proc = lab.start_line(&line, env)?;
        let listens = proc.wait_until(STARTS_WITHIN, |proc| proc.text().contains("listening on port"));
        ensure!(listens, "the server does not listen: {}", proc.text());
        Ok(Serving(proc))
    }

    /// Runs a shell script in the guest to success, and returns its output.
    fn guest(&self, script: &str) -> Result<String> {
        let ended = self.peer.guest().start(&["sh", "-ec", script]).wait(LIMIT);
        let text = ended.text.clone();
        ended.success().with_context(|| self.kernel_log()).map(|_| text)
    }

    /// Returns the last lines of the guest's kernel, for failures.
    fn kernel_log(&self) -> String {
        self.peer.guest().run(&["sh", "-c", "dmesg | tail -n 15"]).map(|ended| ended.text).unwrap_or_default()
    }

    fn mount(&self, options: &str) -> Result<()> {
        let words = format!("rdma,port={NFS_PORT},vers=3,mountport={MOUNT_PORT},mountproto=tcp,nolock,{options}");
        self.guest(&format!("mount.nfs {}:/ {MOUNTED} -o {words}", self.address())).map(drop)
    }

    fn unmount(&self) -> Result<()> {
        self.guest(&format!("umount {MOUNTED}")).map(drop)
    }

    fn with_mount(&self, steps: impl FnOnce() -> Result<()>) -> Result<()> {
        self.with_mount_options("hard", steps)
    }

    fn with_mount_options(&self, options: &str, steps: impl FnOnce() -> Result<()>) -> Result<()> {
        self.mount(options)?;
        let done = steps();
        let unmounted = if done.is_ok() { self.unmount() } else { self.guest("umount -f -l /mnt || true").map(drop) };
        done.and(unmounted)
    }

    /// Returns the digests of all files below a directory of the host, as sha256sum prints them, in order.
    fn digests(&self, below: &str) -> Result<String> {
        let script =
            format!("cd {}/{below} && find . -type f -exec sha256sum {{}} + | sort -k2", self.export.display());
        let out = Command::new("sh").args(["-ec", &script]).output()?;
        ensure!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        Ok(String::from_utf8(out.stdout)?)
    }

    fn guest_digests(&self, dir: &str) -> Result<String> {
        // Nothing comes from the cache.
        self.guest(&format!(
            "sync; echo 3 > /proc/sys/vm/drop_caches; cd {dir}; find . -type f | xargs sha256sum | sort -k2"
        ))
    }

    /// Copies a tree of files of many sizes, the largest of `mebibytes`, to the server and back.
    fn tree_both_ways(&self, mebibytes: u32) -> Result<()> {
        let make = format!(
            "rm -rf /tmp/from /tmp/back {MOUNTED}/tree; mkdir -p /tmp/from/a/b; cd /tmp/from; : > empty; printf x > a/one
             head -c 4095 /dev/urandom > a/below; head -c 4096 /dev/urandom > a/b/page; head -c 4097 /dev/urandom > above
             head -c 1048576 /dev/urandom > a/mebibyte; ln -s ../one a/b/link
             head -c {} /dev/urandom > large; chmod 640 a/one; touch -t 202001020304 a/b/page",
            mebibytes << 20
        );
        self.guest(&make)?;
        self.guest(&format!("cp -a /tmp/from {MOUNTED}/tree; sync"))?;
        let sent = self.guest_digests("/tmp/from")?;
        ensure!(sent.lines().count() == 7, "the tree is not whole: {sent}");
        let here = self.digests("tree")?;
        ensure!(here == sent, "the server's files differ\n{sent}{here}");
        let page = std::fs::metadata(self.export.join("tree/a/b/page"))?;
        let age = page.modified()?.elapsed()?;
        ensure!(age > Duration::from_secs(86_400 * 365), "the time of a file did not come along");
        let link = std::fs::read_link(self.export.join("tree/a/b/link"))?;
        ensure!(link == Path::new("../one"), "{}", link.display());
        let seen = self.guest_digests(&format!("{MOUNTED}/tree"))?;
        ensure!(seen == sent, "the client reads other bytes\n{sent}{seen}");
        self.guest(&format!("cp -a {MOUNTED}/tree /tmp/back; cmp /tmp/from/large /tmp/back/large"))?;
        let modes = self.guest("cd /tmp/back; stat -c '%a %s' a/one large; readlink a/b/link")?;
        ensure!(modes == format!("640 1\n644 {}\n../one\n", mebibytes << 20), "{modes}");
        Ok(())
    }

    fn names(&self) -> Result<()> {
        let many = self.export.join("many");
        std::fs::create_dir(&many)?;
        let entries = if table::all() { ENTRIES.1 } else { ENTRIES.0 };
        for number in 0..entries {
            std::fs::write(many.join(format!("an entry with a name of some length {number:05}")), b"")?;
        }
        let script = format!(
            "cd {MOUNTED}; test $(ls many | wc -l) = {entries}; test $(ls -l many | grep -c 'length') = {entries}
             mkdir d; echo first > d/f; echo second >> d/f; mv d/f d/g; mv d e; ln e/g e/hard; test $(stat -c %h e/g) = 2
             printf '0123456789' > e/t; truncate -s 4 e/t; test \"$(cat e/t)\" = 0123; truncate -s 100000 e/t
             ln -s /a/{} e/long; readlink e/long | wc -c; mkfifo e/pipe; test -p e/pipe
             rm e/hard; ! rmdir e 2>/dev/null; ! cat e/hard 2>/dev/null; chmod 600 e/g; df -k . | tail -1; rm -r many",
            "x".repeat(900)
        );
        let text = self.guest(&script)?;
        ensure!(text.contains("904"), "the long link is cut: {text}");
        ensure!(!many.exists(), "the directory was not removed");
        let here = std::fs::read_to_string(self.export.join("e/g"))?;
        ensure!(here == "first\nsecond\n", "{here}");
        let len = std::fs::metadata(self.export.join("e/t"))?.len();
        ensure!(len == 100_000, "{len}");
        // Changes of others appear: the client looks again when the attributes' time is over.
        std::fs::write(self.export.join("e/g"), "third\n")?;
        let seen = self.guest(&format!("sleep 4; cat {MOUNTED}/e/g; rm -r {MOUNTED}/e"))?;
        ensure!(seen == "third\n", "{seen}");
        Ok(())
    }

    fn exercise(&self, seed: u32, operations: u32) -> Result<()> {
        let text = self.guest(&format!("exercise {MOUNTED}/exercise {seed} {operations}"))?;
        ensure!(text.contains("operations agree"), "{text}");
        Ok(())
    }

    /// Copies and random accesses while our end loses packets. rxe itself may stop then ([`Peer::rxe_stopped`]); that is
    /// no result.
    fn with_loss(&self, seed: u32, options: &str) -> Result<()> {
        let mut tries = 1;
        loop {
            let trace = self.peer.lab().file(&format!("packets-{seed}-{tries}"));
            let traced = format!("{},packet", trace.display());
            let faults = format!("loss=1%,seed={seed}");
            let server = self.serve_with(&[], &[("WEFT_FAULT", &faults), ("WEFT_TRACE", &traced)])?;
            let mut stopped = false;
            let done = self.with_mount_options(options, || {
                let done = self.tree_both_ways(2).and_then(|()| self.exercise(seed, 100));
                stopped = done.is_err() && self.peer.rxe_stopped(&trace)?;
                done
            });
            match done {
                Err(_) if stopped && tries < 3 => tries += 1,
                done => {
                    done.with_context(|| server.0.text())?;
                    return server.terminate();
                }
            }
        }
    }

    /// Unmounts by force under a copy, and mounts again.
    fn killed_client(&self, server: &mut Serving) -> Result<()> {
        self.mount("soft,timeo=50,retrans=1")?;
        self.guest("head -c 33554432 /dev/zero > /tmp/zeros")?;
        let copy = self.peer.guest().start(&["sh", "-c", &format!("cp /tmp/zeros {MOUNTED}/zeros")]);
        let begun = server.0.wait_until(LIMIT, |_| self.export.join("zeros").metadata().is_ok_and(|m| m.len() > 0));
        ensure!(begun, "the copy did not begin");
        copy.signal(Signal::KILL);
        self.guest(&format!("umount -f -l {MOUNTED}"))?;
        drop(copy.wait(LIMIT));
        self.with_mount(|| self.guest(&format!("rm {MOUNTED}/zeros; ls {MOUNTED}")).map(drop))?;
        let disconnected = |proc: &Proc| proc.text().matches("disconnected;").count() >= 2;
        ensure!(server.0.wait_until(LIMIT, disconnected), "no line about the end of a client: {}", server.0.text());
        ensure!(server.0.running(), "the server died: {}", server.0.text());
        Ok(())
    }

    /// Kills the server under a copy, and starts it again.
    fn killed_server(&self) -> Result<()> {
        let mut server = self.serve(&[])?;
        self.mount("hard")?;
        self.guest("head -c 50331648 /dev/urandom > /tmp/data")?;
        let copy = self.peer.guest().start(&["sh", "-ec", &format!("cp /tmp/data {MOUNTED}/copied; sync")]);
        let half = |_: &Proc| self.export.join("copied").metadata().is_ok_and(|m| m.len() > 4 << 20);
        ensure!(server.0.wait_until(LIMIT, half), "the copy did not begin");
        server.0.signal(Signal::KILL);
        drop(server.0.wait(STARTS_WITHIN));
        let again = self.serve(&[])?;
        let begun = Instant::now();
        copy.wait(LIMIT).success().with_context(|| again.0.text())?;
        table::note(&format!("kernel peer, NFS: the copy ended {} s after the restart", begun.elapsed().as_secs()));
        let (sent, here) =
            (self.guest("sha256sum < /tmp/data")?, self.guest(&format!("sha256sum < {MOUNTED}/copied"))?);
        ensure!(sent == here, "{sent}{here}");
        self.guest(&format!("rm {MOUNTED}/copied"))?;
        self.unmount()?;
        again.terminate()
    }

    fn read_only(&self) -> Result<()> {
        std::fs::write(self.export.join("there"), "text")?;
        let server = self.serve(&["--read-only"])?;
        self.with_mount(|| {
            let text = self.guest(&format!(
                "cat {MOUNTED}/there; ! echo x > {MOUNTED}/there; ! rm {MOUNTED}/there; ! mkdir {MOUNTED}/new"
            ))?;
            // ACCESS denies the first, the server the others.
            let refusals = ["Permission denied", "Read-only file system"].map(|why| text.matches(why).count());
            ensure!(text.starts_with("text") && refusals == [1, 2], "{text}");
            Ok(())
        })?;
        server.terminate()
    }

    fn users(&self) -> Result<()> {
        if !self.peer.lab().has_two_users() {
            return Ok(());
        }
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let open = self.export.join("open");
        std::fs::create_dir(&open)?;
        std::fs::set_permissions(&open, PermissionsExt::from_mode(0o1777))?;
        std::fs::write(self.export.join("secret"), "x")?;
        std::fs::set_permissions(self.export.join("secret"), PermissionsExt::from_mode(0o600))?;
        let export = self.export.display().to_string();
        let server = self.serve_words(&["--export", &export], &[])?;
        self.with_mount(|| {
            let text = self.guest(&format!(
                "echo r > {MOUNTED}/open/root; ! cat {MOUNTED}/secret
                 setpriv --reuid=65534 --regid=65534 --clear-groups sh -c 'umask 222; echo n > {MOUNTED}/open/locked; cat {MOUNTED}/open/locked'"
            ))?;
            ensure!(text.contains("Permission denied") && text.ends_with("n\n"), "{text}");
            Ok(())
        })?;
        for name in ["root", "locked"] {
            let uid = std::fs::metadata(open.join(name))?.uid();
            ensure!(uid == 65534, "{name} belongs to {uid}");
        }
        server.terminate()
    }

    /// All users of the client are the user that runs the server.
    fn ordinary(&self) -> Result<()> {
        if !self.peer.lab().has_two_users() {
            return Ok(());
        }
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let theirs = self.export.join("theirs");
        std::fs::create_dir(&theirs)?;
        std::fs::set_permissions(&theirs, PermissionsExt::from_mode(0o777))?;
        let server = self.serve_as(Who::Ordinary, &["--export", &theirs.display().to_string()], &[])?;
        self.with_mount(|| {
            let text = self.guest(&format!(
                "echo root > {MOUNTED}/f; chmod 600 {MOUNTED}/f; ! chown 7 {MOUNTED}/f
                 setpriv --reuid=65534 --regid=65534 --clear-groups sh -c 'echo n > {MOUNTED}/g; ls {MOUNTED}'"
            ))?;
            ensure!(text.ends_with("f\ng\n"), "{text}");
            Ok(())
        })?;
        let uids = ["f", "g"].map(|name| std::fs::metadata(theirs.join(name)).map(|found| found.uid()).unwrap_or(0));
        ensure!(uids[0] != 0 && uids[0] == uids[1], "the files belong to {uids:?}");
        server.terminate()
    }

    /// Mounts a directory of the guest's own server through the gateway.
    fn gateway(&self, options: &str) -> Result<()> {
        let backend = format!("{}:2049", weft_interop::guest_peer::GUEST_V4);
        self.start_nfsd()?;
        let server = self.serve_words(&["--backend", &backend], &[])?;
        let mount = format!("mount.nfs {}:/srv {MOUNTED} -o {options},port={NFS_PORT}", self.address());
        self.guest(&mount)?;
        let steps = || -> Result<()> {
            let is_rdma = format!("grep ' {MOUNTED} ' /proc/mounts | grep -q proto=rdma");
            self.guest(&format!("{is_rdma}; {}", tree_and_long_directory()))?;
            self.exercise(21, 150)
        };
        let done = steps();
        self.guest(&format!("umount {} {MOUNTED}", if done.is_ok() { "" } else { "-f -l" }))?;
        done.with_context(|| server.0.text())?;
        server.terminate()
    }

    /// Starts Linux's server for /srv in the guest, over TCP, once.
    fn start_nfsd(&self) -> Result<()> {
        self.guest(
            "test -e /tmp/nfsd && exit; mkdir -p /srv /var/lib/nfs/v4recovery /run/rpc_pipefs /run/rpcbind
             mount -t tmpfs tmpfs /srv; grep -q ' /proc/fs/nfsd ' /proc/mounts || mount -t nfsd nfsd /proc/fs/nfsd
             echo '_rpc:x:106:65534::/run/rpcbind:/bin/false' >> /etc/passwd; rpcbind
             : > /var/lib/nfs/etab; : > /var/lib/nfs/rmtab
             echo '/srv *(rw,no_root_squash,insecure,fsid=7,no_subtree_check)' > /etc/exports; exportfs -ra
             echo '+3 +4 +4.0 +4.1' > /proc/fs/nfsd/versions; echo 'tcp 2049' > /proc/fs/nfsd/portlist
             echo 4 > /proc/fs/nfsd/threads; echo Y > /proc/fs/nfsd/v4_end_grace
             rpc.mountd -p 20048 > /tmp/mountd 2>&1; : > /tmp/nfsd",
        )
        .map(drop)
    }
}
