//! The command lines of `modprobe`, `rmmod` and `insmod`.

use std::ffi::OsString;

/// The modules that the user names, and the change to make.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Words {
    /// Options as they were given, for the system's command.
    pub options: Vec<OsString>,
    /// Names of modules.
    pub names: Vec<String>,
    /// Parameters of the one module to load.
    pub parameters: Vec<OsString>,
    /// Remove the modules; otherwise load them.
    pub remove: bool,
    /// A module that is in that state already is an error.
    pub first_time: bool,
    /// Print no errors.
    pub quiet: bool,
    /// Change nothing.
    pub dry_run: bool,
}

/// Long options without effect on modules that Weft stands in for. The system's command understands the others.
const WITHOUT_EFFECT: [&str; 9] = [
    "all",
    "force",
    "force-vermagic",
    "force-modversion",
    "ignore-install",
    "ignore-remove",
    "syslog",
    "use-blacklist",
    "verbose",
];
/// Letters of options that only the system's command understands, and of options with a value.
const PASSED_LETTERS: &str = "DcRVhdSCw";

impl Words {
    /// Parses the arguments of the command of this name; `None` if the system's command must answer.
    pub fn parse(name: &str, args: &[OsString]) -> Option<Words> {
        let mut words = Words { remove: name == "rmmod", first_time: name != "modprobe", ..Words::default() };
        let mut all = name == "rmmod";
        let mut rest = Vec::new();
        let mut are_options = true;
        for arg in args {
            let text = arg.to_str()?;
            match text {
                "--" if are_options => are_options = false,
                "-" => return None,
                _ if are_options && text.starts_with('-') => {
                    all |= words.option(text)?;
                    words.options.push(arg.clone());
                }
                _ => rest.push(text.to_owned()),
            }
        }
        let mut rest = rest.into_iter();
        match all || words.remove {
            true => words.names.extend(rest),
            false => {
                words.names.extend(rest.next());
                words.parameters.extend(rest.map(OsString::from));
            }
        }
        if name == "insmod" {
            words.names.iter_mut().for_each(|file| *file = stem(file));
        }
        Some(words).filter(|words| !words.names.is_empty())
    }

    /// Takes an option; returns whether all words are names.
    fn option(&mut self, text: &str) -> Option<bool> {
        if let Some(long) = text.strip_prefix("--") {
            match long {
                "remove" => self.remove = true,
                "first-time" => self.first_time = true,
                "quiet" => self.quiet = true,
                "dry-run" | "show" => self.dry_run = true,
                _ if WITHOUT_EFFECT.contains(&long) => {}
                _ => return None,
            }
            return Some(long == "all");
        }
        for letter in text.chars().skip(1) {
            match letter {
                'r' => self.remove = true,
                'q' => self.quiet = true,
                'n' => self.dry_run = true,
                _ if PASSED_LETTERS.contains(letter) => return None,
                _ => {}
            }
        }
        Some(text.contains('a'))
    }
}

/// The module's name in the path of its file.
fn stem(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.split('.').next().unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str, line: &str) -> Option<Words> {
        Words::parse(name, &line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn modprobe_takes_one_module_with_parameters_or_many() {
        let one = parse("modprobe", "mlx4_core log_num_mtt=20").unwrap();
        assert_eq!((one.names, one.parameters), (vec!["mlx4_core".to_owned()], vec!["log_num_mtt=20".into()]));
        let many = parse("modprobe", "-qa ib_umad rdma_ucm").unwrap();
        assert!(many.names == ["ib_umad", "rdma_ucm"] && many.quiet && !many.remove);
        let removed = parse("modprobe", "-r ib_ipoib").unwrap();
        assert!(removed.remove && !removed.first_time && removed.names == ["ib_ipoib"]);
        for passed in [
            "--rem ib_ipoib",
            "--remove-holders ib_ipoib",
            "-D ib_core",
            "--show-depends ib_core",
            "-c",
            "-V",
            "-C /x ib_core",
            "-a",
        ] {
            assert_eq!(parse("modprobe", passed), None, "{passed}");
        }
    }

    #[test]
    fn rmmod_and_insmod_are_strict() {
        let removed = parse("rmmod", "-v ib_ipoib rdma_rxe").unwrap();
        assert!(removed.remove && removed.first_time && removed.names.len() == 2);
        let file = parse("insmod", "/lib/modules/6.1/kernel/ib_ipoib.ko.xz x=1").unwrap();
        assert_eq!(file.names, ["ib_ipoib"]);
        assert!(file.first_time && !file.remove);
    }
}
