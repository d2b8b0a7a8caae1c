//! `weft nfs mount` by FUSE against `weft nfs serve`, in two namespaces with a cable: as root and as an ordinary user, with
//! loss, with ends that are killed.
//!
//! Each mount lives in the mount namespace of the shell that makes it. Data is compared by sha256 on both sides.
//! `WEFT_ALL=1` makes the files larger and the random accesses longer.

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use weft_interop::proc::Proc;
use weft_interop::{Lab, Shape, Table, Who, product, skip, table};

const EXERCISE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernel_peer_nfs/exercise.c");
const LIMIT: Duration = Duration::from_secs(120);
const STARTS_WITHIN: Duration = Duration::from_secs(30);
/// Size of the largest file in mebibytes: by default, and of all tests.
const LARGE: (u32, u32) = (16, 256);

#[test]
fn a_mount_by_fuse() {
    let name = "a_mount_by_fuse";
    if !skip::have(name, &["ip", "cc", "git", "fusermount3"]) {
        return;
    }
    if !Path::new("/dev/fuse").exists() {
        return skip::skip(name, "no /dev/fuse");
    }
    let sides = Sides::new().expect("two namespaces");
    let mut table = Table::new("NFS mount by FUSE");
    let server = sides.serve(Who::Root, &sides.export, &[]).expect("a server");
    table.case("a tree goes both ways", || sides.tree(Who::Root, "", if table::all() { LARGE.1 } else { LARGE.0 }));
    table.case("names, links, sizes and a long directory", || sides.names());
    table.case("random accesses equal a copy in memory", || {
        sides.exercise("", 5, if table::all() { 3000 } else { 400 })
    });
    table.case("short transfers, without a cache", || sides.exercise("noac,rsize=8192,wsize=8192", 6, 150));
    table.case("git clones into it", || sides.git());
    table.case("fio verifies what parallel writers wrote", || sides.fio());
    table.case("parallel readers", || sides.readers());
    table.case("a file that is removed stays for programs that have it open", || sides.removed());
    table.case("a client that is killed leaves a directory that umount cleans", || sides.killed_client());
    table.case("an ordinary user mounts", || sides.tree(Who::Ordinary, "", 2));
    table.case("SIGTERM unmounts", || sides.terminated());
    server.kill();
    table.case("1% loss", || sides.loss());
    table.case("a server that is killed comes back under a copy", || sides.killed_server());
    table.case("a soft mount fails when the server is away", || sides.soft());
    table.case("an ordinary user's server", || sides.ordinary());
    table.case("what cannot be mounted has a reason", || sides.reasons());
    table.finish();
}

/// The two ends.
struct Sides {
    lab: Lab,
    export: PathBuf,
    exercise: PathBuf,
    weft: String,
}

impl Sides {
    fn new() -> Result<Sides> {
        let lab = Lab::new(Shape::Two { mtu: 9000 })?;
        let (export, exercise) = (lab.file("export"), lab.file("exercise"));
        std::fs::create_dir(&export)?;
        open_to_all(&export)?;
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-Werror", "-O1", "-o"]).arg(&exercise).arg(EXERCISE);
        ensure!(cc.status().context("cc runs")?.success(), "exercise.c does not compile");
        let weft = product::weft()?.display().to_string();
        Ok(Sides { lab, export, exercise, weft })
    }

    /// Starts a server.
    fn serve(&self, who: Who, export: &Path, env: &[(&str, &str)]) -> Result<Proc> {
        let export = export.display().to_string();
        let words = [&self.weft[..], "nfs", "serve", "--export", &export, "--no-root-squash"];
        let mut proc = self.lab.start_line(&self.lab.bare(self.lab.server(), who, &words), env)?;
        let listens = proc.wait_until(STARTS_WITHIN, |proc| proc.text().contains("listening on port"));
        ensure!(listens, "the server does not listen: {}", proc.text());
        Ok(proc)
    }

    /// Starts a shell script on the client's side. `$W` is the command, `$S` what is mounted, `$M` where; `up` mounts and
    /// `down` unmounts.
    fn start(&self, who: Who, options: &str, script: &str, env: &[(&str, &str)]) -> Result<Proc> {
        let (server, mounted) = (self.lab.server().v4, self.mounted(who));
        let mounted = mounted.display();
        let options = if options.is_empty() { "hard" } else { options };
        let whole = format!(
            "W={}; S={server}:/; M={mounted}; mkdir -p $M; up() {{ $W nfs mount $S $M -o {options}; }}; down() {{ $W nfs umount $M; }}
             {script}",
            self.weft
        );
        self.lab.start_line(&self.lab.bare(self.lab.client(), who, &["bash", "-ec", &whole]), env)
    }

    /// Runs a script with the mount to success, and returns its output.
    fn run(&self, who: Who, options: &str, script: &str) -> Result<String> {
        let whole = format!(
            "up; trap 'umount -l $M 2>/dev/null || fusermount3 -uz $M' EXIT; {script}\ncd /; down; trap - EXIT"
        );
        let ended = self.start(who, options, &whole, &[])?.wait(LIMIT).success()?;
        Ok(ended.text)
    }

    /// Returns the directory of a user's mounts: fusermount3 mounts on a user's own directories only.
    fn mounted(&self, who: Who) -> PathBuf {
        self.lab.file(&format!("mounted-{who:?}"))
    }

    fn tree(&self, who: Who, options: &str, mebibytes: u32) -> Result<()> {
        let from = self.lab.file(&format!("from-{who:?}"));
        let (from, name) = (from.display(), format!("tree-{who:?}"));
        let text = self.run(
            who,
            options,
            &format!(
                "rm -rf {from} $M/{name}; mkdir -p {from}/a/b; cd {from}; : > empty; printf x > a/one
                 head -c 4095 /dev/urandom > a/below; head -c 4096 /dev/urandom > a/b/page
                 head -c 4097 /dev/urandom > above; head -c 1048576 /dev/urandom > a/mebibyte; ln -s ../one a/b/link
                 head -c {} /dev/urandom > large; chmod 640 a/one; touch -t 202001020304 a/b/page
                 cp -a {from} $M/{name}; diff -r {from} $M/{name}
                 down; up; cd $M/{name}; diff -r {from} .; stat -c '%a %s %Y' a/one a/b/page; readlink a/b/link
                 find . -type f | sort | xargs sha256sum > {from}.sums; findmnt -no FSTYPE,SOURCE $M || true",
                mebibytes << 20
            ),
        )?;
        ensure!(text.contains("640 1 ") && text.contains(" 4096 15779") && text.contains("../one"), "{text}");
        ensure!(text.contains("fuse.nfs 10.77.0.2:/"), "{text}");
        let check = format!("cd {}/{name} && sha256sum --quiet -c {from}.sums", self.export.display());
        let out = Command::new("sh").args(["-ec", &check]).output()?;
        ensure!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
        Ok(())
    }

    fn names(&self) -> Result<()> {
        let many = self.export.join("many");
        std::fs::create_dir(&many)?;
        for number in 0..if table::all() { 5000 } else { 300 } {
            std::fs::write(many.join(format!("an entry with a name of some length {number:05}")), b"")?;
        }
        let text = self.run(
            Who::Root,
            "acregmin=1,acregmax=1",
            &format!(
                "cd $M; n=$(ls {many} | wc -l); test $(ls many | wc -l) = $n; test $(ls -l many | grep -c length) = $n
                 mkdir d; echo first > d/f; echo second >> d/f; mv d/f d/g; mv d e; ln e/g e/hard; test $(stat -c %h e/g) = 2
                 printf '0123456789' > e/t; truncate -s 4 e/t; test \"$(cat e/t)\" = 0123; truncate -s 100000 e/t
                 ln -s /a/{} e/long; readlink e/long | wc -c; mkfifo e/pipe; test -p e/pipe
                 rm e/hard; ! rmdir e 2>/dev/null; ! cat e/hard 2>/dev/null; chmod 600 e/g; df -k . | tail -1
                 test $(stat -c %a e/g) = 600; ! mkdir e 2>/dev/null; ( set -C; ! : > e/t ) 2>/dev/null
                 echo third > {export}/e/g; sleep 2; cat e/g; rm -r many e; ! test -e e",
                "x".repeat(900),
                many = many.display(),
                export = self.export.display(),
            ),
        )?;
        ensure!(text.contains("904") && text.contains("third"), "{text}");
        ensure!(!many.exists(), "the directory was not removed");
        Ok(())
    }

    fn exercise(&self, options: &str, seed: u32, operations: u32) -> Result<()> {
        let exercise = self.exercise.display();
        let text = self.run(Who::Root, options, &format!("{exercise} $M/exercise-{seed} {seed} {operations}"))?;
        ensure!(text.contains("operations agree"), "{text}");
        Ok(())
    }

    fn git(&self) -> Result<()> {
        let (origin, root) = (self.lab.file("origin"), product::root());
        let origin = origin.display();
        let text = self.run(
            Who::Root,
            "",
            &format!(
                "export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*' HOME=/tmp
                 export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
                 git init -q {origin}; cp -a {root}/docs {origin}; cd {origin}; git add .
                 git commit -qm one; git clone -q {origin} $M/clone; cd $M/clone; git fsck 2>&1 | grep -v dangling || true
                 test -z \"$(git status --porcelain)\"; echo more >> docs/nfs.md; git commit -qam two
                 git gc -q; git log --oneline | wc -l; diff -r --no-dereference -x .git -x nfs.md {origin} .",
                root = root.display()
            ),
        )?;
        ensure!(text.trim_end().ends_with('2'), "{text}");
        Ok(())
    }

    fn fio(&self) -> Result<()> {
        if skip::on_path("fio").is_none() {
            return Ok(());
        }
        let size = if table::all() { 64 } else { 8 };
        let text = self.run(
            Who::Root,
            "",
            &format!(
                "cd $M; fio --name=v --directory=$M --size={size}m --numjobs=3 --rw=randwrite --bs=4k-256k --verify=sha256 \
                 --do_verify=1 --verify_fatal=1 --end_fsync=1 --ioengine=psync --group_reporting 2>&1 | grep 'err='"
            ),
        )?;
        ensure!(text.contains("err= 0"), "{text}");
        Ok(())
    }

    fn readers(&self) -> Result<()> {
        let size = if table::all() { 128 } else { 16 };
        let data = self.export.join("shared");
        let make = format!("head -c {}M /dev/urandom > {}", size, data.display());
        ensure!(Command::new("sh").args(["-ec", &make]).status()?.success(), "no data");
        let begun = Instant::now();
        let text = self.run(
            Who::Root,
            "",
            "for n in 1 2 3 4; do (tail -c +$((n * 1000)) $M/shared | sha256sum) > /dev/null & done; sha256sum < $M/shared; wait",
        )?;
        let here = Command::new("sha256sum").stdin(std::fs::File::open(&data)?).output()?;
        ensure!(text.contains(String::from_utf8(here.stdout)?.trim()), "{text}");
        table::note(&format!("NFS mount: {size} MiB and four readers in {:.1} s", begun.elapsed().as_secs_f64()));
        std::fs::remove_file(data)?;
        Ok(())
    }

    fn removed(&self) -> Result<()> {
        let text = self.run(
            Who::Root,
            "",
            "cd $M; echo kept > open; exec 3<>open; rm open; ! test -e open; cat <&3; echo more >&3; ls -A | grep -c '^.nfs'
             echo new > target; exec 4<target; echo other > source; mv source target; cat <&4; cat target
             exec 3<&- 4<&-; sleep 1; ! ls -A | grep '^.nfs'; rm target",
        )?;
        ensure!(text == "kept\n1\nnew\nother\n", "{text}");
        Ok(())
    }

    fn killed_client(&self) -> Result<()> {
        let ended = self.start(
            Who::Root,
            "",
            "$W nfs mount --foreground $S $M & pid=$!; until mountpoint -q $M; do sleep 0.1; done
             head -c 50000000 /dev/zero > $M/zeros & sleep 0.3; kill -9 $pid; wait $pid || true; wait || true
             ! ls $M; umount $M; up; rm -f $M/zeros; ls $M > /dev/null; fusermount3 -u $M; echo cleaned",
            &[],
        )?;
        let ended = ended.wait(LIMIT).success()?;
        ensure!(ended.text.contains("not connected") && ended.text.contains("cleaned"), "{}", ended.text);
        Ok(())
    }

    fn terminated(&self) -> Result<()> {
        let script = "$W nfs mount --foreground $S $M & pid=$!; until mountpoint -q $M; do sleep 0.1; done
             kill $pid; wait $pid; ! mountpoint -q $M; echo ended";
        let ended = self.start(Who::Root, "", script, &[])?.wait(LIMIT).success()?;
        ensure!(ended.text.contains("ended"), "{}", ended.text);
        Ok(())
    }

    fn loss(&self) -> Result<()> {
        let faults = "loss=1%,seed=7";
        let server = self.serve(Who::Root, &self.export, &[("WEFT_FAULT", faults)])?;
        let done = self.tree(Who::Root, "", 4).and_then(|()| self.exercise("rsize=65536,wsize=65536", 8, 150));
        done.with_context(|| server.text())?;
        server.kill();
        Ok(())
    }

    /// Kills the server under a copy, and starts it again.
    fn killed_server(&self) -> Result<()> {
        let mut server = self.serve(Who::Root, &self.export, &[])?;
        let data = self.lab.file("data");
        let script = format!(
            "up; head -c {} /dev/urandom > {data}; cp {data} $M/copied; down; up; cmp {data} $M/copied; rm $M/copied; down",
            if table::all() { 512 << 20 } else { 96 << 20 },
            data = data.display()
        );
        let copy = self.start(Who::Root, "", &script, &[])?;
        let half = |_: &Proc| self.export.join("copied").metadata().is_ok_and(|m| m.len() > 8 << 20);
        ensure!(server.wait_until(LIMIT, half), "the copy did not begin: {}", copy.text());
        server.signal(Signal::KILL);
        drop(server.wait(STARTS_WITHIN));
        std::thread::sleep(Duration::from_secs(1));
        let again = self.serve(Who::Root, &self.export, &[])?;
        copy.wait(LIMIT).success().with_context(|| again.text())?;
        again.kill();
        Ok(())
    }

    fn soft(&self) -> Result<()> {
        let server = self.serve(Who::Root, &self.export, &[])?;
        let script = "up; ls $M > /dev/null; echo mounted; until test -e $M.gone; do sleep 0.1; done; ! ls $M; umount $M; echo done";
        let mut client = self.start(Who::Root, "soft,timeo=5,retrans=1,actimeo=0", script, &[])?;
        ensure!(client.wait_until(LIMIT, |proc| proc.text().contains("mounted")), "{}", client.text());
        server.kill();
        std::fs::write(self.lab.file("mounted-Root.gone"), "")?;
        let ended = client.wait(LIMIT).success()?;
        ensure!(ended.text.contains("Input/output error") && ended.text.contains("done"), "{}", ended.text);
        Ok(())
    }

    fn ordinary(&self) -> Result<()> {
        let export = self.lab.file("theirs");
        std::fs::create_dir(&export)?;
        open_to_all(&export)?;
        let server = self.serve(Who::Ordinary, &export, &[])?;
        let done = self.run(Who::Ordinary, "", "cd $M; mkdir d; echo text > d/f; chmod 600 d/f; cat d/f; rm -r d");
        let text = done.with_context(|| server.text())?;
        ensure!(text.contains("text"), "{text}");
        server.kill();
        Ok(())
    }

    fn reasons(&self) -> Result<()> {
        let failed = |script: &str| -> Result<String> {
            let ended = self.start(Who::Root, "", script, &[])?.wait(LIMIT);
            ensure!(!ended.ok(), "{}", ended.text);
            Ok(ended.text)
        };
        let text = failed("$W nfs mount $S $M -o sweet")?;
        ensure!(text.contains("option `sweet`: unknown option"), "{text}");
        let text = failed("$W nfs mount $S /nowhere")?;
        ensure!(text.contains("No such file"), "{text}");
        let text = failed("$W nfs mount $S $M")?;
        ensure!(text.contains("no connection over RDMA"), "{text}");
        let server = self.serve(Who::Root, &self.export, &[])?;
        let text = failed("$W nfs mount ${S}missing $M")?;
        ensure!(text.contains("/missing: No such file"), "{text}");
        server.kill();
        Ok(())
    }
}

fn open_to_all(dir: &Path) -> Result<()> {
    Ok(std::fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o1777))?)
}
