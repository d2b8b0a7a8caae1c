//! `target/<profile>/rdma/`: the names under which the loader and `dlopen` look for the libraries.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Links `soname`, and the name without its number, to the library that cargo will put beside the directory.
pub fn make(out: &Path, soname: &str) -> io::Result<()> {
    let dir = directory(out)?;
    let plain = format!("{}.so", soname.split(".so").next().unwrap_or(soname));
    link(&dir, soname, &format!("../{plain}"))?;
    link(&dir, &plain, soname)
}

/// Links a library that has one name.
pub fn make_plain(out: &Path, name: &str) -> io::Result<()> {
    link(&directory(out)?, name, &format!("../{name}"))
}

fn directory(out: &Path) -> io::Result<PathBuf> {
    // OUT_DIR is <target>/<profile>/build/<package>-<hash>/out.
    let profile = out
        .ancestors()
        .find(|dir| dir.file_name().is_some_and(|name| name == "build"))
        .and_then(Path::parent)
        .ok_or_else(|| io::Error::other(format!("{} is not below a target directory", out.display())))?;
    let dir = profile.join("rdma");
    fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// Replaces a link atomically, so that a program started meanwhile finds the old one or the new one.
fn link(dir: &Path, name: &str, target: &str) -> io::Result<()> {
    let path = dir.join(name);
    if fs::read_link(&path).is_ok_and(|old| old == Path::new(target)) {
        return Ok(());
    }
    let temporary = dir.join(format!(".{name}.{}", std::process::id()));
    let _ = fs::remove_file(&temporary);
    symlink(target, &temporary)?;
    fs::rename(&temporary, path)
}
