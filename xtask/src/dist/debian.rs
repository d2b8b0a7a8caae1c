//! The Debian package, and the directory that a container image is built from.

use anyhow::{Context, Result, bail};
use flate2::write::GzEncoder;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::elf::Needs;
use super::layout::{File, lay_out, listing};
use super::product::{Product, dashboard, units};

/// Scripts that dpkg runs.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// The AppArmor profile: administrators may change it.
const CONFFILE: &str = "etc/apparmor.d/weft";

/// Makes the package.
pub fn make(product: &Product) -> Result<PathBuf> {
    let root = super::scratch("debian")?;
    std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o755))?;
    lay_out(&files(product)?, &root)?;
    for page in product.manual_pages()? {
        let name = page.file_name().context("a page has a name")?.to_string_lossy().into_owned();
        compress(&page, &root.join(format!("usr/share/man/man1/{name}.gz")))?;
    }
    compress(&super::source("CHANGELOG.md"), &root.join("usr/share/doc/weft/changelog.gz"))?;
    add_control(product, &root)?;
    let package = super::output().join(format!("weft_{}_{}.deb", super::VERSION, architecture()?));
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zxz", "--build"]).arg(&root).arg(&package);
    super::output_of(build.env("SOURCE_DATE_EPOCH", super::epoch()?))?;
    Ok(package)
}

/// Makes the directory with the Containerfile and the package.
pub fn container_context(package: &Path) -> Result<PathBuf> {
    // Its place is fixed: people type it.
    let dir = super::output().join("container");
    if dir.exists() {
        std::fs::remove_dir_all(&dir)?;
    }
    let name = package.file_name().context("a package has a name")?.to_string_lossy().into_owned();
    let files = [File::data(name, package), File::data("Containerfile", super::source("dist/container/Containerfile"))];
    lay_out(&files, &dir)?;
    Ok(dir)
}

fn files(product: &Product) -> Result<Vec<File>> {
    let mut files = vec![File::program("usr/bin/weft", product.command())];
    files.extend(product.libraries(&format!("usr/lib/{}-linux-gnu/weft", super::ARCH)));
    files.extend(product.completions("usr/share", "zsh/vendor-completions"));
    files.extend(units("usr/lib/systemd/system"));
    files.push(dashboard("usr/share/weft"));
    files.push(File::data(CONFFILE, super::source("dist/apparmor/weft")));
    files.push(File::data("usr/share/doc/weft/copyright", super::source("dist/debian/copyright")));
    Ok(files)
}

/// Compresses as Debian's policy asks: maximally, without name or time.
fn compress(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to.parent().context("a file is in a directory")?)?;
    let file = std::fs::File::create(to).with_context(|| format!("cannot write {}", to.display()))?;
    let mut encoder = GzEncoder::new(file, flate2::Compression::best());
    encoder.write_all(&super::read(from)?)?;
    encoder.finish()?;
    Ok(())
}

/// Adds `DEBIAN/`: what dpkg reads about the package.
fn add_control(product: &Product, root: &Path) -> Result<()> {
    let installed = listing(root)?.into_iter().filter(|path| root.join(path).is_file()).collect::<Vec<_>>();
    let bytes: u64 = installed.iter().map(|path| root.join(path).metadata().map_or(0, |meta| meta.len())).sum();
    let sums = super::output_of(Command::new("md5sum").args(&installed).current_dir(root))?;
    let control = root.join("DEBIAN");
    std::fs::create_dir(&control)?;
    let values: [(&str, &str); 4] = [
        ("VERSION", super::VERSION),
        ("ARCHITECTURE", architecture()?),
        ("DEPENDS", &depends(&product.needs)?),
        ("KIB", &bytes.div_ceil(1024).to_string()),
    ];
    super::write(&control.join("control"), super::filled("dist/debian/control", &values)?)?;
    super::write(&control.join("conffiles"), format!("/{CONFFILE}\n"))?;
    super::write(&control.join("md5sums"), sums)?;
    let scripts = SCRIPTS.map(|name| File::program(format!("DEBIAN/{name}"), super::source("dist/debian").join(name)));
    lay_out(&scripts, root)?;
    lay_out(&[File::data("DEBIAN/triggers", super::source("dist/debian/triggers"))], root)
}

/// Debian's name for this architecture.
fn architecture() -> Result<&'static str> {
    match super::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => bail!("no name of Debian's is known for {other}: add it in xtask/src/dist/debian.rs"),
    }
}

/// The packages with the libraries that the programs need, in the releases with the symbols that they use.
fn depends(needs: &Needs) -> Result<String> {
    let mut depends = std::collections::BTreeSet::new();
    for library in &needs.libraries {
        let (package, (major, minor)) = match library.as_str() {
            "libc.so.6" | "libm.so.6" => ("libc6", needs.glibc),
            name if name.starts_with("ld-linux") => ("libc6", needs.glibc),
            "libgcc_s.so.1" => ("libgcc-s1", needs.libgcc),
            // Weft's own: the package contains it.
            "libibverbs.so.1" => continue,
            other => bail!("the programs need {other}: name its package in xtask/src/dist/debian.rs"),
        };
        depends.insert(format!("{package} (>= {major}.{minor})"));
    }
    Ok(depends.into_iter().collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_library_is_a_package_in_a_release() {
        let libraries = ["libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "libgcc_s.so.1", "libibverbs.so.1"];
        let libraries = libraries.map(str::to_owned).into();
        let mut needs = Needs { libraries, glibc: (2, 35), libgcc: (4, 2) };
        assert_eq!(depends(&needs).unwrap(), "libc6 (>= 2.35), libgcc-s1 (>= 4.2)");
        needs.libraries.insert("libz.so.1".to_owned());
        assert!(depends(&needs).unwrap_err().to_string().contains("libz.so.1"));
    }
}
