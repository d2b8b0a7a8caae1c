//! SRP on a virtual InfiniBand fabric as administrators use it: Debian's srptools (`ibsrpdm`, `srp_daemon`) find a target of
//! `weft srp target` by the subnet administration and its device management agent, and log in by its service identifier.
//!
//! The judges are srptools, under Weft's subnet manager and under OpenSM, infiniband-diags, `ucmatose` by GID, and nbdcopy.

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use serde_json::Value;
use std::net::Ipv6Addr;
use std::time::{Duration, Instant};
use weft_interop::nbd_host::{LIMIT, STARTS_WITHIN};
use weft_interop::proc::{Ended, Proc};
use weft_interop::{Fabric, Lab, Shape, Table, product, skip};

const TOOLS: &[&str] = &["ibsrpdm", "srp_daemon", "ucmatose", "smpquery", "opensm", "nbdcopy", "cmp", "ip"];
const GUID: &str = "feedfacecafe0001";
const SERVICE: &str = "00000000013f15b3";
const TARGET: &str = "node2";
const INITIATOR: &str = "node1";
const DISK_BYTES: u64 = 8 << 20;
/// Time for the subnet manager to learn of a target.
const SHOWN_WITHIN: Duration = Duration::from_secs(10);

#[test]
fn srptools_on_a_fabric() {
    let name = "srptools_on_a_fabric";
    if !skip::have(name, TOOLS) {
        return;
    }
    let mut table = Table::new("srptools on a virtual fabric");
    let lab = Lab::new(Shape::One).expect("a namespace");
    {
        let fabric = Fabric::managed(&lab, &["--star", "3"]).expect("a fabric");
        let site = Site::new(&lab, &fabric).expect("a disk");
        table.case("ibsrpdm describes the target", || site.described());
        table.case("ibsrpdm -c prints the login that the target prints; it logs in", || site.logs_in());
        table.case("srp_daemon -o -c prints it, srp_daemon -o -e logs in", || site.daemon());
        table.case("the port is found while the target runs, and no longer", || site.ends());
        table.case("refusals have a reason", || site.refusals());
        table.case("programs connect by GID", || site.by_gid());
    }
    table.case("under OpenSM", || {
        let fabric = Fabric::up(&lab, &["--star", "3"])?;
        let mut opensm = fabric.opensm("node3", "minhop")?;
        let done = Site::new(&lab, &fabric).and_then(|site| site.logs_in()).with_context(|| opensm.log());
        opensm.proc.signal(Signal::TERM);
        opensm.proc.wait_until(STARTS_WITHIN, |_| false);
        done
    });
    table.finish();
}

/// A fabric, and a disk for its target.
struct Site<'a> {
    lab: &'a Lab,
    fabric: &'a Fabric<'a>,
    weft: String,
    disk: String,
    /// Directory of the initiator's logins.
    runtime: String,
}

impl<'a> Site<'a> {
    fn new(lab: &'a Lab, fabric: &'a Fabric<'a>) -> Result<Site<'a>> {
        let disk = lab.file("fabric-disk");
        std::fs::File::create(&disk)?.set_len(DISK_BYTES)?;
        let runtime = lab.file("run-srptools");
        std::fs::create_dir_all(&runtime)?;
        let text = |path: &std::path::Path| path.display().to_string();
        Ok(Site { lab, fabric, weft: text(&product::weft()?), disk: text(&disk), runtime: text(&runtime) })
    }

    /// Runs steps while a target serves; the text is what the target printed at its start.
    fn with_target(&self, options: &[&str], steps: impl FnOnce(&str) -> Result<()>) -> Result<()> {
        let words = [&[&self.weft[..], "srp", "target", "--lun", &self.disk, "--guid", GUID], options].concat();
        let mut target = self.lab.start_line(&self.fabric.words(TARGET, &words)?, &[])?;
        let listens = target.wait_until(STARTS_WITHIN, |proc: &Proc| proc.text().contains("listening on port"));
        ensure!(listens, "the target does not listen: {}", target.text());
        let text = target.text();
        let done = self.shown(true).and_then(|()| steps(&text)).with_context(|| target.text());
        target.signal(Signal::TERM);
        done.and(target.wait(STARTS_WITHIN).success().map(drop))
    }

    /// Runs a line of shell as the initiator's host.
    fn run(&self, script: &str) -> Result<Ended> {
        let script = format!("cd {}; W={}; {script}", self.runtime, self.weft);
        let words = self.fabric.words(INITIATOR, &["bash", "-ec", &script])?;
        // Logins by the file add_target have the environment of `weft run`.
        Ok(self.lab.start_line(&words, &[("XDG_RUNTIME_DIR", &self.runtime)])?.wait(LIMIT))
    }

    fn text(&self, script: &str) -> Result<String> {
        Ok(self.run(script)?.success()?.text)
    }

    /// Waits until a query by capability mask finds the target, or no longer does: the subnet manager hears of a change by a
    /// trap.
    fn shown(&self, wanted: bool) -> Result<()> {
        let until = Instant::now() + SHOWN_WITHIN;
        loop {
            let ended = self.run("ibsrpdm")?;
            if ended.text.contains(GUID) == wanted {
                return Ok(());
            }
            ensure!(Instant::now() < until, "ibsrpdm finds the target: {}, not {wanted}: {}", !wanted, ended.report());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn described(&self) -> Result<()> {
        self.with_target(&[], |_| {
            let text = self.text("ibsrpdm")?;
            let service = format!("service[  0]: {SERVICE} / SRP.T10:{GUID}");
            let words = ["max controllers: 0x01", "controller[  1]: present", "IO class : 0100", "service entries: 1"];
            let name = format!("ID:        Weft SRP target {GUID}");
            for word in words.into_iter().skip(2).chain([words[0], &service, &name]) {
                ensure!(text.contains(word), "no `{word}` in {text}");
            }
            let verbose = self.text("srp_daemon -o -a -v")?;
            ensure!(verbose.contains(words[1]), "no `{}` in {verbose}", words[1]);
            Ok(())
        })
    }

    fn logs_in(&self) -> Result<()> {
        self.with_target(&[], |printed| {
            let login = self.text("ibsrpdm -c")?.trim().to_owned();
            ensure!(printed.contains(&format!("log in with {login}\n")), "{login} is not in {printed}");
            ensure!(login.contains(&format!("id_ext={GUID},ioc_guid={GUID},dgid=fe80")), "{login}");
            ensure!(login.contains(&format!("service_id={SERVICE}")), "{login}");
            let text = self.text(&format!("$W srp connect {login}"))?;
            ensure!(text == "device: srp0\n", "{text}");
            self.uses_disk()
        })
    }

    /// Writes the disk of the only login, reads it back, and logs out.
    fn uses_disk(&self) -> Result<()> {
        let disk = self.disks()?.into_iter().next().context("no disk")?;
        ensure!(disk["service_id"] == format!("{:#018x}", u64::from_str_radix(SERVICE, 16)?), "{disk}");
        ensure!(disk["state"] == "live" && disk["bytes"] == DISK_BYTES && disk["port"].is_null(), "{disk}");
        let uri = disk["nbd_uri"].as_str().context("no URI")?;
        let text = self.text(&format!(
            "head -c {DISK_BYTES} /dev/urandom > data; nbdcopy data '{uri}'; nbdcopy '{uri}' back; cmp data back
             cmp data {}; $W srp disconnect srp0",
            self.disk
        ))?;
        ensure!(text.contains("srp0 disconnected"), "{text}");
        Ok(())
    }

    fn disks(&self) -> Result<Vec<Value>> {
        let root: Value = serde_json::from_str(&self.text("$W srp list --json")?)?;
        Ok(root["disks"].as_array().cloned().unwrap_or_default())
    }

    fn daemon(&self) -> Result<()> {
        self.with_target(&[], |printed| {
            let text = self.text("srp_daemon -o -a -c -v")?;
            let login = text.lines().find(|line| line.starts_with("id_ext=")).with_context(|| text.clone())?;
            ensure!(printed.contains(&format!("log in with {login}\n")), "{login} is not in {printed}");
            // With -n the login has an initiator_ext.
            self.text("srp_daemon -o -e -n")?;
            let until = Instant::now() + STARTS_WITHIN;
            while self.disks()?.is_empty() {
                ensure!(Instant::now() < until, "srp_daemon's login has no disk: {}", self.text("$W srp list")?);
                std::thread::sleep(Duration::from_millis(100));
            }
            // A login that exists is not made a second time.
            self.text("srp_daemon -o -e -n; sleep 1")?;
            ensure!(self.disks()?.len() == 1, "{:?}", self.disks()?);
            self.uses_disk()
        })
    }

    fn ends(&self) -> Result<()> {
        const CAPABILITY: &str = "IsDeviceManagementSupported";
        self.with_target(&[], |_| {
            ensure!(self.port_infos()?.contains(CAPABILITY), "no port has the capability");
            Ok(())
        })?;
        self.shown(false)?;
        ensure!(!self.port_infos()?.contains(CAPABILITY), "the capability stays");
        Ok(())
    }

    /// Returns PortInfo of all ports, as infiniband-diags print it: LIDs of so small a fabric are below 6.
    fn port_infos(&self) -> Result<String> {
        self.text("for lid in 1 2 3 4 5; do smpquery portinfo $lid 2>&1 || true; done")
    }

    fn refusals(&self) -> Result<()> {
        self.with_target(&[], |printed| {
            let login = printed.lines().find(|line| line.contains("dgid=")).context("no login by GID")?;
            let login = login.split_once("log in with ").context("no login")?.1;
            let refused = |login: &str, reason: &str| -> Result<()> {
                let ended = self.run(&format!("$W srp connect {login}"))?;
                ensure!(!ended.ok() && ended.text.contains(reason), "no `{reason}`: {}", ended.report());
                Ok(())
            };
            refused(&login.replace("15b3", "15b4"), "does an SRP target listen there?")?;
            refused(
                &login.replace("id_ext=feed", "id_ext=dead"),
                "it is not the target that id_ext and ioc_guid name",
            )?;
            refused(&login.replace("service_id=", "queue_size=3,initiator_ext="), "service_id is missing")?;
            let at = login.find("dgid=").context("no GID")? + "dgid=fe80000000000000".len();
            let of_nobody = format!("{}00000000deadbeef{}", &login[..at], &login[at + 16..]);
            refused(&of_nobody, "the connection failed: Invalid argument")?;
            refused(&login.replace("dgid=fe80", "dgid=fe81"), "unreachable")
        })
    }

    /// `ucmatose` resolves numeric GIDs (`AF_IB`).
    fn by_gid(&self) -> Result<()> {
        let mut gid = String::new();
        self.with_target(&[], |printed| {
            let rest = printed.split_once("dgid=").context("no login by GID")?.1;
            gid = Ipv6Addr::from(u128::from_str_radix(rest.get(..32).context("a GID")?, 16)?).to_string();
            Ok(())
        })?;
        let server =
            self.lab.start_line(&self.fabric.words(TARGET, &["ucmatose", "-f", "gid", "-b", &gid, "-c", "1"])?, &[])?;
        std::thread::sleep(Duration::from_secs(1));
        let client = self.run(&format!("ucmatose -f gid -s {gid} -c 1"))?;
        let server = server.wait(STARTS_WITHIN);
        ensure!(
            client.ok() && client.text.contains("data transfers complete"),
            "{}\n{}",
            client.report(),
            server.report()
        );
        server.success().map(drop)
    }
}
