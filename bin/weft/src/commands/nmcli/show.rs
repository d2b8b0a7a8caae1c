//! `nmcli connection show`.

use super::device;
use super::failure::{Failure, Refused};
use super::options::Options;
use super::table;
use crate::commands::profiles::inert::{self, InertProperty};
use crate::commands::profiles::profile::INFINIBAND;
use crate::commands::profiles::properties::PROPERTIES;
use crate::commands::profiles::session::{Session, Stored};

const USUAL: [&str; 4] = ["NAME", "UUID", "TYPE", "DEVICE"];
const ALL: [&str; 8] = ["NAME", "UUID", "TYPE", "AUTOCONNECT", "ACTIVE", "DEVICE", "STATE", "ACTIVE-PATH"];

/// Shows the list, the active ones first.
///
/// # Errors
/// There is no host, or no such field.
pub fn list(options: &Options, session: &mut Session, active_only: bool) -> Result<(), Failure> {
    let mut all = session.profiles().refused()?;
    all.sort_by_key(|one| one.active.is_none());
    let rows: Vec<_> = all.iter().filter(|one| one.active.is_some() || !active_only).map(row).collect();
    table::print(options, &USUAL, &ALL, &rows)
}

fn row(one: &Stored) -> Vec<(&'static str, String)> {
    let yes_no = |value: bool| (if value { "yes" } else { "no" }).to_owned();
    let of_active = |text: String| one.active.as_ref().map(|_| text).unwrap_or_default();
    vec![
        ("NAME", one.profile.id.clone()),
        ("UUID", one.profile.uuid.clone()),
        ("TYPE", INFINIBAND.to_owned()),
        ("AUTOCONNECT", yes_no(one.profile.autoconnect)),
        ("ACTIVE", yes_no(one.active.is_some())),
        ("DEVICE", one.active.as_ref().map(|active| active.interface.clone()).unwrap_or_default()),
        ("STATE", of_active("activated".to_owned())),
        ("ACTIVE-PATH", one.active.as_ref().map(|active| active.path()).unwrap_or_default()),
    ]
}

/// Shows a profile, and below its settings the state of its interface.
///
/// # Errors
/// There is no such field.
pub fn details(options: &Options, one: &Stored) -> Result<(), Failure> {
    let effective = PROPERTIES.into_iter();
    let effective =
        effective.map(|(setting, name, property)| (format!("{setting}.{name}"), property.get(&one.profile)));
    let inert = InertProperty::shown(&one.profile).into_iter();
    let inert = inert.map(|property| (property.full_name(), property.get(&one.profile)));
    let mut rows: Vec<(String, String)> = effective.chain(inert).collect();
    // A setting is in one piece.
    rows.sort_by_key(|(name, _)| {
        let setting = name.split('.').next().unwrap_or_default();
        inert::settings().iter().position(|known| *known == setting)
    });
    if let Some(active) = &one.active {
        rows.push(("GENERAL.NAME".to_owned(), one.profile.id.clone()));
        rows.push(("GENERAL.UUID".to_owned(), one.profile.uuid.clone()));
        rows.push(("GENERAL.DEVICES".to_owned(), active.interface.clone()));
        rows.push(("GENERAL.STATE".to_owned(), "activated".to_owned()));
        rows.push(("GENERAL.DBUS-PATH".to_owned(), active.path()));
        rows.extend(device::ip_rows(&active.interface));
    }
    table::print_properties(options, &table::chosen(options, rows)?);
    Ok(())
}
