//! The program to run, judged by its ELF file: whether the loader will use Weft's libraries, and which copies of its
//! own it searches first (RPATH, RUNPATH).

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

mod elf;
mod linked;
mod obstacle;

use elf::Elf;
pub use linked::Linked;
pub use obstacle::Obstacle;

/// A program's executable file.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    elf: Elf,
}

/// Maximum number of bytes read from a static program's file.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Text that every static program with verbs contains.
const VERBS_MARK: &[u8] = b"/dev/infiniband";

impl Program {
    /// Reads the file that `command` names. `None` for scripts and unreadable files.
    pub fn read(command: &OsStr) -> Option<Program> {
        let path = resolve(command)?.canonicalize().ok()?;
        // Opening a pipe would wait for its writer.
        let file = path.is_file().then(|| File::open(&path).ok())??;
        let elf = Elf::parse(file)?;
        Some(Program { path, elf })
    }

    /// Determines how the program is linked.
    pub fn linked(&self) -> Linked {
        if self.elf.interpreter.is_some() {
            return Linked::Dynamically;
        }
        let mut bytes = Vec::new();
        let read = File::open(&self.path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
        let has_verbs = read.is_ok() && bytes.windows(VERBS_MARK.len()).any(|window| window == VERBS_MARK);
        if has_verbs { Linked::StaticallyWithVerbs } else { Linked::Statically }
    }

    /// Returns why Weft cannot serve the program, if so.
    pub fn obstacle(&self) -> Option<Obstacle> {
        obstacle::of(&self.elf, || self.linked())
    }

    /// Prints a line if Weft cannot serve the program.
    pub fn warn(&self) {
        if let Some(obstacle) = self.obstacle() {
            crate::errln!("weft run: {}: {}; {}", self.path.display(), obstacle.reason, obstacle.remedy);
        }
    }

    /// Returns the build of the library, if it is one of Weft's.
    pub fn build(&self) -> Option<&weft_ipc::Build> {
        self.elf.build.as_ref()
    }

    /// Copies of needed libraries on the program's own search path (RPATH, RUNPATH); `is_ours` selects the library
    /// names.
    pub fn own_copies(&self, is_ours: impl Fn(&str) -> bool) -> Vec<(String, PathBuf)> {
        let needed = self.elf.needed.iter().filter(|name| is_ours(name));
        needed.filter_map(|name| Some((name.clone(), self.search(name)?))).collect()
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The libraries that the program itself needs, without indirect dependencies.
    pub fn needed(&self) -> &[String] {
        &self.elf.needed
    }

    fn search(&self, name: &str) -> Option<PathBuf> {
        if name.contains('/') {
            return Some(PathBuf::from(name));
        }
        let origin = self.path.parent()?.to_str()?;
        // The loader ignores RPATH if there is a RUNPATH.
        let paths = self.elf.runpath.as_ref().or(self.elf.rpath.as_ref())?;
        let dirs = paths.split(':').filter(|dir| !dir.is_empty());
        let dirs = dirs.map(|dir| dir.replace("${ORIGIN}", origin).replace("$ORIGIN", origin));
        dirs.map(|dir| Path::new(&dir).join(name)).find(|file| file.is_file())
    }
}

/// The file that execvp(3) would run.
pub fn resolve(command: &OsStr) -> Option<PathBuf> {
    if command.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(command));
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(command)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_this_machine_is_read() {
        let me = Program::read(env::current_exe().unwrap().as_os_str()).unwrap();
        assert_eq!(me.linked(), Linked::Dynamically);
        assert!(me.needed().iter().any(|name| name == "libc.so.6"));
        assert!(me.own_copies(|_| true).is_empty());
        assert!(Program::read(OsStr::new("sh")).is_some());
        assert!(Program::read(OsStr::new("/etc/passwd")).is_none());
    }

    #[test]
    fn the_search_path_of_a_program_leads_to_its_copies() {
        let dir = env::temp_dir().join(format!("weft-program-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("lib")).unwrap();
        std::fs::write(dir.join("lib/libibverbs.so.1"), "").unwrap();
        let needed = vec!["libibverbs.so.1".to_owned(), "libc.so.6".to_owned()];
        let elf = |rpath: Option<&str>, runpath: Option<&str>| Elf {
            interpreter: Some("/lib64/ld-linux-x86-64.so.2".to_owned()),
            needed: needed.clone(),
            rpath: rpath.map(str::to_owned),
            runpath: runpath.map(str::to_owned),
            ..Elf::default()
        };
        let copies = |elf| Program { path: dir.join("tool"), elf }.own_copies(|name| name.starts_with("libib"));
        let found = vec![("libibverbs.so.1".to_owned(), dir.join("lib/libibverbs.so.1"))];
        assert_eq!(copies(elf(Some("/nonexistent:$ORIGIN/lib"), None)), found);
        assert_eq!(copies(elf(None, Some("${ORIGIN}/lib"))), found);
        assert!(copies(elf(Some("$ORIGIN/lib"), Some("/nonexistent"))).is_empty());
        assert!(copies(elf(None, None)).is_empty());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
