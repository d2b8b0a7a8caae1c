//! The device nodes of a view, in a directory that stands for /dev/infiniband.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use weft_sys::namespace;

use super::issm::IssmPipe;
use super::view::View;

/// The host that a view is for, and its user's right to manage the fabric.
#[derive(Clone, Copy, Debug)]
pub struct Manager<'a> {
    /// Name of the virtual host; empty for the machine itself.
    pub host: &'a str,
    /// Whether the daemon lets the user send management datagrams.
    pub may_manage: bool,
}

impl Manager<'_> {
    /// Permissions of device nodes, as in rdma-core's udev rules: every user may use uverbs nodes, only the owner umad
    /// and issm nodes.
    fn mode_of(&self, node: &str) -> u32 {
        match node.starts_with("umad") || node.starts_with("issm") {
            false => 0o666,
            true if self.may_manage => 0o600,
            true => 0,
        }
    }
}

/// Makes a node with these permissions and this label.
type Make = fn(&Path, u32, &str) -> io::Result<()>;

/// The nodes of a directory.
#[derive(Debug)]
pub struct Nodes {
    dir: PathBuf,
    make: Make,
    names: BTreeSet<String>,
}

impl Nodes {
    /// Makes the directory.
    pub fn new(dir: &Path, make: Make) -> io::Result<Nodes> {
        fs::create_dir_all(dir)?;
        Ok(Nodes { dir: dir.to_owned(), make, names: BTreeSet::new() })
    }

    /// The same nodes, reached by another path.
    pub fn at(self, dir: &Path) -> Nodes {
        Nodes { dir: dir.to_owned(), ..self }
    }

    /// Makes the nodes those of `view`, and returns the pipes among the new ones.
    ///
    /// # Errors
    /// Some nodes differ from the view; the next call tries again.
    pub fn show(&mut self, view: &View, manager: Manager<'_>) -> io::Result<Vec<IssmPipe>> {
        let wanted: BTreeSet<&String> = view.nodes.iter().chain(view.issm.iter().map(|node| &node.name)).collect();
        for gone in self.names.clone().iter().filter(|name| !wanted.contains(name)) {
            self.remove(gone)?;
        }
        for name in &view.nodes {
            if self.names.contains(name) {
                continue;
            }
            let label = if name.starts_with("umad") { format!("{}/{name}", manager.host) } else { String::new() };
            (self.make)(&self.dir.join(name), manager.mode_of(name), &label)?;
            self.names.insert(name.clone());
        }
        let mut pipes = Vec::new();
        for node in &view.issm {
            if self.names.insert(node.name.clone()) {
                pipes.push(IssmPipe::make(&self.dir, node, manager.mode_of(&node.name))?);
            }
        }
        Ok(pipes)
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        let path = self.dir.join(name);
        // Some kinds of nodes are mounts over an empty file.
        let _ = namespace::detach(&path);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => {
                self.names.remove(name);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_the_permissions_of_udev_s_rules() {
        let manager = |may_manage| Manager { host: "node1", may_manage };
        for (node, mode, without) in
            [("uverbs0", 0o666, 0o666), ("rdma_cm", 0o666, 0o666), ("umad3", 0o600, 0), ("issm3", 0o600, 0)]
        {
            assert_eq!((manager(true).mode_of(node), manager(false).mode_of(node)), (mode, without), "{node}");
        }
    }

    #[test]
    fn nodes_come_and_go_with_their_devices() {
        let dir = std::env::temp_dir().join(format!("weft-nodes-{}", std::process::id()));
        let mut nodes = Nodes::new(&dir, |path, _, _| fs::write(path, "")).unwrap();
        let manager = Manager { host: "", may_manage: false };
        let mut show = |names: &[&str]| {
            let view = View { nodes: names.iter().map(|name| (*name).to_owned()).collect(), ..View::default() };
            nodes.show(&view, manager).unwrap();
            let mut found: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            found.sort();
            assert_eq!(found, names);
        };
        show(&["rdma_cm", "uverbs0"]);
        show(&["rdma_cm", "uverbs0", "uverbs1"]);
        show(&["rdma_cm", "uverbs1"]);
        show(&[]);
        fs::remove_dir(&dir).unwrap();
    }
}
