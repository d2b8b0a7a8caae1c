//! perftest between two virtual hosts of an InfiniBand fabric, by LID, compared with two programs on one host.

use super::perftest::Perftest;
use super::program::{Program, figure_of, unless_installed, words};
use super::room::Room;
use super::unit::Unit;
use anyhow::{Result, ensure};
use std::time::Duration;
use weft_interop::{Fabric, pair::DEFAULT_PORT};

/// Two hosts on one switch.
const NETWORK: &[&str] = &["--star", "2"];
const SERVER: &str = "node1";
const CLIENT: &str = "node2";

/// Time limit for the server to start listening.
const LISTENS_WITHIN: Duration = Duration::from_secs(15);

/// A tool of perftest, each end on a host of its own.
#[derive(Clone, Copy, Debug)]
pub struct BetweenHosts {
    pub of: Perftest,
}

impl BetweenHosts {
    fn line(&self, seconds: u32) -> String {
        format!("{} {} -d weft0 -F", self.of.tool, self.of.arguments(seconds))
    }
}

impl Program for BetweenHosts {
    fn name(&self) -> String {
        format!("{} between two virtual hosts", self.of.name())
    }

    fn command(&self, seconds: u32) -> String {
        let network = NETWORK.join(" ");
        format!("weft up {network}; weft run --host {CLIENT} -- {} SERVER", self.line(seconds))
    }

    fn unit(&self) -> Unit {
        self.of.unit()
    }

    fn missing(&self) -> Option<&'static str> {
        unless_installed("opensm", "opensm").or(self.of.missing())
    }

    fn measure(&self, room: &Room) -> Result<f64> {
        let lab = room.lab()?;
        let fabric = Fabric::up(lab, NETWORK)?;
        let _opensm = fabric.opensm(SERVER, "minhop")?;
        fabric.wait("all links active", |state| state["links"]["active"] == 2)?;
        let start = |host: &str, words: &[String]| {
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            lab.start_line(&fabric.words(host, &words)?, &[])
        };
        let line = words(&self.line(room.seconds));
        let mut server = start(SERVER, &room.on_server_core(&line))?;
        ensure!(server.wait_listening(DEFAULT_PORT, LISTENS_WITHIN), "no server: {}", server.kill().report());
        let client = [line, vec!["127.0.0.1".to_owned()]].concat();
        figure_of(start(CLIENT, &room.on_client_core(&client))?, room.seconds, |text| self.of.column.read(text))
    }
}
