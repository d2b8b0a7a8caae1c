//! Hosts whose addresses, links, routes, daemons and programs come and go while reliable connections carry data: the
//! data is right, nothing hangs, connections continue once the network is back, and those to a killed program end as
//! with an adapter. `cargo xtask test --soak ROUNDS` (or WEFT_SOAK=ROUNDS) runs more than a sample; WEFT_SOAK_SEED
//! repeats a run.

#[path = "soak/flows.rs"]
mod flows;
#[path = "soak/outages.rs"]
mod outages;

use anyhow::{Context, Result, ensure};
use flows::{Fate, Flow, PLANS, Survivor};
use outages::{Lots, Outage, happen};
use std::process::Command;
use std::time::{Duration, Instant};
use weft_interop::{Lab, Shape, Table, skip, table};

/// Rounds of a sample.
const SAMPLE: u32 = 10;
const QUICK: u32 = 3;
/// Rounds of a single kind of outage, and the increase of their local ACK timeouts: a peer that waits for a processor
/// is not unreachable.
const ALIKE: u32 = 4;
const PATIENCE: u32 = 3;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/soak/traffic.c");
const NEEDED: &[&str] = &["ip", "cc", "/usr/include/infiniband/verbs.h"];

#[test]
fn connections_survive_what_comes_back() {
    if !skip::have("connections_survive_what_comes_back", NEEDED) {
        return;
    }
    let lab = Lab::new(Shape::Two { mtu: 1500 }).expect("a lab");
    let program = compile(&lab).expect("traffic.c compiles");
    let mut table = Table::new("outages");
    for outage in [Outage::Address, Outage::Link, Outage::Route] {
        table.case(&format!("{outage:?}"), || {
            let mut soak = Soak::new(&lab, &program, u64::from(std::process::id()));
            soak.patience = PATIENCE;
            (0..ALIKE).try_for_each(|_| soak.round(&[outage]))?;
            soak.finish().map(drop)
        });
    }
    table.finish();
}

#[test]
fn soak() {
    if !skip::have("soak", NEEDED) {
        return;
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let rounds = number("WEFT_SOAK").map_or(if table::quick() { QUICK } else { SAMPLE }, |rounds| rounds as u32);
    let seed = number("WEFT_SOAK_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let lab = Lab::new(Shape::Two { mtu: 1500 }).expect("a lab");
    let program = compile(&lab).expect("traffic.c compiles");
    let mut table = Table::new("soak");
    table.case(&format!("{rounds} rounds, WEFT_SOAK_SEED={seed}"), || {
        let mut soak = Soak::new(&lab, &program, seed);
        for round in 0..rounds {
            let menu = [Outage::Address, Outage::Link, Outage::Route, Outage::Daemon, Outage::Peer];
            let mut these = vec![soak.lots.one(&menu)];
            if soak.lots.below(3) == 0 {
                these.push(soak.lots.one(&menu));
            }
            soak.round(&these).with_context(|| format!("round {round}, {these:?}"))?;
        }
        table::note(&soak.finish()?);
        Ok(())
    });
    table.finish();
}

fn compile(lab: &Lab) -> Result<String> {
    let program = lab.file("traffic");
    let built = Command::new("cc").args(["-O2", "-o"]).arg(&program).args([SOURCE, "-libverbs"]).status();
    ensure!(built.context("cc runs")?.success(), "traffic.c does not compile");
    Ok(program.to_str().context("the lab's path is not UTF-8")?.to_owned())
}

/// Running programs, and their results so far.
struct Soak<'a> {
    lab: &'a Lab,
    program: &'a str,
    lots: Lots,
    flows: Vec<Option<Flow>>,
    survivors: Vec<Survivor>,
    started: u32,
    rounds: u32,
    killed: u32,
    survived: u32,
    /// Pairs that ended because an outage outlasted their timeouts.
    broken: u32,
    /// Pairs that ended although the network came back in time, with the reason.
    ended: Vec<String>,
    patience: u32,
    since: Instant,
}

impl Soak<'_> {
    fn new<'a>(lab: &'a Lab, program: &'a str, seed: u64) -> Soak<'a> {
        Soak {
            lab,
            program,
            lots: Lots(seed),
            flows: PLANS.iter().map(|_| None).collect(),
            survivors: Vec::new(),
            started: 0,
            rounds: 0,
            killed: 0,
            survived: 0,
            broken: 0,
            ended: Vec::new(),
            patience: 0,
            since: Instant::now(),
        }
    }

    /// Starts the missing pairs, causes outages, and judges the running pairs.
    fn round(&mut self, outages: &[Outage]) -> Result<()> {
        self.revive()?;
        self.carry(Duration::ZERO)?;
        self.revive()?;
        let began = Instant::now();
        for &outage in outages {
            self.flows.iter_mut().flatten().for_each(Flow::mark);
            happen(self.lab, &mut self.lots, outage)?;
            if outage == Outage::Peer {
                let nth = self.lots.below(self.flows.len() as u64) as usize;
                let first = self.lots.below(2) == 0;
                if let Some(flow) = self.flows[nth].take() {
                    self.survivors.push(flow.kill(first));
                    self.killed += 1;
                }
            }
        }
        self.flows.iter_mut().flatten().for_each(Flow::mark);
        self.survived += self.carry(began.elapsed())?;
        for mut survivor in std::mem::take(&mut self.survivors) {
            if survivor.has_ended()? {
                survivor.finish()?;
            } else {
                self.survivors.push(survivor);
            }
        }
        self.rounds += 1;
        Ok(())
    }

    /// Starts the missing pairs; one pair of three has a lossy network.
    fn revive(&mut self) -> Result<()> {
        for (nth, plan) in PLANS.iter().enumerate() {
            if self.flows[nth].is_none() {
                let seed = self.lots.below(1 << 30);
                let patience = if plan.fragile { 0 } else { self.patience };
                let faults = if seed.is_multiple_of(3) { format!("loss=1%,seed={seed}") } else { String::new() };
                self.flows[nth] = Some(Flow::start(self.lab, self.program, plan, &faults, patience)?);
                self.started += 1;
            }
        }
        Ok(())
    }

    /// Waits until every pair has carried data since its last mark; the network was cut for `cut` since then. Returns
    /// how many have.
    fn carry(&mut self, cut: Duration) -> Result<u32> {
        let mut carried = 0;
        for flow in &mut self.flows {
            let Some(running) = flow.take() else { continue };
            match running.carries(cut)? {
                Fate::Carries(running) => {
                    *flow = Some(*running);
                    carried += 1;
                }
                Fate::Broken => self.broken += 1,
                Fate::Ended(how) => self.ended.push(how),
            }
        }
        Ok(carried)
    }

    /// Ends everything and returns the statistics. No connection may have ended early.
    fn finish(mut self) -> Result<String> {
        while let Some(mut survivor) = self.survivors.pop() {
            while !survivor.has_ended()? {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            survivor.finish()?;
        }
        let pairs: Result<Vec<u64>> = self.flows.drain(..).flatten().map(Flow::stop).collect();
        let figures = format!(
            "soak: {} rounds in {:.0} s, {} pairs started, {} outages survived, {} programs killed, {} pairs outlasted by \
             an outage, {} ended early, 0 data errors; {} messages checked by the last pairs",
            self.rounds,
            self.since.elapsed().as_secs_f32(),
            self.started,
            self.survived,
            self.killed,
            self.broken,
            self.ended.len(),
            pairs?.iter().sum::<u64>(),
        );
        let ended = self.ended.join("\n");
        ensure!(self.ended.is_empty(), "connections ended although the network came back in time: {figures}\n{ended}");
        Ok(figures)
    }
}
