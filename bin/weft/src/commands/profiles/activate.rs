//! Carries out plans: activations of profiles, their ends, and new names.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use weft_tool::fabric::spell;

use super::plan::{self, Activation, Obstacle};
use super::profile::{Profile, Transport};
use super::session::{Active, Session, Stored};
use super::step::Step;
use crate::commands::ip::original;
use crate::commands::run::interfaces::set_mode;

/// Time limit for a change to be seen, by the daemon and in /sys.
const SEEN_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Why a profile was not activated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// No interface fits.
    Obstacle(Obstacle),
    /// A step failed; the text names it and the reason.
    Step(String),
}

impl From<String> for Failure {
    fn from(text: String) -> Failure {
        Failure::Step(text)
    }
}

/// Activates a profile: ends the activation of another one on the same interface first.
///
/// # Errors
/// No interface fits, or a step failed. The steps before it are undone.
pub fn activate(session: &mut Session, profile: &Profile) -> Result<(Activation, Active), Failure> {
    let first = plan::activation(profile, &session.seen()?).map_err(Failure::Obstacle)?;
    let all = session.profiles()?;
    let number = all.iter().filter_map(|one| Some(one.active.as_ref()?.number)).max().unwrap_or_default() + 1;
    let ends = |one: &&Stored| {
        let is_on_it = |active: &Active| active.interface == first.interface || one.profile.uuid == profile.uuid;
        one.active.as_ref().is_some_and(is_on_it)
    };
    for one in all.iter().filter(ends) {
        deactivate(session, one)?;
    }
    let planned = plan::activation(profile, &session.seen()?).map_err(Failure::Obstacle)?;
    if let Err(failure) = carry_out(session, &planned.steps) {
        let Activation { interface, parent, makes_child, kept, .. } = &planned;
        for step in plan::deactivation(profile, interface, parent.as_deref(), *makes_child, kept) {
            let _ = run(session, &step, Stdio::null());
        }
        return Err(Failure::Step(failure));
    }
    await_attributes(&planned.interface, Some(profile.transport));
    let interfaces = session.interfaces()?;
    let ifindex = interfaces.iter().find(|one| one.name == planned.interface).map(|one| one.ifindex);
    let ifindex = ifindex.ok_or_else(|| format!("{} has gone again", planned.interface))?;
    let active = Active {
        number,
        ifindex,
        interface: planned.interface.clone(),
        made_child: planned.makes_child,
        kept: planned.kept.clone(),
        applied: profile.clone(),
    };
    session.set_active(&active)?;
    Ok((planned, active))
}

/// Ends the activation of a profile. A step whose object has gone already does not fail.
///
/// # Errors
/// The daemon refuses it.
pub fn deactivate(session: &mut Session, stored: &Stored) -> Result<(), String> {
    let Some(active) = &stored.active else { return Ok(()) };
    let seen = session.seen()?;
    let parent = seen.iter().find(|one| one.name == active.interface).and_then(|one| one.parent.clone());
    let Active { interface, made_child, kept, applied, .. } = active;
    for step in plan::deactivation(applied, interface, parent.as_deref(), *made_child, kept) {
        let done = run(session, &step, Stdio::null());
        if matches!(step, Step::DeleteChild { .. }) {
            done?;
        }
    }
    session.set_inactive(&stored.profile.uuid)
}

/// Carries out steps in their order.
///
/// # Errors
/// The first step that fails, with the reason. A link that was switched off for it is on again.
pub fn carry_out(session: &mut Session, steps: &[Step]) -> Result<(), String> {
    for (number, step) in steps.iter().enumerate() {
        if let Err(why) = run(session, step, Stdio::piped()) {
            for step in plan::restoration(steps, number) {
                let _ = run(session, &step, Stdio::null());
            }
            return Err(why);
        }
    }
    Ok(())
}

fn run(session: &mut Session, step: &Step, errors: Stdio) -> Result<(), String> {
    let failed = |why: String| format!("{step}: {why}");
    match step {
        Step::AddChild { parent, p_key, name } => {
            session.client().add_ipoib_child(parent, *p_key, Some(name)).map_err(|error| failed(spell(error)))
        }
        Step::DeleteChild { parent, p_key, .. } => {
            session.client().delete_ipoib_child(parent, *p_key).map_err(|error| failed(spell(error)))
        }
        Step::SetMode { interface, mode } => {
            let all = session.interfaces()?;
            let found = all.iter().find(|one| one.name == *interface);
            let found = found.ok_or_else(|| failed("the interface has gone".to_owned()))?;
            set_mode(session.client(), found, mode.name()).map_err(|error| failed(spell(error)))
        }
        Step::Rename { to, .. } => {
            run_ip(step, errors).map_err(failed)?;
            await_name(session, to).map_err(failed)?;
            await_attributes(to, None);
            Ok(())
        }
        _ => run_ip(step, errors).map_err(failed),
    }
}

/// Runs the step as a command of the system's `ip`.
fn run_ip(step: &Step, errors: Stdio) -> Result<(), String> {
    let words: Vec<_> = step.words().into_iter().map(Into::into).collect();
    let started = original(&words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn();
    let start_failed = |error| format!("{}; install iproute2", crate::errno::text(&error));
    let output = started.and_then(std::process::Child::wait_with_output).map_err(start_failed)?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(text.trim().trim_start_matches("RTNETLINK answers: ").to_owned())
}

/// Waits until the daemon knows an interface by its new name.
fn await_name(session: &mut Session, name: &str) -> Result<(), String> {
    let until = Instant::now() + SEEN_WITHIN;
    while !session.interfaces()?.iter().any(|one| one.name == name) {
        if Instant::now() > until {
            return Err("the daemon does not see the new name".to_owned());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Waits until this command's view of /sys, if it shows attributes of IPoIB interfaces, shows those of this one, with its
/// mode: scripts read them after the command.
fn await_attributes(name: &str, mode: Option<Transport>) {
    let until = Instant::now() + SEEN_WITHIN;
    let class = Path::new("/sys/class/net");
    let read = |name: &Path| fs::read_to_string(class.join(name).join("mode")).ok();
    let is_shown =
        || read(Path::new(name)).is_some_and(|shown| mode.is_none_or(|mode| shown.trim_end() == mode.name()));
    let all = || fs::read_dir(class).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let shows_any = || all().any(|one| read(Path::new(&one)).is_some());
    while !is_shown() && shows_any() && Instant::now() < until {
        std::thread::sleep(LOOK_EVERY);
    }
}
