//! State of a mounted file system, which its requests share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use fuser::{INodeNo, Notifier};
use rustix::io::Errno;

use super::budget::Budget;
use super::cache::CacheTimes;
use super::files::{Files, OpenFile};
use super::nodes::{Node, Nodes};
use super::users::Users;
use super::writes::{WriteContext, Writes, Written};
use crate::client::{Attributes, Handle, Nfs};
use crate::limits::WRITES_MAX;
use crate::protocol::credential::Credential;

/// Pause of the thread that sends collected data.
const TICK: Duration = Duration::from_millis(500);

/// Options of a mounted file system.
#[derive(Clone, Copy, Debug)]
pub struct MountedOptions {
    /// Validity of attributes.
    pub times: CacheTimes,
    /// Most bytes of one READ.
    pub read_max: u32,
    /// Most bytes of one WRITE.
    pub write_max: u32,
    /// Programs wait for each write.
    pub is_sync: bool,
}

/// A mounted file system.
#[derive(Debug)]
pub struct Mounted {
    /// The server.
    pub nfs: Arc<Nfs>,
    /// Files that the kernel knows.
    pub nodes: Nodes,
    /// Files that programs have open.
    pub files: Files,
    /// Credentials of programs.
    pub users: Users,
    /// Means to write.
    pub writes: Arc<WriteContext>,
    /// Options.
    pub options: MountedOptions,
    /// The server has READDIRPLUS.
    pub lists_attributes: AtomicBool,
    /// Files with collected data.
    collecting: Mutex<Vec<Arc<Node>>>,
    notifier: OnceLock<Notifier>,
}

impl Mounted {
    /// Begins with the root directory, and starts the thread that sends collected data.
    pub fn new(nfs: Arc<Nfs>, root: (Handle, Attributes), options: MountedOptions) -> std::io::Result<Arc<Mounted>> {
        let writes = Arc::new(WriteContext {
            server: nfs.clone(),
            budget: Budget::new(WRITES_MAX),
            write_max: options.write_max as usize,
            times: options.times,
        });
        let mounted = Arc::new(Mounted {
            nfs,
            nodes: Nodes::new(root.0, &root.1),
            files: Files::default(),
            users: Users::default(),
            writes,
            options,
            lists_attributes: AtomicBool::new(true),
            collecting: Mutex::default(),
            notifier: OnceLock::new(),
        });
        let of_thread = Arc::downgrade(&mounted);
        std::thread::Builder::new().name("nfs-writes".to_owned()).spawn(move || send_collected(&of_thread))?;
        Ok(mounted)
    }

    /// Takes the kernel's end for notifications.
    pub fn set_notifier(&self, notifier: Notifier) {
        let _ = self.notifier.set(notifier);
    }

    /// Lets the kernel ask for a file's attributes again. The content that it has stays.
    pub fn forget_attributes(&self, node: &Node) {
        if let Some(notifier) = self.notifier.get() {
            // A kernel that does not know the file has nothing to forget.
            let _ = notifier.inval_inode(INodeNo(node.number), -1, 0);
        }
    }

    /// Returns the file of a number.
    pub fn node(&self, number: INodeNo) -> Result<Arc<Node>, Errno> {
        self.nodes.find(number.0).ok_or(Errno::STALE)
    }

    /// Returns an open file.
    pub fn file(&self, number: fuser::FileHandle) -> Result<Arc<OpenFile>, Errno> {
        self.files.find(number.0).ok_or(Errno::BADF)
    }

    /// Returns a file's attributes from the server, after all its data is there.
    pub fn fresh(&self, node: &Arc<Node>, by: &Credential) -> Result<(Attributes, Duration), Errno> {
        if node.writes.is_dirty() {
            self.writes.settle(node);
        }
        let attributes = self.nfs.attributes(by, &node.handle)?;
        Ok(node.note(&attributes, &self.options.times))
    }

    /// Returns the validity of names with these attributes.
    pub fn name_valid(&self, attributes: Duration) -> Duration {
        if self.options.times.no_names { Duration::ZERO } else { attributes }
    }

    /// Notes a file that begins to collect data.
    pub fn collects(&self, node: &Arc<Node>) {
        let mut collecting = self.collecting.lock().unwrap_or_else(PoisonError::into_inner);
        if !collecting.iter().any(|known| Arc::ptr_eq(known, node)) {
            collecting.push(node.clone());
        }
    }

    /// Sends data that was collected for some time.
    fn send_old(&self) {
        let mut collecting = self.collecting.lock().unwrap_or_else(PoisonError::into_inner);
        let (old, young) = std::mem::take(&mut *collecting).into_iter().partition(|node| node.writes.is_old());
        *collecting = young;
        collecting.retain(|node| node.writes.is_dirty());
        drop(collecting);
        let old: Vec<Arc<Node>> = old;
        old.iter().for_each(|node| self.writes.send_old(node));
    }

    /// Whether the server has READDIRPLUS, as far as is known.
    pub fn has_listing(&self) -> bool {
        self.lists_attributes.load(Ordering::Relaxed)
    }
}

impl Written for Node {
    fn writes(&self) -> &Writes {
        &self.writes
    }

    fn handle(&self) -> &Handle {
        &self.handle
    }

    fn on_written(&self, attributes: Option<&Attributes>, times: &CacheTimes) {
        self.own_change(attributes, times);
    }
}

fn send_collected(mounted: &Weak<Mounted>) {
    loop {
        std::thread::sleep(TICK);
        match mounted.upgrade() {
            Some(mounted) => mounted.send_old(),
            None => return,
        }
    }
}
