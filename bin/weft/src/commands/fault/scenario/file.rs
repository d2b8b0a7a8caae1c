//! A scenario's file: TOML with a seed, defaults of its variables, and steps. Everything that can be wrong with it is
//! found before the first step.

use serde::Deserialize;
use weft_ipc::fabric::{CableChange, FabricRequest, NodeChange};
use weft_link::{FaultPlan, units};
use weft_verbs::Duration;
use weft_verbs::injection::Injection;

use super::super::target::TargetArgs;
use super::pattern::{PATTERNS_MAX, Pattern};
use super::variables::{self, Variables};
use crate::commands::cable::port_name;

/// Latest time and longest duration of a step.
const TIME_MAX: Duration = Duration::from_secs(86_400);
/// Steps of a scenario.
const STEPS_MAX: usize = 1000;
/// Kinds of the program's events that `WEFT_TRACE` knows.
const KINDS: &[&str] = &["state", "post", "cqe", "packet", "loss", "path", "copy", "share", "wake", "fault"];
/// Kinds of events that steps see, unless the scenario says otherwise: those that cost the program little.
const KINDS_SEEN: &str = "state,cqe,loss,path,fault";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    seed: Option<u64>,
    /// Kinds of events that steps see.
    trace: Option<String>,
    /// Read before, by [`variables`].
    #[serde(default, rename = "defaults")]
    _defaults: Variables,
    #[serde(default)]
    step: Vec<RawStep>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawStep {
    name: Option<String>,
    at: Option<String>,
    after: Option<String>,
    struck: Option<String>,
    seen: Option<String>,
    nth: Option<u64>,
    fault: Option<String>,
    #[serde(rename = "for")]
    lasting: Option<String>,
    pid: Option<u32>,
    command: Option<String>,
    device: Option<String>,
    remove: Option<String>,
    cut: Option<String>,
    join: Option<String>,
    off: Option<String>,
    on: Option<String>,
    run: Option<String>,
}

impl RawStep {
    /// The effects that it names; a step has one.
    fn effects(&self) -> impl Iterator<Item = (Effect, &str)> {
        let all = [
            (Effect::Fault, &self.fault),
            (Effect::Remove, &self.remove),
            (Effect::Cut, &self.cut),
            (Effect::Join, &self.join),
            (Effect::Off, &self.off),
            (Effect::On, &self.on),
            (Effect::Run, &self.run),
        ];
        all.into_iter().filter_map(|(effect, text)| Some((effect, text.as_deref()?)))
    }
}

/// An effect, by its key.
enum Effect {
    Fault,
    Remove,
    Cut,
    Join,
    Off,
    On,
    Run,
}

/// The event from which the time of a step counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Trigger {
    /// The begin of the scenario.
    Begin,
    /// Another step, by its place.
    Step(usize),
    /// The first strike of another step's fault.
    Strike(usize),
    /// A line of the program's trace.
    Seen(Pattern),
}

/// The effect of a step.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Action {
    /// Adds a fault, and removes it after a while.
    Add { spec: String, target: TargetArgs, lasting: Option<Duration> },
    /// Removes the fault of another step.
    Remove(usize),
    /// Changes the fabric.
    Fabric(FabricRequest),
    /// Runs a command of the shell, and waits for its end.
    Run(String),
}

impl Action {
    /// Whether it makes faults in packets.
    pub fn damages_packets(&self) -> bool {
        matches!(self, Action::Add { spec, .. } if !Injection::is_meant_by(spec))
    }
}

/// A step.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Step {
    pub trigger: Trigger,
    pub delay: Duration,
    pub action: Action,
    /// The step in the file's words, for its announcement.
    pub text: String,
}

/// A scenario.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Scenario {
    pub steps: Vec<Step>,
    /// Kinds of the program's events that steps see, as `WEFT_TRACE` has them.
    pub kinds: String,
}

impl Scenario {
    /// Returns the patterns that steps wait for, with the steps' places.
    pub fn patterns(&self) -> impl Iterator<Item = (usize, &Pattern)> {
        self.steps.iter().enumerate().filter_map(|(place, step)| match &step.trigger {
            Trigger::Seen(pattern) => Some((place, pattern)),
            _ => None,
        })
    }
}

/// Parses a scenario; `set` are the variables that the user sets.
///
/// # Errors
/// The first thing that is wrong, with the number of its step.
pub(super) fn parse(text: &str, set: &Variables) -> Result<Scenario, String> {
    let table = text.parse::<toml::Table>().map_err(|error| error.to_string().trim_end().to_owned())?;
    let table = variables::replace(table, set)?;
    let file: File = table.try_into().map_err(|error| error.to_string().trim_end().to_owned())?;
    if file.step.is_empty() {
        return Err("the scenario has no [[step]]".to_owned());
    }
    if file.step.len() > STEPS_MAX {
        return Err(format!("{} steps; a scenario has at most {STEPS_MAX}", file.step.len()));
    }
    let read =
        |(place, raw): (usize, &RawStep)| step(&file, place, raw).map_err(|why| format!("step {}: {why}", place + 1));
    let steps = file.step.iter().enumerate().map(read).collect::<Result<Vec<Step>, String>>()?;
    let kinds: Vec<&str> = file.trace.as_deref().unwrap_or(KINDS_SEEN).split(',').map(str::trim).collect();
    let scenario = Scenario { steps, kinds: kinds.join(",") };
    match scenario.patterns().count() {
        0 if file.trace.is_some() => return Err("trace: no step has seen, so no events are read".to_owned()),
        count if count > PATTERNS_MAX => return Err(format!("{count} steps have seen; {PATTERNS_MAX} may have it")),
        _ => {}
    }
    match kinds.into_iter().find(|kind| !KINDS.contains(kind)) {
        Some(kind) => Err(format!("trace: \"{kind}\" is none of {}", KINDS.join(", "))),
        None => Ok(scenario),
    }
}

/// Finds the step with a name. Steps wait for earlier ones alone, so that none waits for ever.
fn earlier(file: &File, place: usize, name: &str) -> Result<usize, String> {
    let found = file.step.iter().take(place).rposition(|step| step.name.as_deref() == Some(name));
    found.ok_or_else(|| format!("no step before it has name = \"{name}\""))
}

fn fault_step(file: &File, place: usize, name: &str) -> Result<usize, String> {
    let found = earlier(file, place, name)?;
    let adds = file.step.get(found).is_some_and(|step| step.fault.is_some());
    if adds { Ok(found) } else { Err(format!("step \"{name}\" adds no fault")) }
}

fn step(file: &File, place: usize, raw: &RawStep) -> Result<Step, String> {
    let parsed = |text: &Option<String>| text.as_deref().map(|text| units::time(text, TIME_MAX)).transpose();
    let trigger = match (&raw.after, &raw.struck, &raw.seen) {
        (None, None, None) => Trigger::Begin,
        (Some(name), None, None) => Trigger::Step(earlier(file, place, name)?),
        (None, Some(name), None) => Trigger::Strike(fault_step(file, place, name)?),
        (None, None, Some(text)) => Trigger::Seen(Pattern::parse(text, raw.nth)?),
        _ => return Err("after, struck and seen exclude each other; make two steps of them".to_owned()),
    };
    if raw.nth.is_some() && raw.seen.is_none() {
        return Err("nth belongs to seen".to_owned());
    }
    let delay = parsed(&raw.at).map_err(|why| format!("at: {why}"))?.unwrap_or_default();
    let lasting = parsed(&raw.lasting).map_err(|why| format!("for: {why}"))?;
    let is_limited = lasting.is_some() || raw.pid.is_some() || raw.command.is_some() || raw.device.is_some();
    if is_limited && raw.fault.is_none() {
        return Err("for, pid, command and device belong to fault".to_owned());
    }
    let (action, text) = action(file, place, raw, lasting)?;
    Ok(Step { trigger, delay, action, text })
}

fn action(file: &File, place: usize, raw: &RawStep, lasting: Option<Duration>) -> Result<(Action, String), String> {
    let mut effects = raw.effects();
    let (Some((effect, text)), None) = (effects.next(), effects.next()) else {
        return Err("one of fault, remove, cut, join, off, on and run is needed".to_owned());
    };
    match effect {
        Effect::Fault => {
            let spec = seeded(text, file.seed, place)?;
            let target = TargetArgs { pid: raw.pid, command: raw.command.clone(), device: raw.device.clone() };
            let (_, text) = target.apply(&spec)?;
            Ok((Action::Add { spec, target, lasting }, text))
        }
        Effect::Remove => Ok((Action::Remove(fault_step(file, place, text)?), format!("end of {text}"))),
        Effect::Cut => cable("cut", text, CableChange::Cut),
        Effect::Join => cable("join", text, CableChange::Join),
        Effect::Off => Ok(node("off", text, NodeChange::Off)),
        Effect::On => Ok(node("on", text, NodeChange::On)),
        Effect::Run => Ok((Action::Run(text.to_owned()), format!("run {text}"))),
    }
}

fn cable(verb: &str, ends: &str, change: CableChange) -> Result<(Action, String), String> {
    let mut words = ends.split_whitespace();
    let a = port_name(words.next().unwrap_or_default())?;
    let b = words.next().map(port_name).transpose()?;
    Ok((Action::Fabric(FabricRequest::Cable { a, b, change }), format!("{verb} {ends}")))
}

fn node(verb: &str, name: &str, change: NodeChange) -> (Action, String) {
    (Action::Fabric(FabricRequest::Node { name: name.to_owned(), change }), format!("{verb} {name}"))
}

/// Checks the specification of a fault, and gives it a seed if it has none and needs one: steps of one scenario differ in theirs.
fn seeded(spec: &str, seed: Option<u64>, place: usize) -> Result<String, String> {
    let mut plan = FaultPlan::default();
    plan.add(1, spec).map_err(|error| error.to_string())?;
    if spec.contains(';') {
        return Err("two faults: make two steps of them".to_owned());
    }
    let has_seed = spec.split(',').any(|part| part.trim_start().starts_with("seed"));
    let is_random = plan.needs_packets() || plan.injections.iter().any(|(_, failure)| failure.scope.chance_ppm > 0);
    Ok(match seed {
        Some(seed) if is_random && !has_seed => format!("{spec},seed={}", seed.wrapping_add(place as u64)),
        _ => spec.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_understood() {
        let steps = parse(
            r#"
            seed = 7
            [[step]]
            name = "loss"
            at = "2s"
            fault = "loss=2%"
            for = "3s"
            command = "ib_write_bw"
            [[step]]
            struck = "loss"
            at = "100ms"
            fault = "event=PORT_ERR,for=1s"
            device = "rxe0"
            [[step]]
            after = "loss"
            remove = "loss"
            [[step]]
            at = "5s"
            cut = "leaf1:3 spine1:1"
            [[step]]
            on = "node3"
            [[step]]
            fault = "status=GENERAL_ERR,chance=1%"
            [[step]]
            run = "ip link set eth1 down"
            "#,
            &Variables::new(),
        )
        .unwrap()
        .steps;
        let triggers: Vec<Trigger> = steps.iter().map(|step| step.trigger.clone()).collect();
        let begin = Trigger::Begin;
        let [first, strike, step, rest @ ..] = &triggers[..] else { panic!("seven steps") };
        assert_eq!([first, strike, step], [&begin, &Trigger::Strike(0), &Trigger::Step(0)]);
        assert!(rest.iter().all(|trigger| *trigger == begin));
        let texts: Vec<&str> = steps.iter().map(|step| step.text.as_str()).collect();
        let (port, random) = ("event=PORT_ERR,for=1s,device=rxe0", "status=GENERAL_ERR,chance=1%,seed=12");
        let (cut, run) = ("cut leaf1:3 spine1:1", "run ip link set eth1 down");
        assert_eq!(texts, ["loss=2%,seed=7", port, "end of loss", cut, "on node3", random, run]);
        assert_eq!(steps[1].delay, Duration::from_millis(100));
        assert!(matches!(&steps[0].action, Action::Add { lasting: Some(time), .. } if time.as_secs() == 3));
    }

    #[test]
    fn a_step_waits_for_a_pattern() {
        let text =
            "[[step]]\nseen = '^state .*to=Rts'\non = \"n\"\n[[step]]\nseen = 'status=\\w+'\nnth = 50\non = \"n\"";
        let scenario = parse(text, &Variables::new()).unwrap();
        let expected = [Pattern::parse("^state .*to=Rts", None), Pattern::parse(r"status=\w+", Some(50))];
        let patterns = scenario.patterns().map(|(place, pattern)| (place, pattern.clone()));
        assert_eq!(
            patterns.collect::<Vec<_>>(),
            expected.map(Result::unwrap).into_iter().enumerate().collect::<Vec<_>>()
        );
        assert_eq!(scenario.kinds, "state,cqe,loss,path,fault");
        let with_kinds = parse(&format!("trace = \" packet, wake\"\n{text}"), &Variables::new()).unwrap();
        assert_eq!(with_kinds.kinds, "packet,wake");
        let many = "[[step]]\nseen = 'x'\non = \"n\"\n".repeat(PATTERNS_MAX + 1);
        assert!(parse(&many, &Variables::new()).unwrap_err().contains("65 steps have seen; 64 may"));
    }

    /// The reference has the kinds that programs trace; a test of theirs compares it, too.
    #[test]
    fn the_kinds_are_those_of_the_reference() {
        let kinds: Vec<String> = KINDS.iter().map(|kind| format!("`{kind}`")).collect();
        let book = include_str!("../../../../../../docs/reference.md");
        assert!(book.contains(&format!("Kinds: {} |", kinds.join(", "))));
    }

    #[test]
    fn mistakes_are_found_before_the_first_step() {
        for (text, part) in [
            ("seed = 1", "no [[step]]"),
            ("[[step]]\nfault = \"loss=1\"", "step 1: loss=1"),
            ("[[step]]\nat = \"2\"\nfault = \"loss=1%\"", "step 1: at: a time needs its unit"),
            ("[[step]]\nfalt = \"loss=1%\"", "unknown field `falt`"),
            ("[[step]]\nfault = \"loss=1%\"\noff = \"node1\"", "one of fault"),
            ("[[step]]\nat = \"1s\"", "one of fault"),
            ("[[step]]\noff = \"node1\"\nfor = \"1s\"", "belong to fault"),
            ("[[step]]\nremove = \"x\"", "no step before it has name = \"x\""),
            (
                "[[step]]\nname = \"x\"\noff = \"n\"\n[[step]]\nstruck = \"x\"\non = \"n\"",
                "step 2: step \"x\" adds no fault",
            ),
            ("[[step]]\nname = \"x\"\nafter = \"x\"\non = \"n\"", "no step before"),
            ("[[step]]\ncut = \"leaf1\"", "an end is NODE:PORT"),
            ("[[step]]\nfault = \"loss=1%;dup=1%\"", "step 1:"),
            (
                "[[step]]\nname = \"x\"\non = \"n\"\n[[step]]\nafter = \"x\"\nseen = \"y\"\non = \"n\"",
                "step 2: after, struck and",
            ),
            ("[[step]]\nseen = \"(\"\non = \"n\"", "step 1: seen: \"(\" is no regular expression"),
            ("[[step]]\nseen = \"x\"\nnth = 0\non = \"n\"", "step 1: nth: 0 is no line"),
            ("[[step]]\nseen = \"x\"\nnth = -1\non = \"n\"", "invalid value: integer `-1`"),
            ("[[step]]\nnth = 2\non = \"n\"", "step 1: nth belongs to seen"),
            ("trace = \"cqe\"\n[[step]]\non = \"n\"", "trace: no step has seen"),
            ("trace = \"cqe,wc\"\n[[step]]\nseen = \"x\"\non = \"n\"", "trace: \"wc\" is none of state, post"),
            ("[[step]]\nfault = \"loss=1%\"\ndevice = \"rxe0\"", "faults in packets"),
        ] {
            let error = parse(text, &Variables::new()).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
