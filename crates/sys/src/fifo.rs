//! Named pipes. As presence signs: Weft learns when a process has one open for reading, and when the last such process closes
//! it; no data is ever written. As mailboxes ([`reader`]): programs write, and Weft reads.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::inotify;
use rustix::fs::{CWD, FileType, Mode, OFlags};

/// Creates a named pipe with these permissions.
pub fn make(path: &Path, mode: u32) -> io::Result<()> {
    let mode = Mode::from_raw_mode(mode);
    rustix::fs::mknodat(CWD, path, FileType::Fifo, mode, 0)?;
    // Restores the bits that the umask cleared.
    Ok(rustix::fs::chmod(path, mode)?)
}

/// Opens the pipe with O_PATH, which opens neither end.
pub fn hold(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())?)
}

/// Returns a descriptor that becomes readable when a process opens one of these pipes.
pub fn watch_opens<'a>(pipes: impl Iterator<Item = &'a OwnedFd>) -> io::Result<OwnedFd> {
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    for pipe in pipes {
        inotify::add_watch(&watch, path_of(pipe), inotify::WatchFlags::OPEN)?;
    }
    Ok(watch)
}

/// Consumes the events of [`watch_opens`].
pub fn take(watch: impl AsFd) {
    let mut events = [0; 4096];
    while rustix::io::read(&watch, &mut events).is_ok_and(|length| length > 0) {}
}

/// Opens the writing end, if a process has the reading end open; it hangs up when the last reader closes.
pub fn writer(pipe: impl AsFd) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::open(path_of(pipe), flags, Mode::empty()) {
        Ok(writer) => Ok(Some(writer)),
        Err(rustix::io::Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Opens a pipe that programs write to. Their opens never wait, since this end also counts as a reader, and reads never see
/// an end, since it counts as a writer.
pub fn reader(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Reads what programs wrote; fails with `WouldBlock` if there is nothing.
pub fn read(pipe: impl AsFd, into: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::read(pipe, into)?)
}

fn path_of(fd: impl AsFd) -> String {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoll::{Epoll, Interest, wait_readable};
    use std::time::Duration;

    #[test]
    fn a_mailbox_has_what_was_written() {
        let path = std::env::temp_dir().join(format!("weft-mailbox-{}", std::process::id()));
        make(&path, 0o600).unwrap();
        let pipe = reader(&path).unwrap();
        let mut bytes = [0; 16];
        assert!(read(&pipe, &mut bytes).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock));
        std::fs::write(&path, "id_ext=1").unwrap();
        assert_eq!(read(&pipe, &mut bytes).ok().map(|length| &bytes[..length]), Some(&b"id_ext=1"[..]));
        assert!(read(&pipe, &mut bytes).is_err(), "the writer's end is no end of the pipe");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_reader_is_noticed_and_so_is_its_end() {
        let path = std::env::temp_dir().join(format!("weft-fifo-{}", std::process::id()));
        make(&path, 0o666).unwrap();
        let pipe = hold(&path).unwrap();
        let watch = watch_opens([&pipe].into_iter()).unwrap();
        assert!(writer(&pipe).unwrap().is_none());
        assert!(!wait_readable(&watch, Duration::ZERO).unwrap());
        let reader = rustix::fs::open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
        assert!(wait_readable(&watch, Duration::from_secs(5)).unwrap());
        take(&watch);
        let writer = writer(&pipe).unwrap().unwrap();
        let epoll = Epoll::new().unwrap();
        epoll.add(&writer, 1, Interest::NONE).unwrap();
        let mut ready = Vec::new();
        epoll.wait(&mut ready, Some(Duration::ZERO)).unwrap();
        assert!(ready.is_empty());
        drop(reader);
        epoll.wait(&mut ready, Some(Duration::from_secs(5))).unwrap();
        assert!(ready.iter().any(|event| event.hung_up));
        std::fs::remove_file(&path).unwrap();
    }
}
