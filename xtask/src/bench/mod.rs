//! `cargo xtask bench`: the product beside its peers, in the same run and the same namespaces.
//!
//! Each measure is a case: ours and every peer take turns, several times, and the medians are compared. A figure
//! without a peer's figure from the same minute says more about the machine than about the product.

mod between_hosts;
mod case;
mod cases;
mod cmtime;
mod cores;
mod guest;
mod guest_pong;
mod idle;
mod ip;
mod iwarp;
mod machine;
pub mod peers;
mod perftest;
mod plot;
mod program;
mod report;
mod room;
mod row;
mod sa_rate;
mod sleeps;
mod smp_rate;
mod statistics;
mod storage;
mod subnet;
mod sweep;
mod table;
mod unit;

use crate::packages;
use anyhow::{Result, bail};
use case::Case;
use cores::Cores;
use machine::Machine;
use report::Report;
use room::{Place, Room};
use std::path::PathBuf;
use sweep::Panel;
use weft_interop::product;

/// Seconds of each bandwidth run in a sweep, which has many.
const SWEEP_SECONDS: u32 = 1;
/// Turns and seconds of a quick run.
const QUICK: (usize, u32) = (1, 2);
/// Minimum run time: perftest drops the start and the end of a timed run, and something must remain.
const SECONDS_MIN: u32 = 2;

/// Options of the benchmark.
#[derive(clap::Args)]
pub struct Options {
    /// List the cases, their peers and goals; measure nothing.
    #[arg(long)]
    list: bool,
    /// Run only cases and sweeps whose place and name contain this text (`same host: ib_write_bw 1 MiB`). Large subnets
    /// take many minutes; only a filter that matches them (`ibsim, large`) runs them.
    #[arg(long)]
    filter: Option<String>,
    /// Set the number of turns of each case; the median counts.
    #[arg(long, default_value_t = 3)]
    turns: usize,
    /// Set the seconds of each timed run.
    #[arg(long, default_value_t = 3)]
    seconds: u32,
    /// Run one turn of two seconds, four sizes in the sweeps, and no guest unless the filter asks for it.
    #[arg(long)]
    quick: bool,
    /// Write everything as JSON to a file; without a file, to standard output instead of the table.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Set the plot's file (default: target/bench/weft.svg).
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Skip the sweeps by message size, and so the plot.
    #[arg(long)]
    no_plot: bool,
    /// Fail if a goal is missed.
    #[arg(long)]
    check: bool,
    /// Let the scheduler choose the cores.
    #[arg(long)]
    no_pin: bool,
    /// Measure the existing build, with the installed programs.
    #[arg(long)]
    no_build: bool,
}

/// Builds, measures, reports.
pub fn run(options: &Options) -> Result<()> {
    let plan = Plan::new(options)?;
    if options.list {
        print!("{}", plan.list());
        return Ok(());
    }
    if !options.no_build {
        packages::programs()?;
        packages::peers();
        crate::cargo::run(&["build", "--profile", product::SHIPPED], &[])?;
    }
    product::select_profile(product::SHIPPED);
    let report = plan.measure();
    match &options.json {
        Some(path) => report.write_json(path)?,
        None => println!(),
    }
    if options.json.as_ref().is_none_or(|path| path.as_os_str() != "-") {
        print!("{}", report.markdown());
    }
    if !report.sweeps.is_empty() {
        let path = options.plot.clone().unwrap_or_else(|| product::target().join("bench/weft.svg"));
        report.write_plot(&path)?;
        eprintln!("\nbandwidth and latency by message size: {}", path.display());
    }
    let (goals, missed) = report.goals();
    if goals > 0 {
        eprintln!("{} of {goals} goals reached", goals - missed);
    }
    if options.check && missed > 0 {
        bail!("{missed} of {goals} goals missed");
    }
    Ok(())
}

/// The plan of a run.
struct Plan {
    cases: Vec<&'static Case>,
    panels: Vec<&'static Panel>,
    sizes: &'static [u64],
    turns: usize,
    seconds: u32,
    cores: Option<Cores>,
    built: bool,
}

impl Plan {
    fn new(options: &Options) -> Result<Plan> {
        let (turns, seconds) = if options.quick { QUICK } else { (options.turns, options.seconds) };
        if turns == 0 || seconds < SECONDS_MIN {
            bail!("at least one turn and {SECONDS_MIN} seconds");
        }
        let cores = if options.no_pin { None } else { Cores::choose() };
        if cores.is_none() && !options.no_pin {
            eprintln!(
                "This machine has no two cores: programs that poll wait for each other, and figures mean little."
            );
        }
        let wanted = |place: Place, name: &str| {
            let whole = format!("{}: {name}", place.name());
            let unasked =
                options.quick && matches!(place, Place::Guest { .. } | Place::Storage) || place.is_on_demand();
            let asked = |text: &String| !place.is_on_demand() || text.contains(&place.name());
            options.filter.as_ref().map_or(!unasked, |text| whole.contains(text.as_str()) && asked(text))
        };
        let cases: Vec<_> = cases::all().filter(|case| wanted(case.place, case.name)).collect();
        let panels = sweep::ALL.iter().filter(|panel| !options.no_plot && wanted(panel.place, panel.name));
        let panels: Vec<_> = panels.collect();
        if cases.is_empty() && panels.is_empty() {
            bail!("no case matches the filter; `cargo xtask bench --list` shows all");
        }
        let sizes = if options.quick { sweep::SIZES_QUICK } else { sweep::SIZES };
        Ok(Plan { cases, panels, sizes, turns, seconds, cores, built: !options.no_build })
    }

    /// Lists the cases in words.
    fn list(&self) -> String {
        let mut text = String::new();
        for case in &self.cases {
            text += &format!("{}: {}\n    {}\n", case.place.name(), case.name, case.ours.command(self.seconds));
            if let Some(aim) = case.aim {
                text += &format!("    wanted {}\n", aim.words(|figure| case.ours.unit().show(figure)));
            }
            for rival in case.rivals {
                let wanted = rival.wanted.map(|w| format!(", wanted {}", w.words(|b| format!("{b}"))));
                let program = rival.program;
                let missing = program.missing().map(|package| format!(" (not installed: apt install {package})"));
                let (wanted, missing) = (wanted.unwrap_or_default(), missing.unwrap_or_default());
                text += &format!("    beside {}: {}{wanted}{missing}\n", program.name(), program.command(self.seconds));
            }
        }
        for panel in &self.panels {
            let names: Vec<_> = panel.series.iter().map(|series| series.name).collect();
            text += &format!("{}: {}\n    {}\n", panel.place.name(), panel.name, names.join("; "));
        }
        text
    }

    /// Measures every case and sweep, one place after another.
    fn measure(&self) -> Report {
        let mut machine = Machine::look(self.built);
        let (mut rows, mut sweeps) = (Vec::new(), Vec::new());
        for place in Place::ALL {
            let cases: Vec<_> = self.cases.iter().filter(|case| case.place == place).collect();
            let panels: Vec<_> = self.panels.iter().filter(|panel| panel.place == place).collect();
            if cases.is_empty() && panels.is_empty() {
                continue;
            }
            let mut room = match self.enter(place) {
                Ok(room) => room,
                Err(error) => {
                    eprintln!("{}: {error:#}", place.name());
                    rows.extend(cases.iter().map(|case| case.impossible(&format!("{error:#}"), self.seconds)));
                    continue;
                }
            };
            if let Some(kernel) = room.kernel() {
                machine.guest = Some(kernel.to_owned());
            }
            for case in cases {
                eprintln!("{}: {} ...", place.name(), case.name);
                rows.push(case.hold(&room, self.turns));
            }
            room.seconds = SWEEP_SECONDS;
            for panel in panels {
                eprintln!("{} ...", panel.name);
                sweeps.push(panel.sweep(&room, self.sizes, self.turns));
            }
        }
        machine.look_again();
        let (turns, seconds, pinned) = (self.turns, self.seconds, self.cores.is_some());
        Report { machine, turns, seconds, pinned, rows, sweeps }
    }

    fn enter(&self, place: Place) -> Result<Room> {
        if let Some(why) = place.obstacle() {
            bail!("{why}");
        }
        Room::enter(place, self.cores, self.seconds)
    }
}
