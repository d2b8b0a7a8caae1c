//! Management datagrams: directed-route SMPs per second served to one client of libibumad, on our fabric and on
//! Debian's ibsim. The client program, the network and the requests are the same.

use super::program::{Program, figure_of, number_before, unless_installed};
use super::room::Room;
use super::unit::Unit;
use anyhow::{Context, Result, ensure};
use std::process::Command;
use weft_interop::{Fabric, IbSim, Lab};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bench/smp_rate.c");

/// The network: small enough for ibsim's tables.
const NETWORK: &[&str] = &["--fat-tree", "8,2"];
const HOST: &str = "node1";
/// ibsim's name for that host, whose NodeDescription also names the adapter.
const HOST_OF_IBSIM: &str = "node1 weft0";
/// The ports on the path: to the switch, and to another host of it.
const ROUTE: &str = "1 2";

/// The fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    Weft,
    IbSim,
}

/// A client with this many outstanding requests.
#[derive(Clone, Copy, Debug)]
pub struct SmpRate {
    pub server: Server,
    pub window: u32,
}

impl SmpRate {
    fn words(&self, program: &str, seconds: u32) -> Vec<String> {
        format!("{program} {seconds} {} {ROUTE}", self.window).split(' ').map(str::to_owned).collect()
    }
}

impl Program for SmpRate {
    fn name(&self) -> String {
        let server = if self.server == Server::Weft { "weft" } else { "ibsim" };
        format!("{server}, {} under way", self.window)
    }

    fn command(&self, seconds: u32) -> String {
        let words = self.words("smp_rate", seconds).join(" ");
        match self.server {
            Server::Weft => format!("weft up {}; weft run --host {HOST} -- {words}", NETWORK.join(" ")),
            Server::IbSim => format!("ibsim -s NET; SIM_HOST='{HOST_OF_IBSIM}' LD_PRELOAD=libumad2sim.so {words}"),
        }
    }

    fn unit(&self) -> Unit {
        Unit::DatagramsPerSecond
    }

    fn missing(&self) -> Option<&'static str> {
        let headers = std::path::Path::new("/usr/include/infiniband/umad.h");
        let ibsim = if self.server == Server::IbSim { unless_installed("ibsim", "ibsim-utils") } else { None };
        unless_installed("cc", "gcc").or((!headers.exists()).then_some("libibumad-dev")).or(ibsim)
    }

    fn measure(&self, room: &Room) -> Result<f64> {
        let lab = room.lab()?;
        let words = room.on_client_core(&self.words(&compile(lab)?, room.seconds));
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let read = |text: &str| number_before(text, "SMPs/sec");
        let fabric = Fabric::up(lab, NETWORK)?;
        if self.server == Server::Weft {
            return figure_of(lab.start_line(&fabric.words(HOST, &words)?, &[])?, room.seconds, read);
        }
        let net = lab.file("smp_rate.net");
        std::fs::write(&net, fabric.weft(&["topology", "--format", "net"])?)?;
        drop(fabric);
        let ibsim = IbSim::start(lab, &net)?;
        figure_of(lab.start_line(&ibsim.words(HOST_OF_IBSIM, &words), &[])?, room.seconds, read)
    }
}

fn compile(lab: &Lab) -> Result<String> {
    let program = lab.file("smp_rate");
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-O2", "-o"]).arg(&program).args([SOURCE, "-libumad"]);
    ensure!(cc.status().context("cc runs")?.success(), "smp_rate.c does not compile");
    Ok(program.to_str().context("the lab's path is not UTF-8")?.to_owned())
}
