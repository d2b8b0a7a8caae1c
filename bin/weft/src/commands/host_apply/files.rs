//! The files of `weft host apply`.

use std::path::{Path, PathBuf};

use crate::commands::profiles::plan::Wanted;
use crate::commands::profiles::profile::Profile;
use crate::commands::profiles::udev::{self, NameRule};
use crate::commands::profiles::{KEYFILE_BYTES_MAX, YAML_BYTES_MAX, nmconnection, read_text, role};

/// Content of all files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Found {
    /// Rules that name interfaces.
    pub rules: Vec<NameRule>,
    /// Profiles.
    pub wanted: Vec<Wanted>,
    /// Lines about entries without effect.
    pub warnings: Vec<String>,
}

/// Kind of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Keyfile,
    Role,
    Rules,
}

impl Kind {
    /// Tells it by the file's name.
    fn of(path: &Path) -> Option<Kind> {
        match path.extension()?.to_str()? {
            "nmconnection" => Some(Kind::Keyfile),
            "yml" | "yaml" => Some(Kind::Role),
            "rules" => Some(Kind::Rules),
            _ => None,
        }
    }

    fn bytes_max(self) -> usize {
        match self {
            Kind::Keyfile => KEYFILE_BYTES_MAX,
            Kind::Role => YAML_BYTES_MAX,
            Kind::Rules => udev::BYTES_MAX,
        }
    }
}

impl Found {
    /// Reads the files.
    ///
    /// # Errors
    /// The text names the file, the line and the fault.
    pub fn read(files: &[PathBuf]) -> Result<Found, String> {
        let mut found = Found::default();
        for file in files {
            found.add(file).map_err(|why| format!("{}: {why}", file.display()))?;
        }
        Ok(found)
    }

    fn add(&mut self, path: &Path) -> Result<(), String> {
        let kind = Kind::of(path);
        let kind = kind.ok_or("unknown kind of file; names end in .nmconnection, .yml, .yaml or .rules")?;
        let text = read_text(path, kind.bytes_max())?;
        let mut warn = |warnings: Vec<String>| {
            let lines = warnings.into_iter().map(|warning| format!("{}: {warning}", path.display()));
            self.warnings.extend(lines);
        };
        match kind {
            Kind::Keyfile => {
                let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or("infiniband");
                let read = nmconnection::parse(&text, name)?;
                warn(read.warnings);
                self.wanted.push(Wanted { is_up: automatic(&read.profile), profile: read.profile });
            }
            Kind::Role => {
                for connection in role::parse(&text)? {
                    let profile = connection.read.profile;
                    warn(connection.read.warnings);
                    self.wanted.push(Wanted { is_up: connection.is_up.or_else(|| automatic(&profile)), profile });
                }
            }
            Kind::Rules => {
                let (rules, warnings) = udev::parse(&text)?;
                warn(warnings);
                self.rules.extend(rules);
            }
        }
        Ok(())
    }
}

/// Whether a profile without a wanted state is to be active. One that does not activate itself stays as it is.
fn automatic(profile: &Profile) -> Option<bool> {
    profile.autoconnect.then_some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_are_told_apart_and_faults_name_them() {
        let dir = std::env::temp_dir().join(format!("weft-apply-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let put = |name: &str, text: &str| {
            let path = dir.join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let files = [
            put("a.nmconnection", "[connection]\ntype=infiniband\nautoconnect=false\nzone=x\n"),
            put(
                "b.yml",
                "network_connections: [{name: ib0, type: infiniband, state: up}, {name: ib1, type: infiniband, state: down}]\n",
            ),
            put("c.rules", "KERNEL==\"ib0\", NAME=\"ib7\"\n"),
        ];
        let found = Found::read(&files).unwrap();
        let wanted: Vec<_> = found.wanted.iter().map(|one| (one.profile.id.as_str(), one.is_up)).collect();
        assert_eq!((wanted, found.rules.len()), (vec![("a", None), ("ib0", Some(true)), ("ib1", Some(false))], 1));
        assert!(
            found.warnings[0]
                .ends_with("a.nmconnection: line 4: connection.zone: it has no effect on a host of a fabric")
        );
        for (name, text, part) in [
            ("x.conf", "", "unknown kind"),
            ("y.rules", "nonsense", "line 1: "),
            ("z.nmconnection", &"#".repeat(KEYFILE_BYTES_MAX + 1), "longer than"),
        ] {
            let error = Found::read(&[put(name, text)]).unwrap_err();
            assert!(error.contains(name) && error.contains(part), "{error}");
        }
        assert!(Found::read(&[dir.join("none.yml")]).is_err());
        fs::remove_dir_all(dir).unwrap();
    }
}
