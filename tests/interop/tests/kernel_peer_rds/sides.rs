//! Linux's RDS in a guest, and Weft's on the host.

use super::{
    LIMIT, PORT, SIZES, STARTS_WITHIN, all_right, came_back, compile_to, measure, offers_by_socket_options,
    reports_silent_operations, start, stop,
};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::time::Duration;
use weft_interop::guest::{Additions, Driver, GuestProc};
use weft_interop::guest_peer::GUEST_V4;
use weft_interop::proc::{Ended, Proc};
use weft_interop::{Peer, Who, skip, table};

/// MTU of the cable.
const CABLE: u32 = 9000;
/// TCP ports of qperf and of rds-stress.
const QPERF_PORT: u16 = 19765;
const STRESS_PORT: u16 = 4000;
const TALK: &str = "/usr/bin/talk";
const RDMA: &str = "/usr/bin/rdma-talk";
/// Programs of rds-tools that join if they are there.
const RDS_TOOLS: &[&str] = &["rds-ping", "rds-info", "rds-stress"];
/// Time after which an initiator may wait for a completion that Linux has lost; it ends within a few seconds otherwise.
const LOST_AFTER: Duration = Duration::from_secs(10);
/// Looks for such a completion.
const LOST_MAX: u32 = 3;
/// Time within which rxe sends a packet again that was not acknowledged.
const SENDS_AGAIN_WITHIN: Duration = Duration::from_secs(5);
/// Functions of Linux that wait for it.
const LOST_IN: &[&str] = &["rds_ib_unreg_frmr", "rds_ib_reg_frmr"];

/// The guest and the host.
pub struct Sides {
    pub peer: Peer,
    talk: String,
    rdma: String,
}

impl Sides {
    pub fn new() -> Result<Sides> {
        let agent = Path::new(env!("CARGO_BIN_EXE_weft-guest"));
        // Compiled before the guest's image is made, in a directory of its own.
        let dir = std::env::temp_dir().join(format!("weft-rds-{}", std::process::id()));
        std::fs::create_dir_all(&dir)?;
        let programs = ["talk", "rdma"].map(|name| (name, dir.join(name)));
        programs.iter().try_for_each(|(name, program)| compile_to(name, program))?;
        let places = [TALK, RDMA].map(str::to_owned);
        let mut files: Vec<_> = programs.iter().map(|(_, program)| program.clone()).zip(places).collect();
        let tools = RDS_TOOLS.iter().filter_map(|name| skip::on_path(name).map(|path| (path, name)));
        files.extend(tools.map(|(path, name)| (path, format!("/usr/bin/{name}"))));
        let additions = Additions { files: &files, modules: &["rds_rdma"] };
        let peer = Peer::boot_with(agent, Driver::Rxe, additions, CABLE)?;
        let copies = programs.map(|(name, program)| (program, peer.lab().file(name)));
        copies.iter().try_for_each(|(program, copy)| std::fs::copy(program, copy).map(drop))?;
        std::fs::remove_dir_all(&dir)?;
        let [talk, rdma] = copies.map(|(_, copy)| copy.display().to_string());
        let sides = Sides { peer, talk, rdma };
        // The longest datagrams need larger buffers than Linux allows by itself.
        let sizes = "echo 8388608 > /proc/sys/net/core/wmem_max; echo 8388608 > /proc/sys/net/core/rmem_max";
        sides.peer.guest().run(&["sh", "-c", sizes])?.success()?;
        Ok(sides)
    }

    pub fn host(&self) -> &'static str {
        self.peer.lab().client().v4
    }

    pub fn guest_talk(&self, words: &[&str]) -> Result<Ended> {
        let ended = self.peer.guest().start(&[&[TALK], words].concat()).wait(LIMIT);
        ended.success().with_context(|| self.kernel_log())
    }

    pub fn guest_rdma(&self, words: &[&str]) -> Result<Ended> {
        let ended = self.peer.guest().start(&[&[RDMA], words].concat()).wait(LIMIT);
        ended.success().with_context(|| self.kernel_log())
    }

    pub fn host_rdma(&self, words: &[&str]) -> Result<Ended> {
        let ended = self.start_host(&[], &[&[&self.rdma[..]], words].concat())?.wait(LIMIT);
        ended.success().with_context(|| self.kernel_log())
    }

    pub fn guest_is_target(&self, mode: &str) -> Result<()> {
        let target = self.peer.guest().start(&[RDMA, "target", GUEST_V4, PORT]);
        ensure!(target.wait_text(STARTS_WITHIN, |text| text.contains("serving")), "{}", target.text());
        let words = [&self.rdma[..], mode, self.host(), GUEST_V4, PORT];
        let mut initiator = self.start_host(&[], &words)?;
        for _ in 0..LOST_MAX {
            initiator.wait_until(LOST_AFTER, |_| false);
            if initiator.running() {
                self.wake_lost_completion()?;
            }
        }
        let done = initiator.wait(LIMIT).success().with_context(|| self.kernel_log());
        let done = done.with_context(|| target.text())?;
        target.wait(LIMIT).success()?;
        reports_silent_operations(done, mode)
    }

    pub fn host_is_target(&self, mode: &str) -> Result<()> {
        let mut target = self.start_host(&[], &[&self.rdma, "target", self.host(), PORT])?;
        ensure!(target.wait_until(STARTS_WITHIN, |target| target.text().contains("serving")), "{}", target.text());
        let done = self.guest_rdma(&[mode, GUEST_V4, self.host(), PORT]).with_context(|| target.text())?;
        target.wait(LIMIT).success()?;
        offers_by_socket_options(&done)?;
        all_right(done)
    }

    /// Wakes Linux's target if it waits for the completion of a local invalidate. Its RDS (rds_ib_unreg_frmr) and rxe lose one now and
    /// then, with nothing under way on the wire: once in some hundred runs. The next SEND of the queue pair brings it, such as an
    /// answer to a ping. A packet that Weft has lost is another matter: rxe would send again.
    fn wake_lost_completion(&self) -> Result<()> {
        let read = |command: &str| anyhow::Ok(self.peer.guest().run(&["sh", "-c", command])?.success()?.text);
        let sent = || -> Result<u64> {
            Ok(read("cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts")?.trim().parse()?)
        };
        let before = sent()?;
        std::thread::sleep(SENDS_AGAIN_WITHIN);
        let stacks = read("cat /proc/[0-9]*/stack 2> /dev/null || true")?;
        if LOST_IN.iter().any(|function| stacks.contains(function)) && sent()? == before {
            table::note("kernel peer, RDS: Linux waits for a lost completion of its rxe; a ping wakes it");
            self.weft(&[], &["rds", "ping", "-c", "1", GUEST_V4])?;
        }
        Ok(())
    }

    fn kernel_log(&self) -> String {
        self.peer.guest().run(&["sh", "-c", "dmesg | tail -n 15"]).map(|ended| ended.text).unwrap_or_default()
    }

    fn start_host(&self, env: &[(&str, &str)], words: &[&str]) -> Result<Proc> {
        let lab = self.peer.lab();
        start(lab, lab.client(), Who::Root, env, words)
    }

    pub fn host_talk(&self, words: &[&str]) -> Result<Ended> {
        let ended = self.start_host(&[], &[&[&self.talk[..]], words].concat())?.wait(LIMIT);
        ended.success().with_context(|| self.kernel_log())
    }

    fn weft(&self, env: &[(&str, &str)], words: &[&str]) -> Result<Ended> {
        let lab = self.peer.lab();
        lab.weft(lab.client(), Who::Root, env, words)?.success().with_context(|| self.kernel_log())
    }

    pub fn ping(&self) -> Result<()> {
        let text = self.weft(&[], &["rds", "ping", "-c", "3", "-i", "100ms", GUEST_V4])?.text;
        ensure!(text.lines().filter(|line| line.ends_with(" usec")).count() == 3, "{text}");
        let text = self.weft(&[], &["rds", "info", "-n"])?.text;
        let line = text.lines().find(|line| line.contains(GUEST_V4)).context("no connection is listed")?;
        ensure!(line.contains(self.host()) && line.trim_end().ends_with("--C-"), "{text}");
        ensure!(self.kernel_log().contains("version 4.1"), "{}", self.kernel_log());
        Ok(())
    }

    /// Starts a server in the guest; datagrams to a port without a socket are lost.
    fn guest_server(&self, count: usize) -> Result<GuestProc> {
        let server = self.peer.guest().start(&[TALK, "serve", GUEST_V4, PORT, &count.to_string()]);
        ensure!(server.wait_text(STARTS_WITHIN, |text| text.contains("serving")), "{}", server.text());
        Ok(server)
    }

    pub fn guest_serves(&self) -> Result<()> {
        let server = self.guest_server(SIZES.len())?;
        let sent = self.host_talk(&[&["send", self.host(), GUEST_V4, PORT], SIZES].concat());
        let served = server.wait(LIMIT);
        came_back(sent.with_context(|| served.text.clone())?, SIZES.len())
    }

    fn with_host_server(&self, count: usize, steps: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut server = self.start_host(&[], &[&self.talk, "serve", self.host(), PORT, &count.to_string()])?;
        ensure!(server.wait_until(STARTS_WITHIN, |server| server.text().contains("serving")), "{}", server.text());
        steps().with_context(|| server.text())?;
        server.wait(LIMIT).success().map(drop)
    }

    pub fn host_serves(&self) -> Result<()> {
        self.with_host_server(SIZES.len(), || {
            let words = [&["send", GUEST_V4, self.host(), PORT], SIZES].concat();
            came_back(self.guest_talk(&words)?, SIZES.len())
        })
    }

    pub fn bursts(&self) -> Result<()> {
        self.with_host_server(300, || {
            came_back(self.guest_talk(&["burst", GUEST_V4, self.host(), PORT, "300", "20000"])?, 300)
        })?;
        let server = self.guest_server(300)?;
        let sent = self.host_talk(&["burst", self.host(), GUEST_V4, PORT, "300", "20000"]);
        let served = server.wait(LIMIT);
        came_back(sent.with_context(|| served.text.clone())?, 300)
    }

    /// Faults belong to the process that has the queue pairs: the service.
    pub fn lossy(&self) -> Result<()> {
        self.stop()?;
        self.weft(&[("WEFT_FAULT", "loss=1%,seed=5")], &["rds", "start"])?;
        self.host_serves()?;
        self.guest_serves()?;
        self.stop()
    }

    /// The guest keeps its connection's state, and the new service knows nothing of it.
    pub fn starts_again(&self) -> Result<()> {
        self.host_serves()?;
        self.stop()?;
        self.host_serves()?;
        self.stop()?;
        self.guest_serves()
    }

    pub fn qperf(&self) -> Result<()> {
        let server = self.peer.guest().start(&["qperf"]);
        ensure!(server.wait_listening(QPERF_PORT, STARTS_WITHIN), "qperf does not listen");
        let measured = measure(GUEST_V4, |words| Ok(self.start_host(&[], words)?.wait(LIMIT)));
        drop(server);
        measured.with_context(|| self.kernel_log())
    }

    /// Programs of rds-tools, where the PATH has them.
    pub fn rds_tools(&self) -> Result<()> {
        if RDS_TOOLS.iter().any(|name| skip::on_path(name).is_none()) {
            table::note("rds-tools are not installed: rds-ping, rds-info and rds-stress are not run");
            return Ok(());
        }
        let ended = self.start_host(&[], &["rds-ping", "-c", "3", GUEST_V4])?.wait(LIMIT).success()?;
        ensure!(ended.text.lines().filter(|line| line.contains(" usec")).count() == 3, "{}", ended.text);
        let ended = self.peer.guest().start(&["rds-ping", "-c", "3", self.host()]).wait(LIMIT).success()?;
        ensure!(ended.text.lines().filter(|line| line.contains(" usec")).count() == 3, "{}", ended.text);
        let ended = self.start_host(&[], &["rds-info", "-n"])?.wait(LIMIT).success()?;
        ensure!(ended.text.contains(GUEST_V4), "{}", ended.text);
        let words = ["-q", "100000", "-a", "10000", "-t", "1", "-d", "4", "-T", "5"];
        let server = self.peer.guest().start(&["rds-stress", "-r", GUEST_V4]);
        ensure!(server.wait_listening(STRESS_PORT, STARTS_WITHIN), "{}", server.text());
        let client = [&["rds-stress", "-r", self.host(), "-s", GUEST_V4], &words[..]].concat();
        let ended = self.start_host(&[], &client)?.wait(LIMIT);
        drop(server);
        ended.success().with_context(|| self.kernel_log()).map(drop)
    }

    pub fn stop(&self) -> Result<()> {
        let lab = self.peer.lab();
        stop(lab, lab.client(), Who::Root)
    }
}
