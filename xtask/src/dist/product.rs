//! The build as packages take it: stripped programs, their symbols apart, manual pages, completions.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::elf::{self, Needs};
use super::layout::File;

/// The shared libraries: cargo's file and the name that programs, or `weft run`, request.
const LIBRARIES: [(&str, &str); 7] = [
    ("libibverbs.so", "libibverbs.so.1"),
    ("librdmacm.so", "librdmacm.so.1"),
    ("libibumad.so", "libibumad.so.3"),
    ("libweft_audit.so", "libweft_audit.so"),
    ("libweft_view.so", "libweft_view.so"),
    ("libweft_rds_preload.so", "libweft_rds_preload.so"),
    ("libweft_check.so", "libweft_check.so"),
];

/// The shells: as `weft completions` calls them, and the name of their script.
const SHELLS: [(&str, &str); 3] = [("bash", "weft"), ("zsh", "_weft"), ("fish", "weft.fish")];

/// Everything that packages contain.
pub struct Product {
    dir: PathBuf,
    /// Requirements of the programs on the system.
    pub needs: Needs,
    /// Files of debug symbols, at the places where debuggers look.
    pub symbols: Vec<File>,
}

impl Product {
    /// Collects the build's output.
    pub fn stage() -> Result<Product> {
        let dir = super::scratch("product")?;
        let mut product = Product { dir, needs: Needs::default(), symbols: Vec::new() };
        product.add_program("weft", "weft")?;
        for (built, soname) in LIBRARIES {
            product.add_program(built, soname)?;
        }
        super::write(&product.dir.join("RELEASE"), format!("{} {}\n", super::VERSION, super::ARCH))?;
        product.add_texts()?;
        Ok(product)
    }

    /// Splits a built program into what runs and what debuggers read.
    fn add_program(&mut self, built: &str, name: &str) -> Result<()> {
        let (built, stripped) = (super::output().join(built), self.dir.join(name));
        let symbols = self.dir.join(format!("{name}.debug"));
        objcopy(&["--only-keep-debug"], &built, &symbols)?;
        objcopy(&["--strip-unneeded"], &built, &stripped)?;
        self.needs.add(&stripped)?;
        let id = elf::build_id(&stripped)?;
        let (directory, file) = id.split_at_checked(2).context("a build id is longer")?;
        self.symbols.push(File::data(format!("lib/debug/.build-id/{directory}/{file}.debug"), symbols));
        Ok(())
    }

    /// Lets the command write its manual pages and completions.
    fn add_texts(&self) -> Result<()> {
        let weft = self.dir.join("weft");
        super::output_of(Command::new(&weft).arg("manual-pages").arg(self.dir.join("man")))?;
        for (shell, name) in SHELLS {
            let script = super::output_of(Command::new(&weft).args(["completions", shell]))?;
            let dir = self.dir.join(shell);
            std::fs::create_dir_all(&dir)?;
            super::write(&dir.join(name), script)?;
        }
        if !self.dir.join("man/weft.1").exists() {
            bail!("`weft manual-pages` wrote no weft.1");
        }
        Ok(())
    }

    /// The command.
    pub fn command(&self) -> PathBuf {
        self.dir.join("weft")
    }

    /// The libraries and the file that names their release, in the directory `to`.
    pub fn libraries(&self, to: &str) -> Vec<File> {
        let names = LIBRARIES.iter().map(|(_, soname)| *soname).chain(["RELEASE"]);
        names.map(|name| File::data(format!("{to}/{name}"), self.dir.join(name))).collect()
    }

    /// The manual pages.
    pub fn manual_pages(&self) -> Result<Vec<PathBuf>> {
        let pages = std::fs::read_dir(self.dir.join("man"))?.map(|entry| Ok(entry?.path()));
        let mut pages = pages.collect::<Result<Vec<_>>>()?;
        pages.sort();
        Ok(pages)
    }

    /// The completions below `share`; zsh's directory differs between systems.
    pub fn completions(&self, share: &str, zsh: &str) -> Vec<File> {
        let dirs = ["bash-completion/completions", zsh, "fish/vendor_completions.d"];
        let scripts = SHELLS.iter().zip(dirs);
        scripts
            .map(|((shell, name), dir)| File::data(format!("{share}/{dir}/{name}"), self.dir.join(shell).join(name)))
            .collect()
    }
}

/// The dashboard for Grafana, below the directory `to`.
pub fn dashboard(to: &str) -> File {
    File::data(format!("{to}/grafana/weft.json"), super::source("dist/grafana/weft.json"))
}

/// The units for systemd, in the directory `to`.
pub fn units(to: &str) -> Vec<File> {
    let units = ["weft-sm.service", "weft-sm@.service"];
    units.iter().map(|unit| File::data(format!("{to}/{unit}"), super::source("dist/systemd").join(unit))).collect()
}

fn objcopy(options: &[&str], from: &Path, to: &Path) -> Result<()> {
    super::output_of(Command::new("objcopy").args(options).arg(from).arg(to)).map(drop)
}
