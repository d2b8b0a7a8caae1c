//! ELF files: the libraries and the C library's release that they need, and their build ids.

use anyhow::{Context, Result};
use goblin::elf::Elf;
use std::collections::BTreeSet;
use std::path::Path;

/// A release such as 2.35.
pub type Release = (u32, u32);

/// Requirements of one or more ELF files.
#[derive(Debug, Default)]
pub struct Needs {
    /// Names of libraries.
    pub libraries: BTreeSet<String>,
    /// Newest symbol version of the C library.
    pub glibc: Release,
    /// Newest symbol version of GCC's run-time library.
    pub libgcc: Release,
}

impl Needs {
    /// Adds the requirements of `file`.
    pub fn add(&mut self, file: &Path) -> Result<()> {
        let bytes = super::read(file)?;
        let elf = Elf::parse(&bytes).with_context(|| format!("{} is not an ELF file", file.display()))?;
        self.libraries.extend(elf.libraries.iter().map(|name| (*name).to_owned()));
        let versions = elf.verneed.iter().flat_map(|section| section.iter().collect::<Vec<_>>());
        let names = versions.flat_map(|file| file.iter().collect::<Vec<_>>());
        for name in names.filter_map(|version| elf.dynstrtab.get_at(version.vna_name)) {
            self.add_version(name);
        }
        Ok(())
    }

    fn add_version(&mut self, name: &str) {
        if let Some(release) = name.strip_prefix("GLIBC_").and_then(release) {
            self.glibc = self.glibc.max(release);
        }
        if let Some(release) = name.strip_prefix("GCC_").and_then(release) {
            self.libgcc = self.libgcc.max(release);
        }
    }
}

/// The first two numbers of a version. GLIBC_PRIVATE and the like have none.
fn release(text: &str) -> Option<Release> {
    let (major, rest) = text.split_once('.')?;
    let minor = rest.split('.').next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The build id in hexadecimal.
pub fn build_id(file: &Path) -> Result<String> {
    let bytes = super::read(file)?;
    let elf = Elf::parse(&bytes).with_context(|| format!("{} is not an ELF file", file.display()))?;
    let mut notes = elf.iter_note_sections(&bytes, Some(".note.gnu.build-id")).into_iter().flatten().flatten();
    let note = notes
        .next()
        .with_context(|| format!("{} has no build id: let the linker write one (-Wl,--build-id)", file.display()))?;
    Ok(note.desc.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_counts() {
        let mut needs = Needs::default();
        for name in ["GLIBC_2.4", "GLIBC_2.35", "GLIBC_2.2.5", "GLIBC_PRIVATE", "GCC_4.2.0", "GCC_3.0", "IBVERBS_1.14"]
        {
            needs.add_version(name);
        }
        assert_eq!((needs.glibc, needs.libgcc), ((2, 35), (4, 2)));
    }

    #[test]
    fn this_program_needs_a_c_library() {
        let mut needs = Needs::default();
        needs.add(&std::env::current_exe().unwrap()).unwrap();
        assert!(needs.glibc > (2, 1), "{needs:?}");
        assert!(needs.libraries.contains("libc.so.6"), "{needs:?}");
    }
}
