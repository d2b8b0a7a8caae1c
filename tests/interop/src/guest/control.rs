//! A Debian package's version and dependencies.

use super::kernel;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;

/// Fields of a package that belongs to a kernel.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Control {
    version: String,
    /// `linux-headers-6.1.0-56-common`, `linux-kbuild-6.1`, `linux-compiler-gcc-12-x86`.
    depends: Vec<String>,
}

impl Control {
    pub(super) fn of(deb: &Path) -> Result<Control> {
        let field = |name| kernel::output(Command::new("dpkg-deb").arg("-f").arg(deb).arg(name));
        Ok(Control::parse(&field("Version")?, &field("Depends")?))
    }

    fn parse(version: &str, depends: &str) -> Control {
        let names = depends.split(',').filter_map(|one| one.split_whitespace().next());
        Control { version: version.trim().to_owned(), depends: names.map(str::to_owned).collect() }
    }

    /// Returns the packages that it depends on and whose names begin so, as apt's words.
    pub(super) fn packages(&self, prefixes: &[&str]) -> Vec<String> {
        let needed = self.depends.iter().filter(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)));
        needed.map(|name| format!("{name}={}", self.version)).collect()
    }

    /// Returns the package with the sources of the same version as this headers package, as apt's word.
    pub(super) fn source(&self) -> Result<String> {
        let series = self.depends.iter().find_map(|name| name.strip_prefix("linux-kbuild-"));
        let series = series.context("the headers package does not depend on linux-kbuild")?;
        // Newer kernels have a kbuild package for each version: 6.12.107+deb13.
        let mut numbers = series.split(|c: char| !c.is_ascii_digit());
        let (major, minor) = numbers.next().zip(numbers.next()).context("linux-kbuild has no version")?;
        Ok(format!("linux-source-{major}.{minor}={}", self.version))
    }

    /// Returns the name of the compiler that a headers package needs: by a package of its own, or (newer ones) by the
    /// compiler's package for the machine's architecture.
    pub(super) fn compiler(&self) -> Option<&str> {
        let own = self.depends.iter().find_map(|name| Some(name.strip_prefix("linux-compiler-")?.rsplit_once('-')?.0));
        own.or_else(|| self.depends.iter().find_map(|name| name.strip_suffix("-for-host")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headers_package_names_all_others() {
        let depends =
            "linux-headers-6.1.0-56-common (= 6.1.192-2), linux-kbuild-6.1 (>= 6.1.192-2), linux-compiler-gcc-12-x86";
        let control = Control::parse("6.1.192-2\n", depends);
        let parts = control.packages(&["linux-headers-", "linux-kbuild-"]);
        assert_eq!(parts, ["linux-headers-6.1.0-56-common=6.1.192-2", "linux-kbuild-6.1=6.1.192-2"]);
        assert_eq!(control.source().ok().as_deref(), Some("linux-source-6.1=6.1.192-2"));
        assert_eq!(control.compiler(), Some("gcc-12"));
        let newer = Control::parse("6.12.107-1", "linux-kbuild-6.12.107+deb13");
        assert_eq!(newer.source().ok().as_deref(), Some("linux-source-6.12=6.12.107-1"));
        assert!(Control::parse("1", "libc6").source().is_err());
        let newest = Control::parse("7.2.13-1", "gcc-16-for-host, linux-base (>= 4.12~), linux-kbuild-7.2.13+deb14");
        assert_eq!(newest.compiler(), Some("gcc-16"));
    }

    #[test]
    fn an_image_may_come_in_several_packages() {
        let depends = "dracut | initramfs-tools (>= 0.120+deb8u2), linux-base-7.2.13+deb14-amd64 (= 7.2.13-1), \
                       linux-binary-7.2.13+deb14-amd64 (= 7.2.13-1), linux-modules-7.2.13+deb14-amd64 (= 7.2.13-1)";
        let parts = Control::parse("7.2.13-1", depends).packages(kernel::SPLIT);
        assert_eq!(parts, ["linux-binary-7.2.13+deb14-amd64=7.2.13-1", "linux-modules-7.2.13+deb14-amd64=7.2.13-1"]);
        assert!(Control::parse("6.1.192-2", "kmod, linux-base (>= 4.3~)").packages(kernel::SPLIT).is_empty());
    }
}
