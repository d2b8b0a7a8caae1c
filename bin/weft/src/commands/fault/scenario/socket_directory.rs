//! The directory of the socket that events come through. Those of killed commands are removed.

use std::fs::{self, DirBuilder, DirEntry, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use weft_sys::process::euid;

/// Longest path of the socket, as `sockaddr_un` has room for.
const PATH_BYTES_MAX: usize = 107;
/// Begin of the name of each socket's directory.
const DIRECTORY_PREFIX: &str = "weft-events-";
/// Age after which a directory whose socket nothing listens on is a killed command's. A younger one may not listen yet.
const STALE_AFTER: Duration = Duration::from_secs(60);
/// Parent of the directory if that of the environment is of no use.
const USUAL_PARENT: &str = "/tmp";

/// A directory with a socket, removed at the end.
pub(super) struct SocketDirectory {
    path: PathBuf,
    socket: PathBuf,
}

impl SocketDirectory {
    /// Makes it in the directory for temporary files, or in `/tmp` if programs cannot use that.
    ///
    /// # Errors
    /// No directory can be made.
    pub fn new() -> io::Result<SocketDirectory> {
        SocketDirectory::below(&std::env::temp_dir(), euid() == 0)
            .or_else(|_| SocketDirectory::make(Path::new(USUAL_PARENT)))
    }

    /// Makes it in a directory that all users can pass if it is `for_all`.
    fn below(parent: &Path, for_all: bool) -> io::Result<SocketDirectory> {
        if for_all && !fs::canonicalize(parent)?.ancestors().all(is_open_to_all) {
            return Err(ErrorKind::PermissionDenied.into());
        }
        SocketDirectory::make(parent)
    }

    fn make(parent: &Path) -> io::Result<SocketDirectory> {
        let path = parent.join(format!("{DIRECTORY_PREFIX}{:016x}", weft_sys::random::u64()));
        let socket = path.join("socket");
        if !is_usable(&socket) {
            return Err(ErrorKind::InvalidFilename.into());
        }
        sweep(parent);
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(SocketDirectory { path, socket })
    }

    /// Returns the path of the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Listens on the socket. Only processes of this user can connect, or of all users if this one is root: a program
    /// of root's may change its user. `/proc/net/unix` shows the path to all users, so the caller checks its peers.
    pub fn listen(&self) -> io::Result<UnixListener> {
        let listener = UnixListener::bind(&self.socket)?;
        listener.set_nonblocking(true)?;
        let (directory_mode, socket_mode) = if euid() == 0 { (0o711, 0o666) } else { (0o700, 0o600) };
        fs::set_permissions(&self.socket, Permissions::from_mode(socket_mode))?;
        fs::set_permissions(&self.path, Permissions::from_mode(directory_mode))?;
        Ok(listener)
    }
}

impl Drop for SocketDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.socket);
        let _ = fs::remove_dir(&self.path);
    }
}

/// Removes directories that killed commands of this user left behind.
fn sweep(parent: &Path) {
    let is_own = |entry: &DirEntry| {
        let is_old = |meta: &Metadata| meta.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > STALE_AFTER));
        let named = entry.file_name().as_bytes().starts_with(DIRECTORY_PREFIX.as_bytes());
        named && entry.metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == euid() && is_old(&meta))
    };
    for directory in fs::read_dir(parent).into_iter().flatten().flatten().filter(is_own) {
        for socket in fs::read_dir(directory.path()).into_iter().flatten().flatten() {
            if is_abandoned(&socket.path()).unwrap_or(false) {
                let _ = fs::remove_file(socket.path());
            }
        }
        // One in use is not empty.
        let _ = fs::remove_dir(directory.path());
    }
}

/// Whether no process listens on a socket. A stopped process with a full queue of connections does.
fn is_abandoned(socket: &Path) -> io::Result<bool> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&fd, &SocketAddrUnix::new(socket)?) {
        Ok(()) | Err(Errno::AGAIN) => Ok(false),
        Err(Errno::CONNREFUSED) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Whether all users can pass a directory.
fn is_open_to_all(directory: &Path) -> bool {
    fs::metadata(directory).is_ok_and(|meta| meta.mode() & 0o001 != 0)
}

/// Whether a path can be a word of `WEFT_TRACE`, wherever the program's working directory is.
fn is_usable(path: &Path) -> bool {
    let is_word = path.to_str().is_some_and(|text| !text.contains([',', ';']) && text.len() <= PATH_BYTES_MAX);
    is_word && path.is_absolute()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of a test, removed at its end.
    struct Parent(PathBuf);

    impl Parent {
        fn new(name: &str) -> Parent {
            let path = std::env::temp_dir().join(format!("weft-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Parent(path)
        }
    }

    impl Drop for Parent {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn make_old(directory: &Path) {
        let then = std::time::SystemTime::now() - 2 * STALE_AFTER;
        fs::File::open(directory).unwrap().set_modified(then).unwrap();
    }

    #[test]
    fn directories_of_killed_commands_are_removed_and_no_others() {
        let parent = Parent::new("sweep");
        let make = |name: &str, is_old: bool| {
            let directory = parent.0.join(name);
            fs::create_dir_all(&directory).unwrap();
            let listener = UnixListener::bind(directory.join("s")).unwrap();
            if is_old {
                make_old(&directory);
            }
            (directory, listener)
        };
        let (killed, _) = make("weft-events-1", true);
        let (young, _) = make("weft-events-2", false);
        let (other, _) = make("other", true);
        let (live, _listener) = make("weft-events-3", true);
        let empty = parent.0.join("weft-events-4");
        fs::create_dir(&empty).unwrap();
        make_old(&empty);
        sweep(&parent.0);
        assert_eq!([killed, young, other, live, empty].map(|path| path.exists()), [false, true, true, true, false]);
    }

    #[test]
    fn a_stopped_command_with_a_full_queue_is_no_killed_one() {
        let parent = Parent::new("queue");
        let directory = parent.0.join("weft-events-1");
        fs::create_dir(&directory).unwrap();
        let path = directory.join("s");
        let listener = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        make_old(&directory);
        let address = SocketAddrUnix::new(&path).unwrap();
        let connect_one = || {
            let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK, None).unwrap();
            connect(&fd, &address).map(|()| fd)
        };
        let mut queued = Vec::new();
        let full = loop {
            match connect_one() {
                Ok(fd) => queued.push(fd),
                Err(error) => break error,
            }
        };
        assert_eq!(full, Errno::AGAIN);
        sweep(&parent.0);
        assert!(path.exists());
    }

    #[test]
    fn only_roots_socket_is_open_to_all_users() {
        let directory = SocketDirectory::new().unwrap();
        let _listener = directory.listen().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        let expected = if euid() == 0 { (0o711, 0o666) } else { (0o700, 0o600) };
        assert_eq!((mode(&directory.path), mode(&directory.socket)), expected);
        let path = directory.path.clone();
        drop(directory);
        assert!(!path.exists());
    }

    #[test]
    fn parents_that_programs_cannot_use_are_refused() {
        let parent = Parent::new("parent");
        let kind = |path: &Path, for_all| SocketDirectory::below(path, for_all).err().map(|error| error.kind());
        for for_all in [false, true] {
            assert_eq!(kind(&parent.0.join("missing"), for_all), Some(ErrorKind::NotFound));
        }
        fs::set_permissions(&parent.0, Permissions::from_mode(0o700)).unwrap();
        let below = parent.0.join("below");
        fs::create_dir(&below).unwrap();
        for closed in [&parent.0, &below] {
            assert_eq!(kind(closed, true), Some(ErrorKind::PermissionDenied));
            assert_eq!(kind(closed, false), None);
        }
    }

    #[test]
    fn the_socket_has_a_path_that_the_variable_can_hold() {
        assert!(is_usable(Path::new("/tmp/weft-events-1/socket")));
        let long = format!("/{}", "a".repeat(PATH_BYTES_MAX));
        for wrong in ["tmp/x", "/tmp/a,b/x", "/tmp/a;b/x", &long] {
            assert!(!is_usable(Path::new(wrong)), "{wrong}");
        }
    }
}
