//! The parts of a view that programs change: attributes of interfaces, kernel modules, and the connection manager's
//! configfs. The view's keeper hears of a change by inotify, and tells the daemon. A user has few inotify instances
//! (`fs.inotify.max_user_instances`): a keeper that gets none looks at the files periodically.

use std::io;

use weft_ipc::ConnectOptions;
use weft_sys::epoll::{Epoll, Interest};
use weft_sys::write_watch::WriteWatch;

use super::configfs::KeptConfig;
use super::interfaces::KeptInterfaces;
use super::live_file::LiveFile;
use super::modules::KeptModules;

/// Epoll tokens for changes of the network's interfaces, and for writers of the files.
const TOKEN_LINKS: u64 = u64::MAX - 1;
const TOKEN_WRITERS: u64 = u64::MAX - 2;

/// These parts of one view.
pub struct Writers {
    /// The interfaces, if the program is in a host's network.
    pub interfaces: Option<KeptInterfaces>,
    /// The modules.
    pub modules: Option<KeptModules>,
    /// The connection manager's defaults.
    pub config: Option<KeptConfig>,
    /// How the keeper reaches the daemon.
    pub options: ConnectOptions,
    /// One watch for all files, since a user has few. Without one, [`Writers::handle_writes`] must be called periodically.
    watch: Option<WriteWatch>,
}

impl Writers {
    /// Begins to watch.
    pub fn new(
        interfaces: Option<KeptInterfaces>,
        modules: Option<KeptModules>,
        config: Option<KeptConfig>,
        options: ConnectOptions,
    ) -> Writers {
        Writers { interfaces, modules, config, options, watch: WriteWatch::new().ok() }
    }

    /// Returns whether changes are noticed only by looking for them.
    pub fn must_look(&self) -> bool {
        self.watch.is_none() && (self.interfaces.is_some() || self.modules.is_some() || self.config.is_some())
    }

    /// Adds all sources of changes to the poller, and does what the program changed already.
    pub fn register(&mut self, epoll: &Epoll, files: &mut Vec<LiveFile>) -> io::Result<()> {
        let watch = self.watch.as_ref();
        if let Some(watch) = watch {
            epoll.add(watch, TOKEN_WRITERS, Interest::READ)?;
            self.modules.iter_mut().for_each(|modules| modules.register(watch));
        }
        self.config.iter_mut().for_each(|config| config.register(watch, files));
        if let Some(interfaces) = &mut self.interfaces {
            interfaces.register(epoll, TOKEN_LINKS, watch)?;
            // The program runs already: a change before the first watch would be lost.
            interfaces.handle_links(watch, &self.options);
        }
        self.handle_writes(files);
        Ok(())
    }

    /// Handles an event; returns whether it was about these parts.
    pub fn handle(&mut self, token: u64, files: &mut Vec<LiveFile>) -> bool {
        match token {
            TOKEN_LINKS => self.handle_links(),
            TOKEN_WRITERS => self.handle_writes(files),
            _ => return false,
        }
        true
    }

    /// Handles a change of interfaces or devices: another program may have loaded or removed a module. The files of an
    /// interface are in the directory of its adapter, which may have another name now.
    pub fn handle_links(&mut self) {
        let watch = self.watch.as_ref();
        self.interfaces.iter_mut().for_each(|kept| kept.handle_links(watch, &self.options));
        self.modules.iter_mut().for_each(|kept| drop(kept.refresh(&self.options)));
    }

    /// Does what programs wrote, also the last one before its end.
    pub fn handle_writes(&mut self, files: &mut Vec<LiveFile>) {
        let watch = self.watch.as_ref();
        watch.into_iter().for_each(WriteWatch::take);
        // First, because a program may look into its new directory at once.
        self.config.iter_mut().for_each(|kept| kept.handle_change(watch, files, &self.options));
        self.interfaces.iter_mut().for_each(|kept| kept.handle_writes(watch, &self.options));
        self.modules.iter_mut().for_each(|kept| kept.handle_change(&self.options));
    }
}
