//! Finds the files that the loader uses for the system's RDMA libraries; Weft's are mounted over them.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::program::{Linked, Program};
use crate::rdma_dir::{SONAMES, soname_of};

/// One of Weft's libraries and the system's file that it replaces.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Replacement {
    /// Weft's library.
    pub ours: PathBuf,
    /// The real file behind the system's library name.
    pub system: PathBuf,
}

/// The mounts to make, and the libraries that cannot be mounted.
#[derive(Debug, Default)]
pub struct Plan {
    /// The mounts, one per file.
    pub replacements: Vec<Replacement>,
    /// Names for which the system has no file; only LD_LIBRARY_PATH leads to these libraries.
    pub absent: Vec<&'static str>,
    /// Names for which Weft has no library; the system's stays in place.
    pub unbuilt: Vec<&'static str>,
}

/// Directories that every loader searches, even without a cache.
const DEFAULT_DIRS: [&str; 4] = ["/lib", "/usr/lib", "/lib64", "/usr/lib64"];

/// Directories of administrators' commands, which an ordinary user's PATH may lack.
const COMMAND_DIRS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Finds every place where the loader could find one of Weft's library names.
pub fn plan(our_dir: &Path) -> Plan {
    let cache = loader_cache();
    let mut dirs: Vec<PathBuf> = match env::var_os("LD_LIBRARY_PATH") {
        Some(path) => env::split_paths(&path).filter(|dir| dir.is_absolute()).collect(),
        None => Vec::new(),
    };
    dirs.extend(DEFAULT_DIRS.iter().map(PathBuf::from));
    let mut plan = Plan::default();
    let mut seen = BTreeSet::new();
    for soname in SONAMES {
        let Ok(ours) = our_dir.join(soname).canonicalize() else {
            plan.unbuilt.push(soname);
            continue;
        };
        let plain = soname.rsplit_once('.').map_or(soname, |(plain, _)| plain);
        let mut found = false;
        let cached = entries(&cache, env::consts::ARCH).filter(|(name, _)| *name == soname || *name == plain);
        let in_dirs = dirs.iter().flat_map(|dir| [dir.join(soname), dir.join(plain)]);
        for place in cached.map(|(_, path)| PathBuf::from(path)).chain(in_dirs) {
            // Only an existing file can be mounted over; linker scripts and libraries for another architecture stay as
            // they are.
            let Ok(system) = place.canonicalize() else { continue };
            if system == ours || !same_kind_of_object(&ours, &system) {
                found |= system == ours;
                continue;
            }
            found = true;
            if seen.insert(system.clone()) {
                plan.replacements.push(Replacement { ours: ours.clone(), system });
            }
        }
        if !found {
            plan.absent.push(soname);
        }
    }
    plan
}

/// Adds the copies on the program's own search path, including names with a hash (`libibverbs-1de1263b.so.1`). The
/// loader takes them before, or in place of, the system's.
pub fn add_own_copies(plan: &mut Plan, our_dir: &Path, program: &Program) {
    for (name, file) in program.own_copies(|name| soname_of(name).is_some()) {
        let ours = soname_of(&name).and_then(|soname| our_dir.join(soname).canonicalize().ok());
        let (Some(ours), Ok(system)) = (ours, file.canonicalize()) else { continue };
        let is_known = plan.replacements.iter().any(|known| known.system == system);
        if system != ours && !is_known && same_kind_of_object(&ours, &system) {
            plan.replacements.push(Replacement { ours, system });
        }
    }
}

/// Describes which of these libraries the program will load, and from where.
pub fn loads(program: &Program, plan: &Plan) -> Vec<String> {
    let name = program.path().display();
    if program.linked() != Linked::Dynamically {
        return vec![format!(
            "{name} is statically linked: the loader gives it no library; programs that it starts may get ours"
        )];
    }
    let ours: Vec<_> = program.needed().iter().filter_map(|needed| Some((needed, soname_of(needed)?))).collect();
    if ours.is_empty() {
        return vec![format!("{name} does not need libibverbs itself: a library that it loads may")];
    }
    let own = program.own_copies(|name| soname_of(name).is_some());
    let line = |(needed, soname): (&String, &str)| {
        let own = own.iter().find(|(name, _)| name == needed).and_then(|(_, file)| file.canonicalize().ok());
        let stem = soname.split_once('.').map_or(soname, |(stem, _)| stem);
        let is_it = |r: &&Replacement| match &own {
            Some(file) => r.system == *file,
            None => r.ours.file_name().is_some_and(|name| name.to_string_lossy().starts_with(stem)),
        };
        match (plan.replacements.iter().find(is_it), own.as_ref()) {
            (Some(r), _) => format!("{name} loads {needed} from {}, where Weft's is", r.system.display()),
            (None, Some(file)) => format!("{name} loads {needed} from {}, which is not Weft's", file.display()),
            (None, None) => format!("{name} loads {needed} as the loader finds it"),
        }
    };
    ours.into_iter().map(line).collect()
}

/// The mount of Weft's command over one of iproute2's (`rdma`, `ip`), if that is installed. iproute2's commands use
/// netlink, which only the kernel can answer; Weft's acts as them when started under their names.
pub fn command(name: &str) -> Option<Replacement> {
    let ours = env::current_exe().ok()?.canonicalize().ok()?;
    let mut dirs: Vec<PathBuf> = env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default();
    dirs.extend(COMMAND_DIRS.iter().map(PathBuf::from));
    // A link of that name that leads to Weft's command is not the system's.
    let places = dirs.iter().filter(|dir| dir.is_absolute()).filter_map(|dir| dir.join(name).canonicalize().ok());
    let mut files = places.filter(|file| *file != ours && same_kind_of_object(&ours, file));
    files.find(|file| file.file_name().is_some_and(|found| found == name)).map(|system| Replacement { ours, system })
}

fn loader_cache() -> String {
    // An ordinary user's PATH may lack ldconfig's directory.
    let program = ["/sbin/ldconfig", "/usr/sbin/ldconfig"].into_iter().find(|p| Path::new(p).exists());
    let output = Command::new(program.unwrap_or("ldconfig")).arg("-p").stderr(Stdio::null()).output();
    output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default()
}

/// The (name, path) pairs of `ldconfig -p` output for processors of kind `arch`.
fn entries<'a>(cache: &'a str, arch: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let tag = match arch {
        "x86_64" => "x86-64",
        "aarch64" => "AArch64",
        "powerpc64" => "64bit",
        other => other,
    }
    .to_owned();
    cache.lines().filter_map(move |line| {
        let (left, path) = line.trim().split_once(" => ")?;
        let (name, kind) = left.split_once(" (")?;
        kind.contains(&tag).then_some((name, path))
    })
}

/// Whether both are ELF files for the same machine, by identification (class, byte order) and `e_machine`.
fn same_kind_of_object(a: &Path, b: &Path) -> bool {
    let identity = |path: &Path| {
        let mut head = [0; 20];
        let mut file = std::fs::File::open(path).ok()?;
        std::io::Read::read_exact(&mut file, &mut head).ok()?;
        (head[..4] == *b"\x7fELF").then_some((head[4], head[5], head[18], head[19]))
    };
    identity(a).is_some_and(|ours| identity(b) == Some(ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CACHE: &str = "1234 libs found in cache `/etc/ld.so.cache'
\tlibz.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libz.so.1
\tlibibverbs.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libibverbs.so.1
\tlibibverbs.so.1 (libc6) => /lib/i386-linux-gnu/libibverbs.so.1
\tlibibverbs.so (libc6,x86-64) => /lib/x86_64-linux-gnu/libibverbs.so
Cache generated by: ldconfig (Debian GLIBC 2.36) stable release version 2.36
";

    #[test]
    fn the_cache_is_read_for_one_kind_of_processor() {
        let found: Vec<_> = entries(CACHE, "x86_64").filter(|(name, _)| name.starts_with("libibverbs")).collect();
        assert_eq!(
            found,
            [
                ("libibverbs.so.1", "/lib/x86_64-linux-gnu/libibverbs.so.1"),
                ("libibverbs.so", "/lib/x86_64-linux-gnu/libibverbs.so"),
            ]
        );
    }

    #[test]
    fn only_elf_files_of_one_kind_replace_each_other() {
        let me = env::current_exe().unwrap();
        assert!(same_kind_of_object(&me, &me));
        assert!(!same_kind_of_object(&me, Path::new("/etc/passwd")));
    }
}
