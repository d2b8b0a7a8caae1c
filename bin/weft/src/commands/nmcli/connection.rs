//! `nmcli connection`: profiles, and their activation.

use std::fs;
use std::io;
use std::path::Path;

use super::failure::{Failure, Refused};
use super::options::{Options, abbreviated};
use super::{settings, show};
use crate::commands::profiles::activate::{self, Failure as Activation};
use crate::commands::profiles::plan::Obstacle;
use crate::commands::profiles::profile::{Profile, random_uuid};
use crate::commands::profiles::session::{Session, Stored};
use crate::commands::profiles::{KEYFILE_BYTES_MAX, nmconnection, read_text};
use crate::errno;

/// The commands in the order in which an abbreviation is looked up.
const COMMANDS: [&str; 13] =
    ["show", "up", "down", "add", "modify", "clone", "edit", "delete", "reload", "load", "import", "export", "monitor"];

/// Words before the name of a profile that say which name it is.
const KINDS: [&str; 4] = ["id", "uuid", "path", "apath"];

/// Directory of the machine's profiles.
const SYSTEM_CONNECTIONS: &str = "/etc/NetworkManager/system-connections";

/// Files of that directory that are looked at.
const FILES_MAX: usize = 256;

/// Runs `nmcli connection`.
pub fn run(options: &Options, words: &[String]) -> Result<(), Failure> {
    let (command, rest) = match words.split_first() {
        None => ("show", words),
        Some((word, rest)) => (abbreviated(word, &COMMANDS).ok_or_else(|| Failure::not_understood(word))?, rest),
    };
    if matches!(command, "clone" | "edit" | "import" | "export" | "monitor") {
        return Err(Failure::unsupported(&format!("connection {command}")));
    }
    let mut session = Session::open("nmcli").refused()?;
    match command {
        "show" => shown(options, &mut session, rest),
        "up" => up(&mut session, rest),
        "down" => down(&mut session, rest),
        "add" => add(&mut session, rest),
        "modify" => modify(&mut session, rest),
        "delete" => delete(&mut session, rest),
        "load" => load(&mut session, rest),
        _ => reload(&mut session),
    }
}

fn shown(options: &Options, session: &mut Session, words: &[String]) -> Result<(), Failure> {
    let names: Vec<String> = words.iter().filter(|word| *word != "--active").cloned().collect();
    if names.is_empty() {
        return show::list(options, session, !words.is_empty());
    }
    for one in named(session, &names)? {
        show::details(options, &one)?;
    }
    Ok(())
}

/// Finds the profiles that the words name.
fn named(session: &mut Session, words: &[String]) -> Result<Vec<Stored>, Failure> {
    let all = session.profiles().refused()?;
    let mut words = words.iter().peekable();
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        let name = match words.peek() {
            Some(_) if KINDS.contains(&word.as_str()) => words.next().unwrap_or(word),
            _ => word,
        };
        let of_path = |one: &Stored| one.active.as_ref().is_some_and(|active| active.path() == *name);
        let is_it = |one: &&Stored| one.profile.id == *name || one.profile.uuid == *name || of_path(one);
        let one = all.iter().find(is_it).ok_or_else(|| Failure::missing(&format!("unknown connection '{name}'.")))?;
        found.push(one.clone());
    }
    match found.is_empty() {
        true => Err(Failure::input("No connection specified.")),
        false => Ok(found),
    }
}

fn up(session: &mut Session, words: &[String]) -> Result<(), Failure> {
    // `ifname IF` may follow the name, or stand alone.
    let place = words.iter().position(|word| word == "ifname");
    let interface = place.and_then(|place| words.get(place + 1));
    let words = place.map_or(words, |place| &words[..place]);
    let stored = match (interface, words) {
        (Some(interface), []) => {
            let all = session.profiles().refused()?;
            let is_for = |one: &Stored| {
                let child = one.profile.child().map(|(.., name)| name);
                child.as_ref().or(one.profile.interface_name.as_ref()) == Some(interface)
            };
            let found = all.into_iter().find(is_for);
            found.ok_or_else(|| Failure::missing(&format!("no connection for device '{interface}'.")))?
        }
        _ => named(session, words)?.swap_remove(0),
    };
    let (activation, active) = activate::activate(session, &stored.profile).map_err(|failure| match failure {
        Activation::Obstacle(obstacle) => Failure::activation(&unsuitable(&obstacle)),
        Activation::Step(why) => Failure::activation(&format!("{why}.")),
    })?;
    for note in activation.notes {
        crate::errln!("Warning: {note}.");
    }
    let path = active.path();
    crate::outln!("Connection successfully activated (D-Bus active path: {path})");
    Ok(())
}

/// NetworkManager's words, then the stand-in's.
fn unsuitable(obstacle: &Obstacle) -> String {
    let hint = match obstacle {
        Obstacle::NoInterface { .. } => "; `ip link set` and `weft host apply 70-persistent-ipoib.rules` rename them",
        _ => "",
    };
    format!("No suitable device found for this connection: {obstacle}{hint}.")
}

fn down(session: &mut Session, words: &[String]) -> Result<(), Failure> {
    for one in named(session, words)? {
        let id = one.profile.id.clone();
        let Some(active) = &one.active else {
            return Err(Failure::missing(&format!("'{id}' is not an active connection.")));
        };
        let path = active.path();
        activate::deactivate(session, &one).map_err(|why| Failure::deactivation(&why))?;
        crate::outln!("Connection '{id}' successfully deactivated (D-Bus active path: {path})");
    }
    Ok(())
}

fn add(session: &mut Session, words: &[String]) -> Result<(), Failure> {
    let all = settings::parse(words, true)?;
    settings::has_type(&all)?;
    let mut profile = Profile::new("", random_uuid());
    settings::apply(&mut profile, &all)?;
    if profile.id.is_empty() {
        let interface = profile.interface_name.as_ref().map(|name| format!("-{name}")).unwrap_or_default();
        profile.id = format!("infiniband{interface}");
    }
    let failed = |why: String| Failure::request(&format!("Failed to add '{}' connection: {why}", profile.id));
    profile.check().map_err(failed)?;
    session.save(&mut profile.clone()).map_err(failed)?;
    crate::outln!("Connection '{}' ({}) successfully added.", profile.id, profile.uuid);
    Ok(())
}

fn modify(session: &mut Session, words: &[String]) -> Result<(), Failure> {
    let words = match words {
        [temporary, rest @ ..] if temporary == "--temporary" => rest,
        words => words,
    };
    let length = if words.first().is_some_and(|word| KINDS.contains(&word.as_str())) { 2 } else { 1 };
    let (name, rest) = words.split_at(length.min(words.len()));
    let mut profile = named(session, name)?.swap_remove(0).profile;
    if rest.is_empty() {
        return Err(Failure::input("<setting>.<property> argument is missing."));
    }
    settings::apply(&mut profile, &settings::parse(rest, false)?)?;
    let failed = |why: String| Failure::request(&format!("Failed to modify connection '{}': {why}", profile.id));
    profile.check().map_err(failed)?;
    session.save(&mut profile.clone()).map_err(failed)
}

fn delete(session: &mut Session, words: &[String]) -> Result<(), Failure> {
    for one in named(session, words)? {
        activate::deactivate(session, &one).map_err(|why| Failure::deactivation(&why))?;
        session.delete(&one.profile.uuid).refused()?;
        crate::outln!("Connection '{}' ({}) successfully deleted.", one.profile.id, one.profile.uuid);
    }
    Ok(())
}

/// Reads key files into the host's profiles.
fn load(session: &mut Session, words: &[String]) -> Result<(), Failure> {
    for word in words {
        read(session, Path::new(word))
            .map_err(|why| Failure::request(&format!("failed to load connection: {word}: {why}")))?;
    }
    match words.is_empty() {
        true => Err(Failure::input("No connection specified.")),
        false => Ok(()),
    }
}

fn read(session: &mut Session, path: &Path) -> Result<(), String> {
    let text = read_text(path, KEYFILE_BYTES_MAX)?;
    let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or("infiniband");
    let mut read = nmconnection::parse(&text, name)?;
    for warning in read.warnings {
        crate::errln!("Warning: {}: {warning}.", path.display());
    }
    session.save(&mut read.profile)
}

/// Reads the machine's profiles of IPoIB interfaces. Those that only the host has stay.
fn reload(session: &mut Session) -> Result<(), Failure> {
    let files = match fs::read_dir(SYSTEM_CONNECTIONS) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        files => files.map_err(|error| Failure::request(&format!("{SYSTEM_CONNECTIONS}: {}", errno::text(&error))))?,
    };
    let files = files.flatten().take(FILES_MAX);
    for path in files.map(|entry| entry.path()) {
        let is_infiniband = || {
            let text = read_text(&path, KEYFILE_BYTES_MAX).unwrap_or_default();
            text.lines().any(|line| line.trim() == "type=infiniband")
        };
        if path.extension().is_some_and(|kind| kind == "nmconnection") && is_infiniband() {
            read(session, &path).map_err(|why| Failure::request(&format!("{}: {why}", path.display())))?;
        }
    }
    Ok(())
}
