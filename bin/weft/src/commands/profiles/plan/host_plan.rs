//! The plan for a whole host: new names of its interfaces by rules, then its profiles, each on the state that the ones before
//! it leave.

use super::super::kernel_state::KernelState;
use super::super::profile::Profile;
use super::super::step::Step;
use super::super::udev::{Attributes, NameRule};
use super::{Activation, SeenInterface, activation};

/// Plans new names by rules: of those that match an interface, the last one counts, as with udev. Changes `seen` to the
/// state afterwards.
///
/// # Errors
/// Two interfaces would have one name.
pub(super) fn renames(rules: &[NameRule], seen: &mut [SeenInterface]) -> Result<Vec<Step>, String> {
    let mut pending: Vec<(usize, String)> = Vec::new();
    for (place, interface) in seen.iter().enumerate().filter(|(_, one)| one.parent.is_none()) {
        let attributes = Attributes { name: &interface.name, address: &interface.address_text, port: interface.port };
        let named = rules.iter().rfind(|rule| rule.matches(&attributes)).map(|rule| rule.name.clone());
        pending.extend(named.filter(|name| *name != interface.name).map(|name| (place, name)));
    }
    let mut steps = Vec::new();
    while !pending.is_empty() {
        // One whose new name is free; a chain of names resolves from its end.
        let free = pending.iter().position(|(_, name)| seen.iter().all(|one| one.name != *name));
        let Some(free) = free else {
            let (place, name) = &pending[0];
            let from = &seen[*place].name;
            return Err(format!(
                "{from} cannot be named {name}: another interface has the name; rename that one first"
            ));
        };
        let (place, to) = pending.remove(free);
        let from = std::mem::replace(&mut seen[place].name, to.clone());
        let was_up = seen[place].is_up;
        for one in seen.iter_mut().filter(|one| one.parent.as_ref() == Some(&from)) {
            one.parent = Some(to.clone());
        }
        // Kernels before 6.2 rename no interface that is on.
        steps.extend(was_up.then(|| Step::SetDown { interface: from.clone() }));
        steps.push(Step::Rename { from, to: to.clone() });
        steps.extend(was_up.then_some(Step::SetUp { interface: to }));
    }
    Ok(steps)
}

/// Changes `seen` to the state after an activation, for the plans of further ones.
pub(super) fn follow(activation: &Activation, profile: &Profile, seen: &mut Vec<SeenInterface>) {
    for step in &activation.steps {
        if let Step::SetUp { interface } = step {
            seen.iter_mut().filter(|one| one.name == *interface).for_each(|one| one.is_up = true);
        }
    }
    let port = seen.iter().find(|one| Some(&one.name) == activation.parent.as_ref());
    if let (true, Some(port), Some((_, p_key, name))) = (activation.makes_child, port, profile.child()) {
        let child = SeenInterface {
            parent: Some(port.name.clone()),
            p_key,
            name,
            is_up: true,
            kernel: KernelState::default(),
            ..port.clone()
        };
        seen.push(child);
    }
}

/// A profile to store, and whether to activate it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The profile.
    pub profile: Profile,
    /// Whether it is to be active; `None`: as it is.
    pub is_up: Option<bool>,
}

/// The wanted state of a profile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Goal {
    /// It is activated.
    Up(Activation),
    /// An activation ends.
    Down,
    /// An activation stays, and none begins.
    AsItIs,
}

/// The plan for a host: rules, then profiles.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostPlan {
    /// New names of interfaces.
    pub renames: Vec<Step>,
    /// Profiles in the order in which they are stored.
    pub profiles: Vec<(Profile, Goal)>,
}

/// Plans what rules and profiles change on a host. Interfaces of ports come before their children.
///
/// # Errors
/// The text names the profile or the interface, and the reason.
pub fn host(rules: &[NameRule], wanted: &[Wanted], seen: &[SeenInterface]) -> Result<HostPlan, String> {
    let mut seen = seen.to_vec();
    let renames = renames(rules, &mut seen)?;
    let mut ordered: Vec<&Wanted> = wanted.iter().collect();
    ordered.sort_by_key(|one| one.profile.child().is_some());
    let mut profiles = Vec::new();
    for Wanted { profile, is_up } in ordered {
        let goal = match is_up {
            None => Some(Goal::AsItIs),
            Some(false) => Some(Goal::Down),
            Some(true) => None,
        };
        if let Some(goal) = goal {
            profiles.push((profile.clone(), goal));
            continue;
        }
        let planned = activation(profile, &seen).map_err(|obstacle| format!("profile {}: {obstacle}", profile.id))?;
        follow(&planned, profile, &mut seen);
        profiles.push((profile.clone(), Goal::Up(planned)));
    }
    Ok(HostPlan { renames, profiles })
}
