//! Subnet administration: path queries and joins per second that a manager answers through the fabric, for several
//! hosts with many outstanding requests each. The clients are one program of libibumad; ours and OpenSM answer the same
//! requests, on our fabric. The fabric, the manager and the clients share the machine's cores.

use super::program::{Program, number_before, unless_installed};
use super::room::Room;
use super::unit::Unit;
use anyhow::{Context, Result, ensure};
use std::process::Command;
use std::time::Duration;
use weft_interop::manager::WITHIN;
use weft_interop::{Fabric, Lab, Proc, product};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bench/sa_rate.c");

const NETWORK: &[&str] = &["--fat-tree", "8,2"];
/// Hosts and switches of the fabric; each has one LID.
const LIDS: u32 = 32 + 12;
const MANAGER: &str = "node1";
/// Time that a client may take in addition to its run time.
const PATIENCE: Duration = Duration::from_secs(30);

/// The subnet manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sa {
    Weft,
    OpenSm,
}

/// The kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Paths,
    Joins,
}

/// Number of hosts, and of outstanding requests of each.
#[derive(Clone, Copy, Debug)]
pub struct SaRate {
    pub sa: Sa,
    pub asked: Asked,
    pub clients: u32,
    pub window: u32,
}

impl SaRate {
    fn words(&self, program: &str, seconds: u32) -> Vec<String> {
        let line = format!("{program} {} {seconds} {} {LIDS}", self.asked.word(), self.window);
        line.split(' ').map(str::to_owned).collect()
    }

    /// Starts the manager, and waits until it has configured the subnet.
    fn start(&self, fabric: &Fabric<'_>, lab: &Lab) -> Result<Proc> {
        match self.sa {
            Sa::OpenSm => Ok(fabric.opensm(MANAGER, "minhop")?.proc),
            Sa::Weft => {
                let weft = product::weft()?.display().to_string();
                let words = fabric.words(MANAGER, &[&weft, "sm", "--no-config", "-f", "stdout"])?;
                let mut proc = lab.start_line(&words, &[])?;
                let is_up = proc.wait_until(WITHIN, |proc| proc.text().contains("SUBNET UP"));
                ensure!(is_up, "no subnet: {}", proc.kill().report());
                Ok(proc)
            }
        }
    }
}

impl Asked {
    fn word(self) -> &'static str {
        match self {
            Asked::Paths => "paths",
            Asked::Joins => "joins",
        }
    }
}

impl Program for SaRate {
    fn name(&self) -> String {
        let sa = if self.sa == Sa::Weft { "weft sm" } else { "OpenSM" };
        format!("{sa}, {} hosts, {} under way each", self.clients, self.window)
    }

    fn command(&self, seconds: u32) -> String {
        let manager = if self.sa == Sa::Weft { "weft sm" } else { "opensm" };
        let words = self.words("sa_rate", seconds).join(" ");
        format!(
            "weft up --no-sm {}; weft run --host {MANAGER} -- {manager}; for n in 2 to {}: weft run --host node$n -- {words}",
            NETWORK.join(" "),
            self.clients + 1
        )
    }

    fn unit(&self) -> Unit {
        Unit::DatagramsPerSecond
    }

    fn missing(&self) -> Option<&'static str> {
        let headers = std::path::Path::new("/usr/include/infiniband/umad.h");
        let opensm = if self.sa == Sa::OpenSm { unless_installed("opensm", "opensm") } else { None };
        unless_installed("cc", "gcc").or((!headers.exists()).then_some("libibumad-dev")).or(opensm)
    }

    fn measure(&self, room: &Room) -> Result<f64> {
        let lab = room.lab()?;
        let words = self.words(&compile(lab)?, room.seconds);
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let fabric = Fabric::up(lab, NETWORK)?;
        let _manager = self.start(&fabric, lab)?;
        let start = |n| lab.start_line(&fabric.words(&format!("node{}", n + 2), &words)?, &[]);
        let clients = (0..self.clients).map(start).collect::<Result<Vec<_>>>()?;
        let limit = PATIENCE + Duration::from_secs(u64::from(room.seconds));
        let unit = format!("{}/sec", self.asked.word());
        clients.into_iter().try_fold(0.0, |sum, client| {
            let ended = client.wait(limit).success()?;
            Ok(sum + number_before(&ended.text, &unit).with_context(|| format!("no result: {}", ended.report()))?)
        })
    }
}

fn compile(lab: &Lab) -> Result<String> {
    let program = lab.file("sa_rate");
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-O2", "-o"]).arg(&program).args([SOURCE, "-libumad"]);
    ensure!(cc.status().context("cc runs")?.success(), "sa_rate.c does not compile");
    Ok(program.to_str().context("the lab's path is not UTF-8")?.to_owned())
}
