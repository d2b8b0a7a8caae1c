//! Files that options name and that cannot be read or used: diagnostics about them, and the settings that stay unchanged.
//! Files at default paths may be missing.

use std::path::Path;

use weft_sm::manager::Setup;
use weft_sm::options::{Diagnostic, Level, Options};
use weft_sm::partition::Config;

/// Reads a file, or returns the reason why it cannot.
type Read<'a> = &'a mut dyn FnMut(&str) -> Result<String, String>;

/// Diagnostics about unreadable files; `home` is the directory of the configuration.
pub fn files(options: &Options, home: Option<&Path>, read: Read<'_>) -> Vec<Diagnostic> {
    let usual = home.map_or_else(Options::default, |home| Options::of_directory(&home.to_string_lossy()));
    let policy = |options: &Options| options.qos.qos_policy_file.clone().filter(|_| options.qos.qos);
    let named = [
        (
            options.partitions.partition_config_file.clone(),
            usual.partitions.partition_config_file,
            "everybody is a full member of the default partition",
        ),
        (policy(options), usual.qos.qos_policy_file, "there is no policy"),
        (options.misc.prefix_routes_file.clone(), usual.misc.prefix_routes_file, "no path leads beyond the subnet"),
    ];
    let mut diagnostics = Vec::new();
    for (path, usual, without) in named {
        let Some(path) = path else { continue };
        let need_not_be = usual.as_ref() == Some(&path) && Path::new(&path).try_exists().is_ok_and(|there| !there);
        if let Err(why) = read(&path)
            && !need_not_be
        {
            let what = format!("cannot be read: {why}: {without}");
            diagnostics.push(diagnostic(path, what, "name a file that is there and can be read"));
        }
    }
    diagnostics
}

/// Keeps a running manager's partitions and policy while their files cannot be used, so that no port loses its P_Keys
/// to a typo. Removed files count as removed.
pub fn keep(setup: &mut Setup, former: &Setup) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    let fix = "fix it and send HUP again";
    let is_there = |path: &Option<String>| path.clone().filter(|path| Path::new(path).exists());
    if !matches!(setup.partitions, Config::Rules(_))
        && let Some(path) = is_there(&setup.options.partitions.partition_config_file)
    {
        setup.partitions = former.partitions.clone();
        diagnostics.push(diagnostic(path, "partitions stay as they were".to_owned(), fix));
    }
    if setup.options.qos.qos
        && setup.policy.is_none()
        && former.policy.is_some()
        && let Some(path) = is_there(&setup.options.qos.qos_policy_file)
    {
        setup.policy = former.policy.clone();
        diagnostics.push(diagnostic(path, "the policy stays as it was".to_owned(), fix));
    }
    diagnostics
}

fn diagnostic(file: String, what: String, fix: &str) -> Diagnostic {
    Diagnostic { level: Level::Error, file, line: 0, column: 0, what, fix: fix.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_named_is_missed_and_what_is_usual_is_not() {
        let said = |options: &Options| -> Vec<String> {
            let home = Path::new("/nonexistent");
            files(options, Some(home), &mut |_| Err("no such file".to_owned())).iter().map(|r| r.to_string()).collect()
        };
        let mut options = Options::of_directory("/nonexistent");
        options.qos.qos = true;
        assert_eq!(said(&options), Vec::<String>::new());
        options.partitions.partition_config_file = Some("/nonexistent/p".to_owned());
        let wanted = "/nonexistent/p: error: cannot be read: no such file: everybody is a full member of the default \
                      partition; name a file that is there and can be read";
        assert_eq!(said(&options), [wanted]);
        // The path is an existing directory, so there is no partition file.
        options.partitions.partition_config_file = None;
        options.qos.qos_policy_file = Some("/".to_owned());
        assert_eq!(said(&options).len(), 1);
    }

    #[test]
    fn a_broken_file_leaves_what_was() {
        let rules = |text: &str| weft_sm::partition::parse(text, "p").0;
        let mut former = Setup::new(1);
        former.partitions = rules("Default=0x7fff : ALL=full ; X=5 : ALL=full ;");
        let mut setup = Setup::new(1);
        setup.partitions = rules("X=zz : ALL=full ;");
        setup.options.partitions.partition_config_file = Some("/dev/null".to_owned());
        assert_eq!(keep(&mut setup, &former).len(), 1);
        assert_eq!(setup.partitions, former.partitions);
        let mut removed = Setup::new(1);
        removed.options.partitions.partition_config_file = Some("/nonexistent".to_owned());
        assert_eq!((keep(&mut removed, &former).len(), removed.partitions), (0, Config::Absent));
        let mut good = Setup::new(1);
        good.partitions = rules("Default=0x7fff : ALL=full ;");
        good.options.partitions.partition_config_file = Some("/dev/null".to_owned());
        assert_eq!((keep(&mut good, &former).len(), good.partitions == former.partitions), (0, false));
    }
}
