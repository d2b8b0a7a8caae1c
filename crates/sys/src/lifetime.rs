//! The end of a process that is not a child: by a process descriptor, or by /proc where a sandbox refuses pidfd_open.

use std::os::fd::OwnedFd;

use crate::pidfd;

/// A process that lived when this was made.
#[derive(Debug)]
pub struct Lifetime {
    number: u32,
    /// Clock ticks from boot to its start. A later process of the same number has another.
    started: u64,
    descriptor: Option<OwnedFd>,
}

impl Lifetime {
    /// The process of this number; `None` if it has ended, or if neither way works here.
    pub fn of(number: u32) -> Option<Lifetime> {
        let descriptor = pidfd::open(number).ok();
        let started = started(number).or(descriptor.is_some().then_some(0))?;
        let lifetime = Lifetime { number, started, descriptor };
        (!lifetime.is_over()).then_some(lifetime)
    }

    /// A descriptor that is readable when the process has ended. Without one, ask [`Lifetime::is_over`] now and then.
    pub fn descriptor(&self) -> Option<&OwnedFd> {
        self.descriptor.as_ref()
    }

    /// Whether the process has ended.
    pub fn is_over(&self) -> bool {
        match &self.descriptor {
            Some(descriptor) => pidfd::is_dead(descriptor),
            None => started(self.number) != Some(self.started),
        }
    }
}

/// Returns a living process, other than this one, whose number `is_wanted` accepts.
pub fn find_another(is_wanted: impl Fn(u32) -> bool) -> Option<Lifetime> {
    let numbers = std::fs::read_dir("/proc").ok()?.flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.filter(|number| *number != std::process::id() && is_wanted(*number)).find_map(Lifetime::of)
}

fn started(number: u32) -> Option<u64> {
    start_in(&std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?)
}

/// The start in /proc/PID/stat; `None` for a process that waits for its parent to collect its status. The name, in
/// brackets, may contain blanks and brackets.
fn start_in(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let is_alive = !matches!(fields.next()?, "Z" | "X");
    // Field 22; the state is field 3.
    is_alive.then(|| fields.nth(18)?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_field_22() {
        let fields: Vec<String> = (4..=40).map(|field| field.to_string()).collect();
        let stat = |state: &str| format!("17 (a) b (c) {state} {}", fields.join(" "));
        assert_eq!(start_in(&stat("S")), Some(22));
        assert_eq!(start_in(&stat("Z")), None);
        assert_eq!(start_in("17 (a"), None);
    }

    #[test]
    fn both_ways_see_the_end() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let by_descriptor = Lifetime::of(child.id()).unwrap();
        let by_proc = Lifetime { descriptor: None, ..Lifetime::of(child.id()).unwrap() };
        assert!(by_descriptor.descriptor().is_some());
        assert!(!by_descriptor.is_over() && !by_proc.is_over());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(by_descriptor.is_over() && by_proc.is_over());
        assert!(Lifetime::of(child.id()).is_none());
    }
}
