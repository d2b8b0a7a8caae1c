//! Weft's command in place of one of the system's on a fabric's host: mounted over it, or at the end of PATH if that is not
//! installed.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use weft_sys::namespace;

use super::libraries::{self, Replacement};
use crate::commands::own_file::is_own;
use crate::commands::stand_in::{DIRECTORY, original};

/// A stand-in for a command of this name.
pub struct StandIn {
    name: &'static str,
    place: Place,
}

/// Where it goes.
enum Place {
    /// Over the system's command.
    Over(Replacement),
    /// Beside all others.
    Beside(PathBuf),
}

impl StandIn {
    /// Finds the place for a stand-in; `None` if this command's own file is not found.
    pub fn find(name: &'static str) -> Option<StandIn> {
        let ours = env::current_exe().ok()?.canonicalize().ok()?;
        // In a view inside a view, Weft's command is there already.
        let over = libraries::command(name).filter(|replacement| !is_own(&replacement.system));
        Some(StandIn { name, place: over.map_or(Place::Beside(ours), Place::Over) })
    }

    /// The name of the command.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Shows it to the program.
    ///
    /// # Errors
    /// The mount fails.
    pub fn show(&self, command: &mut Command) -> io::Result<()> {
        match &self.place {
            Place::Over(replacement) => {
                bind(&replacement.system, &original(self.name))?;
                namespace::bind(&replacement.ours, &replacement.system)
            }
            Place::Beside(ours) => {
                bind(ours, &Path::new(DIRECTORY).join(self.name))?;
                command.env("PATH", appended(path_of(command), DIRECTORY));
                Ok(())
            }
        }
    }
}

/// Binds a file to a new one in the view.
fn bind(file: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to.parent().unwrap_or(Path::new("/")))?;
    fs::write(to, "")?;
    namespace::bind(file, to)
}

/// Returns the PATH that the program gets so far.
fn path_of(command: &Command) -> OsString {
    let set = command.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, value)| value);
    set.map(OsString::from).or_else(|| env::var_os("PATH")).unwrap_or_default()
}

/// Appends a directory to a list, once.
fn appended(list: OsString, directory: &str) -> OsString {
    if env::split_paths(&list).any(|one| one == Path::new(directory)) {
        return list;
    }
    let mut list = list;
    if !list.is_empty() {
        list.push(":");
    }
    list.push(directory);
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_in_a_list_once() {
        assert_eq!(appended("/bin:/usr/bin".into(), "/x"), "/bin:/usr/bin:/x");
        assert_eq!(appended("/x:/bin".into(), "/x"), "/x:/bin");
        assert_eq!(appended("".into(), "/x"), "/x");
    }
}
