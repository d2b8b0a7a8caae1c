//! Files in the view of /sys that are up to date whenever they are read. A copy of `weft run` stays beside the program
//! and holds a lease on each file: a process that opens one waits until the copy has queried the daemon and updated the
//! file. The copy sleeps until then, so that unread counters cost nothing, and exits with the last process that sees
//! the view. If the files cannot be leased, they keep their initial content.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use weft_ipc::stat::StatReport;
use weft_ipc::{Client, ConnectOptions, Spawn, VIEW_KEEPER};
use weft_sys::epoll::{Epoll, Interest};
use weft_sys::{lease, spawn};

use super::configfs::{self, KeptConfig};
use super::following::{Followed, Following};
use super::infiniband;
use super::interfaces::{Interfaces, KeptInterfaces};
use super::issm::{IssmPipe, IssmWatch};
use super::live_file::LiveFile;
use super::modules::KeptModules;
use super::srp_logins::SrpLogins;
use super::sys_files::Changes;
use super::tree::Tree;
use super::view::{CmDefault, Shown, View};
use super::viewer::{Sight, UMASK, Viewer};
use super::writers::Writers;

/// Maximum number of live files; each costs the copy a descriptor. Files of the first devices are preferred.
const FILES_MAX: usize = 800;

/// Time after a read during which all files open without waiting. A program that reads one counter usually reads
/// others.
const OPEN_HOUSE: Duration = Duration::from_millis(200);

/// Refresh period of a file that a process keeps open.
const PERIOD: Duration = Duration::from_secs(1);

/// How often the keeper looks for opens and writes that the system does not report to it.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The daemon's answers.
#[derive(Default)]
struct Fetched {
    counters: Option<StatReport>,
    adapters: BTreeMap<PathBuf, String>,
    defaults: Vec<(CmDefault, String)>,
}

impl Fetched {
    /// Queries the daemon for all content of these files. Without a daemon, all content stays as it is.
    fn about(files: &[LiveFile], options: &ConnectOptions) -> Fetched {
        let mut fetched = Fetched::default();
        if files.iter().any(|file| matches!(file.from, Shown::Counter(_)))
            && let Ok(mut client) = Client::connect(options)
        {
            fetched.counters = client.refresh_ledgers().and_then(|()| client.stat()).ok();
        }
        if files.iter().any(|file| matches!(file.from, Shown::Adapter(_)))
            && let Ok((devices, counters)) = infiniband::fetch(options)
        {
            let entries = View::of_adapters(&devices, &counters).entries;
            fetched.adapters = entries.into_iter().map(|entry| (entry.path, entry.text)).collect();
        }
        let defaults = files.iter().filter_map(|file| match file.from {
            Shown::Default(default) => Some(default),
            _ => None,
        });
        let mut defaults = defaults.peekable();
        if defaults.peek().is_some()
            && let Ok(mut client) = Client::connect(options)
        {
            let text = |default| Some((default, configfs::text_of(&mut client, default)?));
            fetched.defaults = defaults.filter_map(text).collect();
        }
        fetched
    }

    fn text_of(&self, shown: &Shown) -> Option<String> {
        match shown {
            Shown::Fixed => None,
            Shown::Counter(counter) => Some(format!("{}\n", counter.value(self.counters.as_ref()?))),
            Shown::Adapter(path) => self.adapters.get(path).cloned(),
            Shown::Default(wanted) => {
                self.defaults.iter().find(|(default, _)| default == wanted).map(|(_, text)| text.clone())
            }
        }
    }
}

/// Files and nodes that a copy of this process keeps up to date.
pub struct Kept {
    /// Files with changing content.
    pub files: Vec<LiveFile>,
    /// The issm nodes to watch.
    pub pipes: Vec<IssmPipe>,
    /// The pipes for SRP logins.
    pub srp_logins: Vec<OwnedFd>,
    /// The files and nodes that follow the devices.
    pub followed: Followed,
    /// Host that the view is for; empty for the machine itself.
    pub host: String,
    /// The host's interfaces, if the program is in its network.
    pub interfaces: Option<Interfaces>,
    /// The kernel modules.
    pub modules: Option<KeptModules>,
    /// The connection manager's configfs.
    pub config: Option<KeptConfig>,
}

/// Keeps the files live and watches the pipes from now on: as long as this process lives, also after exec, and then as
/// long as any other process sees the view. Removes a tree after that.
///
/// # Errors
/// The reason why files cannot be kept live here; they keep their content.
pub fn keep(mut kept: Kept, sight: Sight) -> io::Result<()> {
    kept.files.truncate(FILES_MAX);
    let leases = kept.files.first().map_or(Ok(()), LiveFile::try_lease);
    if leases.is_err() {
        kept.files.clear();
    }
    fork(kept, sight)?;
    leases
}

fn fork(kept: Kept, sight: Sight) -> io::Result<()> {
    let Kept { files, pipes, srp_logins, followed, host, interfaces, modules, config } = kept;
    let program = std::process::id();
    let (mut described, mut ports, mut keep) = (Vec::new(), Vec::new(), Vec::new());
    for IssmPipe { pipe, device, port } in pipes {
        keep.push(pipe);
        ports.push((device, port));
    }
    let login_count = srp_logins.len();
    keep.extend(srp_logins);
    for LiveFile { file, path, from, shown, .. } in files {
        keep.push(file.into());
        described.push((path, from, shown));
    }
    let tree = match sight {
        Sight::Mounts => None,
        Sight::Tree(tree) => {
            let (dir, lock) = tree.into_parts();
            keep.push(lock);
            Some(dir)
        }
    };
    spawn::fork_apart(keep, move |mut keep| {
        spawn::silence();
        // Programs wait for this process, or look at what it is about to change.
        weft_sys::process::prefer_short_slices();
        rustix::process::umask(UMASK);
        let tree = tree.and_then(|dir| Some(Tree::of_parts(dir, keep.pop()?)));
        let sight = tree.map_or(Sight::Mounts, Sight::Tree);
        let mut keep = keep.into_iter();
        let pipes = keep.by_ref().take(ports.len()).zip(ports);
        let pipes = pipes.map(|(pipe, (device, port))| IssmPipe { pipe, device, port }).collect();
        let srp_logins: Vec<OwnedFd> = keep.by_ref().take(login_count).collect();
        let file = |(file, (path, from, shown)): (OwnedFd, _)| LiveFile {
            file: file.into(),
            path,
            from,
            shown,
            leased: false,
        };
        let files = keep.zip(described).map(file).collect();
        let options = options_of(&host);
        let interfaces = interfaces.and_then(|interfaces| KeptInterfaces::new(interfaces).ok());
        let writers = Writers::new(interfaces, modules, config, options.clone());
        let following = Following::new(followed, options.clone(), TOKEN_DEVICES);
        // On any error the leases end with this process, and the files stay.
        let pipes = Pipes { issm: pipes, srp_logins, host };
        if serve(program, &sight, files, pipes, following, writers).is_ok()
            && let Sight::Tree(tree) = sight
        {
            tree.remove();
        }
    })
}

/// How a view's keeper reaches the daemon.
pub fn options_of(host: &str) -> ConnectOptions {
    let (program, host) = (VIEW_KEEPER.to_owned(), host.to_owned());
    ConnectOptions { program, spawn: Spawn::Never, host, ..ConnectOptions::default() }
}

const TOKEN_PROGRAM: u64 = 0;
const TOKEN_READER: u64 = 1;
/// Epoll token for opens of pipes; higher tokens are the pipes' ends.
const TOKEN_ISSM: u64 = 2;
/// Epoll token for the daemon's reports about devices.
const TOKEN_DEVICES: u64 = u64::MAX;

/// Named pipes that the keeper watches, and the host that they are of.
struct Pipes {
    issm: Vec<IssmPipe>,
    srp_logins: Vec<OwnedFd>,
    host: String,
}

fn serve(
    program: u32,
    sight: &Sight,
    mut files: Vec<LiveFile>,
    pipes: Pipes,
    mut following: Following,
    mut writers: Writers,
) -> io::Result<()> {
    let options = &writers.options.clone();
    let waiting = lease::waiting()?;
    let epoll = Epoll::new()?;
    let Some(mut viewer) = Viewer::of(program, sight, &epoll, TOKEN_PROGRAM)? else {
        writers.handle_writes(&mut files);
        SrpLogins::new(pipes.srp_logins, &pipes.host, &epoll)?.finish();
        return Ok(());
    };
    epoll.add(waiting.as_fd(), TOKEN_READER, Interest::READ)?;
    let mut issm = match pipes.issm.is_empty() {
        true => None,
        false => Some(IssmWatch::new(pipes.issm, options.clone(), &epoll, TOKEN_ISSM)?),
    };
    let mut srp_logins = SrpLogins::new(pipes.srp_logins, &pipes.host, &epoll)?;
    writers.register(&epoll, &mut files)?;
    let must_look = writers.must_look() || issm.as_ref().is_some_and(IssmWatch::must_look);
    let mut next_look = must_look.then(Instant::now);
    let mut ready = Vec::new();
    let mut fetched: Option<Instant> = None;
    let mut open_until: Option<Instant> = None;
    loop {
        let mut changes = following.turn(&epoll);
        srp_logins.add(std::mem::take(&mut changes.srp_logins), &epoll)?;
        if !changes.gone.is_empty() || !changes.live.is_empty() {
            writers.handle_links();
        }
        exchange(&mut files, changes);
        let now = Instant::now();
        if open_until.is_none_or(|until| until <= now) {
            open_until = None;
            files.iter_mut().for_each(LiveFile::lease);
            let held = files.iter().any(|file| !file.leased);
            if held {
                if fetched.is_none_or(|at| now.duration_since(at) >= PERIOD) {
                    show(&mut files, options);
                    fetched = Some(Instant::now());
                }
                open_until = Some(Instant::now() + OPEN_HOUSE);
            }
        }
        if next_look.is_some_and(|at| at <= now) {
            writers.handle_writes(&mut files);
            issm.iter_mut().for_each(|issm| issm.on_open(&epoll, TOKEN_ISSM));
            next_look = Some(now + LOOK_EVERY);
        }
        let [until_closed, until_look] =
            [open_until, next_look].map(|at| Some(at?.saturating_duration_since(Instant::now())));
        let timeouts = [until_closed, until_look, viewer.look_every(), following.due_in()];
        epoll.wait(&mut ready, timeouts.into_iter().flatten().min())?;
        let may_have_ended = viewer.look_every().is_some() || ready.iter().any(|event| event.token == TOKEN_PROGRAM);
        if may_have_ended && !viewer.is_there(&epoll)? {
            writers.handle_writes(&mut files);
            srp_logins.finish();
            return Ok(());
        }
        for event in &ready {
            if writers.handle(event.token, &mut files) || srp_logins.handle(event.token) {
                continue;
            }
            match (event.token, &mut issm) {
                (TOKEN_PROGRAM | TOKEN_DEVICES, _) => {}
                (TOKEN_READER, _) => {
                    lease::take(&waiting);
                    show(&mut files, options);
                    files.iter_mut().for_each(LiveFile::release);
                    fetched = Some(Instant::now());
                    open_until = Some(Instant::now() + OPEN_HOUSE);
                }
                (TOKEN_ISSM, Some(issm)) => issm.on_open(&epoll, TOKEN_ISSM),
                (token, Some(issm)) => issm.on_closed(&epoll, TOKEN_ISSM, token - TOKEN_ISSM),
                _ => {}
            }
        }
    }
}

/// Replaces the files of devices that went by those of devices that came.
fn exchange(files: &mut Vec<LiveFile>, changes: Changes) {
    files.retain(|file| !changes.gone.contains(&file.path));
    let can_be_leased = |file: &LiveFile| file.try_lease().is_ok();
    let room = FILES_MAX.saturating_sub(files.len());
    files.extend(changes.live.into_iter().filter(can_be_leased).take(room));
}

/// Queries the daemon and updates the files.
fn show(files: &mut [LiveFile], options: &ConnectOptions) {
    let fetched = Fetched::about(files, options);
    for file in files {
        if let Some(text) = fetched.text_of(&file.from) {
            file.show(text);
        }
    }
}
