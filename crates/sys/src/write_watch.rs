//! Files whose writers are noticed (inotify(7)): Weft learns when a process closes one that it had open for writing, and
//! when a directory gets or loses an entry.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::inotify;

/// A watch of files.
#[derive(Debug)]
pub struct WriteWatch(OwnedFd);

impl WriteWatch {
    /// Watches no file yet.
    ///
    /// # Errors
    /// The user has as many watches as the system allows (`fs.inotify.max_user_instances`).
    pub fn new() -> io::Result<WriteWatch> {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        Ok(WriteWatch(inotify::init(flags)?))
    }

    /// Watches a file, too; one that is removed is not watched any more.
    ///
    /// # Errors
    /// It does not exist, or the user watches as many files as the system allows.
    pub fn add(&self, file: &Path) -> io::Result<()> {
        inotify::add_watch(&self.0, file, inotify::WatchFlags::CLOSE_WRITE)?;
        Ok(())
    }

    /// Watches a directory for entries that come and go.
    ///
    /// # Errors
    /// As for [`WriteWatch::add`].
    pub fn add_directory(&self, directory: &Path) -> io::Result<()> {
        let changes = inotify::WatchFlags::CREATE | inotify::WatchFlags::DELETE | inotify::WatchFlags::MOVE;
        inotify::add_watch(&self.0, directory, changes | inotify::WatchFlags::ONLYDIR)?;
        Ok(())
    }

    /// Consumes the events: the descriptor is readable if there are any.
    pub fn take(&self) {
        let mut events = [0; 4096];
        while rustix::io::read(&self.0, &mut events).is_ok_and(|length| length > 0) {}
    }
}

impl AsFd for WriteWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoll::{Epoll, Interest};
    use std::fs;
    use std::time::Duration;

    #[test]
    fn a_writer_is_noticed_when_it_closes_and_a_reader_is_not() {
        let file = std::env::temp_dir().join(format!("weft-write-watch-{}", std::process::id()));
        fs::write(&file, "old").unwrap();
        let (watch, epoll) = (WriteWatch::new().unwrap(), Epoll::new().unwrap());
        epoll.add(&watch, 1, Interest::READ).unwrap();
        watch.add(&file).unwrap();
        let mut ready = Vec::new();
        fs::read(&file).unwrap();
        epoll.wait(&mut ready, Some(Duration::ZERO)).unwrap();
        assert!(ready.is_empty());
        fs::write(&file, "new").unwrap();
        epoll.wait(&mut ready, Some(Duration::from_secs(5))).unwrap();
        assert_eq!(ready.len(), 1);
        watch.take();
        epoll.wait(&mut ready, Some(Duration::ZERO)).unwrap();
        assert!(ready.is_empty());
        fs::remove_file(&file).unwrap();
    }
}
