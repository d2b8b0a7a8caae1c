//! Requests to apt, such that one package that cannot be installed does not block all others.
//!
//! A package from a source that is no longer configured (backports, for example) may conflict with packages of the
//! list: it is then downgraded to the version of a configured source. Packages that still cannot be installed are left
//! out, with apt's reason.

/// Queries to apt: a trait, so that tests can fake the answers.
pub trait Apt {
    /// Checks whether apt would install `words` (`PACKAGE` or `PACKAGE=VERSION`) without removing a package; an error
    /// is apt's reason.
    fn simulate(&self, words: &[String]) -> Result<(), String>;

    /// Returns the output of `apt-cache policy` for the packages.
    fn policy(&self, packages: &[String]) -> String;
}

/// An installation plan.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Arguments for `apt-get install`.
    pub words: Vec<String>,
    /// Packages to downgrade: `PACKAGE=VERSION`, all of them among the words.
    pub downgrades: Vec<String>,
    /// Packages that cannot be installed, with the reason.
    pub left_out: Vec<(String, String)>,
}

/// Maximum number of times that apt may name further packages in the way.
const ROUNDS_MAX: usize = 5;

/// Finds the arguments that install as many of `missing` as possible.
pub fn plan(apt: &dyn Apt, listed: &[&str], missing: &[&str]) -> Plan {
    let missing: Vec<String> = missing.iter().map(|&name| name.to_owned()).collect();
    let mut downgrades: Vec<String> = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let words = [&missing[..], &downgrades].concat();
        let Err(complaint) = apt.simulate(&words) else {
            return Plan { words, downgrades, left_out: Vec::new() };
        };
        // apt names one side of a conflict; the other may be in the list.
        let mut suspects = named(&complaint);
        suspects.extend(listed.iter().map(|&name| name.to_owned()));
        suspects.sort();
        suspects.dedup();
        let older = older_offers(&apt.policy(&suspects));
        let new: Vec<_> = older.into_iter().filter(|word| !downgrades.contains(word)).collect();
        if new.is_empty() {
            break;
        }
        downgrades.extend(new);
    }
    one_by_one(apt, &missing)
}

/// Adds each package that does not conflict with those before it.
fn one_by_one(apt: &dyn Apt, missing: &[String]) -> Plan {
    let mut plan = Plan::default();
    for package in missing {
        plan.words.push(package.clone());
        if let Err(complaint) = apt.simulate(&plan.words) {
            plan.words.pop();
            plan.left_out.push((package.clone(), reason(&complaint)));
        }
    }
    plan
}

/// The relations between packages in apt's complaints.
const RELATIONS: [&str; 4] = ["Breaks:", "Depends:", "PreDepends:", "Conflicts:"];

/// Returns the packages that a complaint names, as in ` qemu-utils : Breaks: qemu-system-common (< 1:8.0)`.
fn named(complaint: &str) -> Vec<String> {
    let mut names = Vec::new();
    for line in complaint.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        for pair in words.windows(2) {
            match pair {
                [name, ":"] => names.push((*name).to_owned()),
                [relation, name] if RELATIONS.contains(relation) => names.push((*name).to_owned()),
                _ => {}
            }
        }
    }
    names
}

/// Returns the most informative line of a complaint.
fn reason(complaint: &str) -> String {
    let lines = || complaint.lines().map(str::trim).filter(|line| !line.is_empty());
    let told = lines().find(|line| RELATIONS.iter().any(|relation| line.contains(relation)));
    let told = told.or_else(|| lines().find(|line| line.starts_with("E: "))).or_else(|| lines().next_back());
    told.unwrap_or("apt-get gives no reason").trim_start_matches("E: ").to_owned()
}

/// Returns `PACKAGE=VERSION` for each package whose installed version no source prefers: the version that the preferred
/// source offers instead.
fn older_offers(policy: &str) -> Vec<String> {
    let mut offers = Vec::new();
    let mut package = Package::default();
    for line in policy.lines().chain([":"]) {
        let words: Vec<_> = line.split_whitespace().collect();
        match words.as_slice() {
            [name] if !line.starts_with(' ') && name.ends_with(':') => {
                let done = std::mem::replace(&mut package, Package::called(name));
                offers.extend(done.other_offer());
            }
            ["Installed:", version] if *version != "(none)" => package.installed = Some((*version).to_owned()),
            ["***", version, _] => package.version = (*version).to_owned(),
            // In the table, a version comes alone with its priority, a source with its location.
            [version, priority] if priority.parse::<i32>().is_ok() => package.version = (*version).to_owned(),
            [priority, place, ..] if *place != STATUS => package.offer(priority),
            _ => {}
        }
    }
    offers
}

/// apt's source name for installed packages.
const STATUS: &str = "/var/lib/dpkg/status";

/// One package of `apt-cache policy`.
#[derive(Default)]
struct Package {
    name: String,
    installed: Option<String>,
    /// The version whose sources are being read.
    version: String,
    /// The version of the source with the highest priority.
    preferred: Option<(i32, String)>,
}

impl Package {
    fn called(name: &str) -> Package {
        Package { name: name.trim_end_matches(':').to_owned(), ..Package::default() }
    }

    fn offer(&mut self, priority: &str) {
        let Ok(priority) = priority.parse::<i32>() else { return };
        // Newer versions come first in the table.
        if !self.version.is_empty() && self.preferred.as_ref().is_none_or(|(best, _)| priority > *best) {
            self.preferred = Some((priority, self.version.clone()));
        }
    }

    fn other_offer(self) -> Option<String> {
        let (installed, (_, offered)) = (self.installed?, self.preferred?);
        (installed != offered).then(|| format!("{}={offered}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QEMU_UTILS: &str = "\
qemu-utils:
  Installed: 1:10.0.2+ds-2+deb13u1~bpo12+1
  Candidate: 1:10.0.2+ds-2+deb13u1~bpo12+1
  Version table:
 *** 1:10.0.2+ds-2+deb13u1~bpo12+1 100
        100 /var/lib/dpkg/status
     1:7.2+dfsg-7+deb12u18+b3 500
        500 http://deb.debian.org/debian bookworm/main amd64 Packages
";
    const OTHERS: &str = "\
perftest:
  Installed: 4.5+0.17-1
  Candidate: 4.5+0.17-1
  Version table:
 *** 4.5+0.17-1 500
        500 http://deb.debian.org/debian bookworm/main amd64 Packages
        100 /var/lib/dpkg/status
fio:
  Installed: (none)
  Candidate: 3.33-3
  Version table:
     3.33-3 500
        500 http://deb.debian.org/debian bookworm/main amd64 Packages
local:
  Installed: 1.0
  Candidate: 1.0
  Version table:
 *** 1.0 100
        100 /var/lib/dpkg/status
";
    const COMPLAINT: &str = "\
Reading package lists...
Some packages could not be installed. This may mean that you have
requested an impossible situation or if you are using the unstable
The following packages have unmet dependencies:
 qemu-utils : Breaks: qemu-system-common (< 1:8.0+dfsg-5~) but 1:7.2+dfsg-7+deb12u18+b3 is to be installed
E: Error, pkgProblemResolver::Resolve generated breaks, this may be caused by held packages.
";
    const OLDER: &str = "qemu-utils=1:7.2+dfsg-7+deb12u18+b3";

    #[test]
    fn a_version_that_no_source_offers_goes_back() {
        assert_eq!(older_offers(QEMU_UTILS), [OLDER]);
        assert_eq!(older_offers(&format!("{OTHERS}{QEMU_UTILS}")), [OLDER]);
        assert!(older_offers(OTHERS).is_empty());
        assert!(older_offers("").is_empty());
        // A source of low priority, backports, is still configured.
        let kept =
            "        100 http://deb.debian.org/debian bookworm-backports/main amd64 Packages\n        100 /var/lib";
        assert_eq!(older_offers(&QEMU_UTILS.replace("        100 /var/lib", kept)), [OLDER]);
    }

    #[test]
    fn complaints_name_packages_and_reasons() {
        assert_eq!(named(COMPLAINT), ["qemu-utils", "qemu-system-common"]);
        assert!(reason(COMPLAINT).starts_with("qemu-utils : Breaks: qemu-system-common"));
        assert_eq!(reason("E: Unable to locate package fio\n"), "Unable to locate package fio");
    }

    /// qemu-utils blocks qemu's other packages unless it is downgraded; `broken` cannot be installed at all.
    struct Fake {
        can_go_back: bool,
    }

    impl Apt for Fake {
        fn simulate(&self, words: &[String]) -> Result<(), String> {
            let has = |word: &str| words.iter().any(|w| w == word);
            if has("broken") {
                return Err("E: Unable to locate package broken\n".to_owned());
            }
            if has("qemu-system-x86") && !has(OLDER) { Err(COMPLAINT.to_owned()) } else { Ok(()) }
        }

        fn policy(&self, packages: &[String]) -> String {
            let asked = packages.iter().any(|name| name == "qemu-utils");
            if asked && self.can_go_back { format!("{OTHERS}{QEMU_UTILS}") } else { OTHERS.to_owned() }
        }
    }

    #[test]
    fn what_can_be_installed_is_and_the_rest_is_named() {
        let words = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let planned = |can_go_back, missing: &[&str]| plan(&Fake { can_go_back }, &["qemu-utils"], missing);
        let plain = planned(true, &["fio", "perftest"]);
        assert_eq!(plain, Plan { words: words(&["fio", "perftest"]), ..Plan::default() });

        let older = planned(true, &["fio", "qemu-system-x86"]);
        assert_eq!(older.words, words(&["fio", "qemu-system-x86", OLDER]));
        assert_eq!((older.downgrades, older.left_out), (words(&[OLDER]), Vec::new()));

        let partly = planned(false, &["qemu-system-x86", "broken", "fio"]);
        assert_eq!(partly.words, words(&["fio"]));
        let left_out: Vec<_> = partly.left_out.iter().map(|(name, why)| format!("{name}: {why}")).collect();
        assert!(left_out[0].starts_with("qemu-system-x86: qemu-utils : Breaks: "), "{left_out:?}");
        assert_eq!(left_out[1], "broken: Unable to locate package broken");
    }
}
