//! The Python wheel: the command as a script, the libraries as data of the package `weft_rdma`.

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::product::Product;

/// The name on the Python package index: `weft` is another project there.
const NAME: &str = "weft_rdma";

/// Makes the wheel.
pub fn make(product: &Product) -> Result<PathBuf> {
    let (major, minor) = product.needs.glibc;
    let tag = format!("py3-none-manylinux_{major}_{minor}_{}", super::ARCH);
    let path = super::output().join(format!("{NAME}-{}-{tag}.whl", super::VERSION));
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    let mut wheel = Wheel { zip: ZipWriter::new(file), record: String::new() };
    wheel.add_package(product)?;
    wheel.add_metadata(&tag)?;
    wheel.finish()?;
    Ok(path)
}

/// A wheel that is being written. pip wants its metadata at the end of the archive.
struct Wheel {
    zip: ZipWriter<File>,
    /// Paths, hashes and sizes of the files so far.
    record: String,
}

impl Wheel {
    fn add_package(&mut self, product: &Product) -> Result<()> {
        let init = super::filled("dist/wheel/__init__.py", &[("VERSION", super::VERSION)])?;
        self.add(&format!("{NAME}/__init__.py"), 0o644, init.as_bytes())?;
        for file in product.libraries(NAME) {
            // As linkers leave libraries; tools that collect them look for the bit.
            self.add(&file.to, 0o755, &super::read(&file.from)?)?;
        }
        let script = format!("{NAME}-{}.data/scripts/weft", super::VERSION);
        self.add(&script, 0o755, &super::read(&product.command())?)
    }

    fn add_metadata(&mut self, tag: &str) -> Result<()> {
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            self.add(&format!("{}/licenses/{licence}", dist_info()), 0o644, &super::read(&super::source(licence))?)?;
        }
        let readme = std::fs::read_to_string(super::source("README.md"))?;
        self.add(&format!("{}/METADATA", dist_info()), 0o644, metadata(&readme).as_bytes())?;
        let wheel = format!("Wheel-Version: 1.0\nGenerator: cargo xtask dist\nRoot-Is-Purelib: false\nTag: {tag}\n");
        self.add(&format!("{}/WHEEL", dist_info()), 0o644, wheel.as_bytes())
    }

    fn add(&mut self, path: &str, mode: u32, bytes: &[u8]) -> Result<()> {
        self.record += &record_line(path, bytes);
        self.store(path, mode, bytes)
    }

    fn store(&mut self, path: &str, mode: u32, bytes: &[u8]) -> Result<()> {
        self.zip.start_file(path, SimpleFileOptions::default().unix_permissions(mode))?;
        Ok(self.zip.write_all(bytes)?)
    }

    fn finish(mut self) -> Result<()> {
        let path = format!("{}/RECORD", dist_info());
        let record = format!("{}{path},,\n", self.record);
        self.store(&path, 0o644, record.as_bytes())?;
        self.zip.finish()?;
        Ok(())
    }
}

fn dist_info() -> String {
    format!("{NAME}-{}.dist-info", super::VERSION)
}

fn metadata(readme: &str) -> String {
    let name = NAME.replace('_', "-");
    format!(
        "Metadata-Version: 2.1\nName: {name}\nVersion: {}\nSummary: RDMA without the hardware\n\
         License: MIT OR Apache-2.0\nRequires-Python: >=3.7\nDescription-Content-Type: text/markdown\n\n{readme}",
        super::VERSION
    )
}

/// A line of RECORD: path, hash, size.
fn record_line(path: &str, bytes: &[u8]) -> String {
    format!("{path},sha256={},{}\n", BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(bytes)), bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_the_hash_that_pip_computes() {
        // The hash of nothing, as in every wheel with an empty __init__.py.
        let line = record_line("a/__init__.py", b"");
        assert_eq!(line, "a/__init__.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n");
    }

    #[test]
    fn the_description_follows_an_empty_line() {
        let text = metadata("# Weft\n");
        assert!(text.starts_with("Metadata-Version: 2.1\nName: weft-rdma\n"), "{text}");
        assert!(text.ends_with("\n\n# Weft\n"), "{text}");
    }
}
