//! Counters in the view of /sys that are true when they are read. A copy of `weft run` stays beside the program and holds
//! a lease on each of their files: whoever opens one waits until the copy has fetched the figures from the daemon and
//! written them. It sleeps until then, so that counters which nobody reads cost nothing, and ends with the program. Where
//! files cannot be leased the counters stay what they were when the program started.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use weft_ipc::stat::StatReport;
use weft_ipc::{Client, ConnectOptions, Spawn};
use weft_sys::epoll::{Epoll, Interest};
use weft_sys::{lease, pidfd, spawn};

use super::counters::Counter;

/// Files kept live, of the first devices: each is a descriptor of the copy.
const FILES_MAX: usize = 800;

/// After somebody read: how long everything can be opened without waiting. Who reads one counter reads others.
const OPEN_HOUSE: Duration = Duration::from_millis(200);

/// How old a counter gets in a file that somebody keeps open.
const PERIOD: Duration = Duration::from_secs(1);

/// A counter's file.
#[derive(Debug)]
pub struct LiveFile {
    file: File,
    counter: Counter,
    shown: String,
    leased: bool,
}

impl LiveFile {
    /// One that shows `text`.
    pub fn new(file: File, counter: Counter, text: &str) -> LiveFile {
        LiveFile { file, counter, shown: text.to_owned(), leased: false }
    }

    /// Write what is different. A reader sees the old text or the new, which is never shorter unless counting began anew.
    fn show(&mut self, report: &StatReport) {
        let text = format!("{}\n", self.counter.value(report));
        if text != self.shown && self.file.write_all_at(text.as_bytes(), 0).is_ok() {
            let _ = self.file.set_len(text.len() as u64);
            self.shown = text;
        }
    }

    fn lease(&mut self) {
        self.leased = self.leased || lease::lease(&self.file).is_ok();
    }

    fn release(&mut self) {
        if std::mem::take(&mut self.leased) {
            let _ = lease::release(&self.file);
        }
    }
}

/// Keeps the files live from now on, for as long as this process lives, whatever program it becomes.
///
/// # Errors
/// It cannot be done here, for this reason; the files stay as they are.
pub fn keep(mut files: Vec<LiveFile>) -> io::Result<()> {
    files.truncate(FILES_MAX);
    let Some(first) = files.first_mut() else { return Ok(()) };
    lease::lease(&first.file)?;
    lease::release(&first.file)?;
    let program = pidfd::open(std::process::id())?;
    let (mut described, mut keep) = (Vec::new(), vec![program]);
    for LiveFile { file, counter, shown, .. } in files {
        keep.push(file.into());
        described.push((counter, shown));
    }
    spawn::fork_apart(keep, move |keep| {
        spawn::silence();
        let mut keep = keep.into_iter();
        let Some(program) = keep.next() else { return };
        let files = keep.zip(described).map(|(file, (counter, shown))| LiveFile {
            file: file.into(),
            counter,
            shown,
            leased: false,
        });
        // Whatever goes wrong: the leases end with this process, and the counters stay.
        let _ = serve(&program, files.collect());
    })
}

const TOKEN_PROGRAM: u64 = 0;
const TOKEN_READER: u64 = 1;

fn serve(program: &OwnedFd, mut files: Vec<LiveFile>) -> io::Result<()> {
    let waiting = lease::waiting()?;
    let epoll = Epoll::new()?;
    epoll.add(program.as_fd(), TOKEN_PROGRAM, Interest::READ)?;
    epoll.add(waiting.as_fd(), TOKEN_READER, Interest::READ)?;
    let mut ready = Vec::new();
    let mut fetched: Option<Instant> = None;
    let mut open_until: Option<Instant> = None;
    loop {
        let now = Instant::now();
        if open_until.is_none_or(|until| until <= now) {
            open_until = None;
            files.iter_mut().for_each(LiveFile::lease);
            let held = files.iter().any(|file| !file.leased);
            if held {
                if fetched.is_none_or(|at| now.duration_since(at) >= PERIOD) {
                    show(&mut files);
                    fetched = Some(Instant::now());
                }
                open_until = Some(Instant::now() + OPEN_HOUSE);
            }
        }
        epoll.wait(&mut ready, open_until.map(|until| until.saturating_duration_since(Instant::now())))?;
        if ready.iter().any(|event| event.token == TOKEN_PROGRAM) {
            return Ok(());
        }
        if ready.iter().any(|event| event.token == TOKEN_READER) {
            lease::take(&waiting);
            show(&mut files);
            files.iter_mut().for_each(LiveFile::release);
            fetched = Some(Instant::now());
            open_until = Some(Instant::now() + OPEN_HOUSE);
        }
    }
}

/// Fetches the figures and writes them. Without a daemon nobody counts, and nothing has changed.
fn show(files: &mut [LiveFile]) {
    let options = ConnectOptions { program: "weft run".to_owned(), spawn: Spawn::Never, ..ConnectOptions::default() };
    let Ok(mut client) = Client::connect(&options) else { return };
    if let Ok(report) = client.refresh_ledgers().and_then(|()| client.stat()) {
        files.iter_mut().for_each(|file| file.show(&report));
    }
}
