//! The tarball: a directory with `install.sh`, laid out as it will be below the prefix.

use anyhow::{Context, Result};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::layout::{File, lay_out};
use super::product::{Product, dashboard, units};

/// Makes the tarball.
pub fn make(product: &Product) -> Result<PathBuf> {
    let name = name("");
    let root = super::scratch("tarball")?.join(&name);
    lay_out(&files(product)?, &root)?;
    let (major, minor) = product.needs.glibc;
    let values: [(&str, &str); 2] = [("ARCH", super::ARCH), ("GLIBC", &format!("{major}.{minor}"))];
    let installer = root.join("install.sh");
    super::write(&installer, super::filled("dist/tarball/install.sh", &values)?)?;
    std::fs::set_permissions(&installer, std::fs::Permissions::from_mode(0o755))?;
    pack(&root, &name)
}

/// Makes the tarball of debug symbols. Unpacked into /usr, debuggers find them by build id.
pub fn make_symbols(product: &Product) -> Result<PathBuf> {
    let name = name("-dbgsym");
    let root = super::scratch("symbols")?.join(&name);
    lay_out(&product.symbols, &root)?;
    pack(&root, &name)
}

fn name(kind: &str) -> String {
    format!("weft-{}-linux-{}{kind}", super::VERSION, super::ARCH)
}

fn files(product: &Product) -> Result<Vec<File>> {
    let mut files = vec![File::program("bin/weft", product.command())];
    files.extend(product.libraries("lib/weft"));
    for page in product.manual_pages()? {
        let name = page.file_name().context("a page has a name")?.to_string_lossy().into_owned();
        files.push(File::data(format!("share/man/man1/{name}"), page));
    }
    files.extend(product.completions("share", "zsh/site-functions"));
    files.extend(units("lib/systemd/system"));
    files.push(dashboard("share/weft"));
    for text in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        files.push(File::data(format!("share/doc/weft/{text}"), super::source(text)));
    }
    Ok(files)
}

/// Packs `root` into `NAME.tar.gz` in the output directory; names, owners and times do not depend on this machine. Minimal
/// systems have gzip, but no xz.
fn pack(root: &Path, name: &str) -> Result<PathBuf> {
    let archive = super::output().join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--gzip", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{}", super::epoch()?)).arg("--file").arg(&archive);
    tar.arg("--directory").arg(root.parent().context("a package has a parent directory")?).arg(name);
    super::output_of(&mut tar)?;
    Ok(archive)
}
