//! Files that the daemon keeps for virtual hosts.

use weft_ipc::{HOST_FILE_BYTES_MAX, HOST_FILES_MAX};

use super::paths::Pair;
use super::*;
use crate::refusal::{EINVAL, ENODEV, ENOSPC};

impl Pair {
    fn set_file(&mut self, program: usize, name: &str, content: Option<&str>) -> Result<Response, i32> {
        let (name, content) = (name.to_owned(), content.map(str::to_owned));
        self.world.ask(self.programs[program].0, Request::SetHostFile { name, content })
    }

    /// Returns the names and lengths of all files, fetched in pages.
    fn files(&mut self, program: usize) -> Vec<(String, usize)> {
        let mut all: Vec<(String, usize)> = Vec::new();
        loop {
            let after = all.last().map(|(name, _)| name.clone());
            match self.world.ask(self.programs[program].0, Request::HostFiles { after }) {
                Ok(Response::HostFiles(page)) if page.is_empty() => return all,
                Ok(Response::HostFiles(page)) => all.extend(page.into_iter().map(|one| (one.name, one.content.len()))),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_host_has_files_of_its_own_within_bounds() {
    let mut pair = Pair::of(false);
    let longest = "x".repeat(HOST_FILE_BYTES_MAX);
    for name in ["b", "a", "c"] {
        assert_eq!(pair.set_file(0, name, Some(&longest)), Ok(Response::Done));
    }
    assert_eq!(pair.set_file(0, "b", Some("short")), Ok(Response::Done));
    let all = [("a".to_owned(), longest.len()), ("b".to_owned(), 5), ("c".to_owned(), longest.len())];
    assert_eq!(pair.files(0), all);
    assert_eq!(pair.files(1), []);
    assert_eq!(pair.set_file(0, "", Some("")), Err(EINVAL));
    assert_eq!(pair.set_file(0, "d", Some(&format!("{longest}x"))), Err(ENOSPC));
    for name in ["a", "b", "c", "not there"] {
        assert_eq!(pair.set_file(0, name, None), Ok(Response::Done));
    }
    assert_eq!(pair.files(0), []);
    for number in 0..HOST_FILES_MAX {
        assert_eq!(pair.set_file(0, &number.to_string(), Some("")), Ok(Response::Done));
    }
    assert_eq!(pair.set_file(0, "one more", Some("")), Err(ENOSPC));
    assert_eq!(pair.set_file(0, "0", Some("again")), Ok(Response::Done));
}

#[test]
fn only_a_trusted_user_of_a_host_reaches_its_files() {
    let mut pair = Pair::of(false);
    let machine = pair.world.session(0);
    assert_eq!(pair.world.ask(machine, Request::HostFiles { after: None }), Err(ENODEV));
    let other = pair.world.connect(7);
    let hello = Hello { host: "node1".to_owned(), ..Hello::new(Purpose::Session, "x") };
    assert_eq!(pair.world.hello(other, &hello).status, HelloStatus::Welcome);
    assert_eq!(pair.world.ask(other, Request::HostFiles { after: None }), Err(libc::EPERM));
}
