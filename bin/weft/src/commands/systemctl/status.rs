//! Output of `systemctl status`, `is-active` and their kind.

use std::fmt::Write as _;
use std::path::Path;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use weft_ipc::Client;

use super::process;
use super::record::{self, Run};
use super::unit::Unit;
use crate::commands::sm::service;

/// Exit code for a unit that is not active, as systemctl(1) has it.
const NOT_ACTIVE: u8 = 3;

/// State of a unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    pub active: Active,
    /// In seconds since the epoch.
    pub since: Option<i64>,
    /// Processes that run for it.
    pub processes: Vec<u32>,
    /// Its last run, if it ends at once.
    pub run: Option<Run>,
    pub enabled: Enabled,
    /// Last lines of its log.
    pub log: Vec<String>,
}

/// ActiveState and SubState.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Active {
    Running,
    Exited,
    Reached,
    Failed,
    Inactive,
}

impl Active {
    /// Whether the unit is active.
    pub fn is_active(self) -> bool {
        matches!(self, Active::Running | Active::Exited | Active::Reached)
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Active::Running => ("active", "running"),
            Active::Exited => ("active", "exited"),
            Active::Reached => ("active", "active"),
            Active::Failed => ("failed", "failed"),
            Active::Inactive => ("inactive", "dead"),
        }
    }

    fn dot(self) -> char {
        match self {
            Active::Running | Active::Exited | Active::Reached => '●',
            Active::Failed => '×',
            Active::Inactive => '○',
        }
    }
}

/// Whether a unit starts at boot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Enabled {
    Yes,
    No,
    /// Other units start it.
    Static,
}

impl Enabled {
    fn word(self) -> &'static str {
        match self {
            Enabled::Yes => "enabled",
            Enabled::No => "disabled",
            Enabled::Static => "static",
        }
    }
}

/// Finds the state of a unit, with so many lines of its log.
///
/// # Errors
/// The text is for the user.
pub fn of(client: &mut Client, unit: &Unit, lines: u32) -> Result<State, String> {
    let kept = record::read(client, unit)?;
    let mut state = State {
        active: Active::Inactive,
        since: None,
        processes: Vec::new(),
        run: None,
        enabled: Enabled::Static,
        log: Vec::new(),
    };
    match unit {
        Unit::Manager => {
            let managers = process::managers(client)?;
            state.processes = managers.iter().filter_map(|one| one.pid).collect();
            state.since = state.processes.iter().filter_map(|pid| process::started(*pid)).min();
            if let Some(first) = managers.first() {
                state.active = Active::Running;
                let log = if lines == 0 { String::new() } else { service::log(first.guid, lines).unwrap_or_default() };
                state.log = log.lines().map(str::to_owned).collect();
            }
            // `weft up` starts a manager unasked.
            let enabled = kept.enabled.unwrap_or(!managers.is_empty());
            state.enabled = if enabled { Enabled::Yes } else { Enabled::No };
        }
        Unit::Hardware if !process::ports(client)?.is_empty() => state.active = Active::Reached,
        Unit::Hardware => {}
        Unit::LoadModules(_) | Unit::ModulesAtBoot => {
            let Some(run) = kept.run else { return Ok(state) };
            state.active = if run.code == 0 { Active::Exited } else { Active::Failed };
            state.since = Some(run.at);
            let skipped = run.log.len().saturating_sub(lines as usize);
            state.log = run.log[skipped..].to_vec();
            state.run = Some(run);
        }
    }
    Ok(state)
}

/// Prints the units' states in systemd's form. Returns the exit code.
///
/// # Errors
/// The text is for the user.
pub fn print(client: &mut Client, units: &[Unit], lines: u32) -> Result<u8, String> {
    let all = if units.is_empty() { known(client)? } else { units.to_vec() };
    let (mut code, now) = (0, Timestamp::now().as_second());
    for (number, unit) in all.iter().enumerate() {
        let state = of(client, unit, lines)?;
        if !units.is_empty() && !state.active.is_active() && code == 0 {
            code = NOT_ACTIVE;
        }
        let separator = if number == 0 { "" } else { "\n" };
        crate::output::print(&format!("{separator}{}", text(unit, &state, now, &TimeZone::system())));
    }
    Ok(code)
}

/// The state of a unit in systemd's form.
fn text(unit: &Unit, state: &State, now: i64, zone: &TimeZone) -> String {
    let (active, sub) = state.active.words();
    let mut text = format!("{} {} - {}\n", state.active.dot(), unit.name(), unit.description());
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:>11}: {value}");
    };
    line("Loaded", format!("loaded ({}; {})", source(unit), state.enabled.word()));
    let result = if state.active == Active::Failed { " (Result: exit-code)" } else { "" };
    let sub = if state.active == Active::Failed { String::new() } else { format!(" ({sub})") };
    line("Active", format!("{active}{sub}{result}{}", since(state.since, now, zone)));
    line("Docs", unit.documentation().to_owned());
    if let Some(run) = &state.run {
        let end = match run.code {
            0 => "(code=exited, status=0/SUCCESS)".to_owned(),
            code => format!("(code=exited, status={code}/FAILURE)"),
        };
        line("Main PID", format!("{} {end}", run.pid));
    }
    for pid in &state.processes {
        line("Main PID", format!("{pid} (weft)"));
    }
    if !state.log.is_empty() {
        text.push('\n');
    }
    for line in &state.log {
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// The unit's file, if a package has installed it.
fn source(unit: &Unit) -> String {
    let name = match unit {
        Unit::LoadModules(_) => "rdma-load-modules@.service".to_owned(),
        unit => unit.name(),
    };
    let directories = ["/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];
    let files = directories.map(|directory| format!("{directory}/{name}"));
    files.into_iter().find(|file| Path::new(file).exists()).unwrap_or_else(|| "Weft".to_owned())
}

/// ` since Fri 2026-11-27 01:00:00 UTC; 5s ago`.
fn since(at: Option<i64>, now: i64, zone: &TimeZone) -> String {
    let Some(time) = at.and_then(|at| Timestamp::from_second(at).ok()) else { return String::new() };
    let at = time.to_zoned(zone.clone());
    format!(" since {}; {} ago", at.strftime("%a %Y-%m-%d %H:%M:%S %Z"), span(now - time.as_second()))
}

/// A span of seconds as systemd prints it: its two largest units.
fn span(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}min {}s", seconds % 60),
        (0, ..) => format!("{hours}h {}min", minutes % 60),
        (1, ..) => format!("1 day {}h", hours % 24),
        _ => format!("{days} days {}h", hours % 24),
    }
}

/// The host's units: those that are always there, and those that ran.
fn known(client: &mut Client) -> Result<Vec<Unit>, String> {
    let mut all = record::with_runs(client)?;
    all.extend([Unit::Hardware, Unit::Manager]);
    Ok(all)
}

/// Prints a line for each unit.
///
/// # Errors
/// The text is for the user.
pub fn list(client: &mut Client) -> Result<(), String> {
    let mut rows = Vec::new();
    for unit in known(client)? {
        let (active, sub) = of(client, &unit, 0)?.active.words();
        rows.push((unit.name(), active, sub, unit.description()));
    }
    let width = rows.iter().map(|row| row.0.len()).max().unwrap_or_default();
    crate::outln!("  {:width$} LOAD   ACTIVE   SUB     DESCRIPTION", "UNIT");
    for (name, active, sub, description) in rows {
        crate::outln!("  {name:width$} loaded {active:8} {sub:7} {description}");
    }
    Ok(())
}

/// `is-active`: succeeds if one of the units is.
///
/// # Errors
/// The text is for the user.
pub fn is_active(client: &mut Client, units: &[Unit], quiet: bool) -> Result<u8, String> {
    let found = print_words(client, units, quiet, |state| state.active.words().0, |state| state.active.is_active())?;
    Ok(if found { 0 } else { NOT_ACTIVE })
}

/// `is-failed`: succeeds if one of the units is.
///
/// # Errors
/// The text is for the user.
pub fn is_failed(client: &mut Client, units: &[Unit], quiet: bool) -> Result<u8, String> {
    let failed = |state: &State| state.active == Active::Failed;
    Ok(u8::from(!print_words(client, units, quiet, |state| state.active.words().0, failed)?))
}

/// `is-enabled`: succeeds if one of the units is, or is started by others.
///
/// # Errors
/// The text is for the user.
pub fn is_enabled(client: &mut Client, units: &[Unit], quiet: bool) -> Result<u8, String> {
    let enabled = |state: &State| state.enabled != Enabled::No;
    Ok(u8::from(!print_words(client, units, quiet, |state| state.enabled.word(), enabled)?))
}

/// Prints a word for each unit. Returns whether one of them is wanted.
fn print_words(
    client: &mut Client,
    units: &[Unit],
    quiet: bool,
    word: fn(&State) -> &'static str,
    is_wanted: impl Fn(&State) -> bool,
) -> Result<bool, String> {
    let mut found = false;
    for unit in units {
        let state = of(client, unit, 0)?;
        found |= is_wanted(&state);
        if !quiet {
            crate::outln!("{}", word(&state));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_printed_as_systemd_s() {
        let unit = Unit::LoadModules("weft-test".to_owned());
        let run = Run { at: 1_000_000_000, pid: 17, code: 0, log: vec!["Inserted module 'ib_ipoib'".to_owned()] };
        let mut state = State {
            active: Active::Exited,
            since: Some(run.at),
            processes: Vec::new(),
            log: run.log.clone(),
            run: Some(run),
            enabled: Enabled::Static,
        };
        let text_of = |state: &State| text(&unit, state, 1_000_000_090, &TimeZone::UTC);
        let lines = text_of(&state);
        let lines: Vec<&str> = lines.lines().collect();
        assert_eq!(
            (lines[0], lines[2], lines[4], lines[6]),
            (
                "● rdma-load-modules@weft-test.service - Load RDMA modules from /etc/rdma/modules/weft-test.conf",
                "     Active: active (exited) since Sun 2001-09-09 01:46:40 UTC; 1min 30s ago",
                "   Main PID: 17 (code=exited, status=0/SUCCESS)",
                "Inserted module 'ib_ipoib'",
            )
        );
        state.active = Active::Failed;
        assert!(text_of(&state).contains("     Active: failed (Result: exit-code) since Sun"));
        state = State { active: Active::Inactive, since: None, run: None, log: Vec::new(), ..state };
        assert!(text_of(&state).starts_with("○ ") && text_of(&state).contains("Active: inactive (dead)\n"));
    }

    #[test]
    fn spans_have_two_units() {
        for (seconds, expected) in
            [(-1, "0s"), (5, "5s"), (65, "1min 5s"), (3700, "1h 1min"), (90_000, "1 day 1h"), (180_000, "2 days 2h")]
        {
            assert_eq!(span(seconds), expected);
        }
    }
}
