//! Credentials of the programs whose requests the kernel passes on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fuser::Request;

use crate::limits::USERS_REMEMBERED_MAX;
use crate::protocol::credential::Credential;
use crate::protocol::rpc::GROUPS_MAX;

/// Time after which a program's groups are looked up again.
const VALID: Duration = Duration::from_secs(5);

/// User, group and process.
type Key = (u32, u32, u32);

/// Credentials by program.
#[derive(Debug, Default)]
pub struct Users(Mutex<BTreeMap<Key, (Instant, Arc<Credential>)>>);

impl Users {
    /// Returns the credential of a request. The kernel tells user and group; the others are those of the process.
    pub fn of(&self, request: &Request) -> Arc<Credential> {
        let key = (request.uid(), request.gid(), request.pid());
        let now = Instant::now();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, credential)) = known.get(&key)
            && now.saturating_duration_since(*since) < VALID
        {
            return credential.clone();
        }
        if known.len() >= USERS_REMEMBERED_MAX {
            known.clear();
        }
        let (uid, gid, pid) = key;
        let credential = Arc::new(Credential { uid, gid, groups: groups(pid, gid) });
        known.insert(key, (now, credential.clone()));
        credential
    }
}

/// Returns the further groups of a process; none if it is gone.
fn groups(pid: u32, gid: u32) -> Vec<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    parse(&status).into_iter().filter(|group| *group != gid).take(GROUPS_MAX as usize).collect()
}

fn parse(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    line.unwrap_or_default().split_whitespace().filter_map(|group| group.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_those_of_the_process() {
        assert_eq!(parse("Name:\tcat\nGroups:\t4 24 1000 \nVmPeak:\t7"), [4, 24, 1000]);
        assert_eq!((parse("Groups:\t \n"), parse("")), (vec![], vec![]));
    }
}
