//! Command line of a helper of mount(8): `mount.nfs SOURCE DIR [-sfnvwr] [-N NAMESPACE] [-t TYPE] [-o OPTIONS]`.

use std::ffi::OsString;
use std::process::ExitCode;

use weft_tool::errln;

use super::args::MountArgs;
use super::command;

/// Exit code of mount(8) for a failed mount.
const FAILED: u8 = 32;
/// Exit code of mount(8) for a wrong command line.
const USAGE: u8 = 1;

/// A helper's command line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Words {
    places: Vec<String>,
    options: Vec<String>,
    is_fake: bool,
}

/// Mounts, if the command line asks for a mount over RDMA; `None`: it is for the system's helper.
pub fn mount_over_rdma(words: &[OsString]) -> Option<ExitCode> {
    let words: Vec<&str> = words.iter().map(|word| word.to_str()).collect::<Option<_>>()?;
    let words = parse(&words)?;
    let is_rdma = |word: &str| matches!(word, "rdma" | "rdma6" | "proto=rdma" | "proto=rdma6");
    if !words.options.iter().flat_map(|list| list.split(',')).any(is_rdma) {
        return None;
    }
    let [source, directory] = &words.places[..] else { return None };
    let source = match source.parse() {
        Ok(source) => source,
        Err(reason) => {
            errln!("mount.nfs: {source}: {reason}");
            return Some(ExitCode::from(USAGE));
        }
    };
    if words.is_fake {
        return Some(ExitCode::SUCCESS);
    }
    let args = MountArgs {
        source,
        directory: directory.into(),
        options: words.options,
        foreground: false,
        detached: false,
        system: false,
    };
    Some(match command::run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            errln!("mount.nfs: {error:#}");
            ExitCode::from(FAILED)
        }
    })
}

/// Splits the command line; `None`: an option is unknown.
fn parse(words: &[&str]) -> Option<Words> {
    let mut found = Words::default();
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        let Some(flags) = word.strip_prefix('-').filter(|flags| !flags.is_empty()) else {
            found.places.push(word.to_owned());
            continue;
        };
        for (at, flag) in flags.char_indices() {
            let attached = flags.get(at + 1..).filter(|rest| !rest.is_empty());
            match flag {
                's' | 'n' | 'v' | 'i' => {}
                'f' => found.is_fake = true,
                'r' => found.options.push("ro".to_owned()),
                'w' => found.options.push("rw".to_owned()),
                'o' | 'N' | 't' => {
                    let value = attached.or_else(|| words.next())?;
                    if flag == 'o' {
                        found.options.push(value.to_owned());
                    }
                    break;
                }
                _ => return None,
            }
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_mount_are_understood() {
        let words = |line: &str| parse(&line.split(' ').collect::<Vec<_>>());
        let found = words("server:/ /mnt -v -o rw,rdma,port=20049").expect("a command line");
        assert_eq!(
            (found.places, found.options),
            (vec!["server:/".into(), "/mnt".into()], vec!["rw,rdma,port=20049".into()])
        );
        let found = words("-fsro soft s:/ /mnt -N 7 -t nfs").expect("a command line");
        assert_eq!((found.is_fake, found.options), (true, vec!["ro".to_owned(), "soft".to_owned()]));
        assert_eq!((words("-x s:/ /mnt"), words("s:/ /mnt -o")), (None, None));
    }

    #[test]
    fn other_transports_are_the_systems() {
        let words = ["server:/", "/mnt", "-o", "rw,proto=tcp"].map(OsString::from);
        assert!(mount_over_rdma(&words).is_none());
        let fake = ["server:/", "/mnt", "-f", "-o", "proto=rdma"].map(OsString::from);
        assert!(mount_over_rdma(&fake).is_some());
    }
}
