//! Times for which attributes of a file are valid, as nfs(5) has them: short after a change, and longer each time that
//! the file is found unchanged.

use std::time::{Duration, Instant};

use crate::client::{Attributes, FileKind};

/// `acregmin`, `acregmax`, `acdirmin` and `acdirmax`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheTimes {
    /// Shortest and longest time for files.
    pub files: (Duration, Duration),
    /// Shortest and longest time for directories.
    pub directories: (Duration, Duration),
    /// Names are looked up each time (`lookupcache=none`, `noac`).
    pub no_names: bool,
}

impl Default for CacheTimes {
    fn default() -> CacheTimes {
        let seconds = Duration::from_secs;
        CacheTimes { files: (seconds(3), seconds(60)), directories: (seconds(30), seconds(60)), no_names: false }
    }
}

impl CacheTimes {
    fn of(&self, kind: FileKind) -> (Duration, Duration) {
        if kind == FileKind::Directory { self.directories } else { self.files }
    }
}

/// Attributes by which a change is noticed.
type Seen = (u64, (u32, u32), (u32, u32));

/// Age of a file's attributes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Freshness {
    seen: Option<Seen>,
    checked: Option<Instant>,
    valid: Duration,
}

impl Freshness {
    /// Notes attributes from the server. Returns for how long they are valid.
    pub fn note(&mut self, attributes: &Attributes, times: &CacheTimes, now: Instant) -> Duration {
        let (shortest, longest) = times.of(attributes.kind);
        let seen = Some(seen(attributes));
        if self.seen != seen {
            *self = Freshness { seen, checked: Some(now), valid: shortest };
        } else if self.checked.is_none_or(|at| now.saturating_duration_since(at) >= self.valid) {
            *self = Freshness { seen, checked: Some(now), valid: (self.valid * 2).clamp(shortest, longest) };
        }
        self.valid
    }

    /// Notes attributes after a change of this client's own.
    pub fn own_change(&mut self, attributes: &Attributes, times: &CacheTimes, now: Instant) {
        let (shortest, _) = times.of(attributes.kind);
        *self = Freshness { seen: Some(seen(attributes)), checked: Some(now), valid: shortest };
    }

    /// Whether the content is that of the last attributes.
    pub fn is_same(&self, attributes: &Attributes) -> bool {
        let (size, modified, _) = seen(attributes);
        self.seen.is_some_and(|(last, at, _)| (last, at) == (size, modified))
    }
}

fn seen(attributes: &Attributes) -> Seen {
    (attributes.size, attributes.modified, attributes.changed)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Returns attributes of a file of this size.
    pub fn file(size: u64) -> Attributes {
        Attributes {
            kind: FileKind::Regular,
            mode: 0o644,
            links: 1,
            uid: 0,
            gid: 0,
            size,
            used: 0,
            device: (0, 0),
            fsid: 1,
            fileid: 2,
            accessed: (0, 0),
            modified: (1, 0),
            changed: (1, 0),
        }
    }

    #[test]
    fn the_time_doubles_while_the_file_is_unchanged() {
        let (times, mut age, mut now) = (CacheTimes::default(), Freshness::default(), Instant::now());
        let mut noted = |size, after| {
            now += Duration::from_secs(after);
            age.note(&file(size), &times, now).as_secs()
        };
        assert_eq!([noted(1, 0), noted(1, 1), noted(1, 2), noted(1, 6), noted(1, 12)], [3, 3, 6, 12, 24]);
        assert_eq!([noted(1, 24), noted(1, 48), noted(1, 60)], [48, 60, 60]);
        assert_eq!(noted(2, 1), 3);
    }

    #[test]
    fn a_change_of_this_client_keeps_the_content() {
        let (times, mut age) = (CacheTimes::default(), Freshness::default());
        assert!(!age.is_same(&file(1)));
        age.own_change(&file(2), &times, Instant::now());
        assert!(age.is_same(&file(2)) && !age.is_same(&file(1)));
    }
}
