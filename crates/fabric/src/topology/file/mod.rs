//! The TOML file that people write: defaults, generated networks, switches, hosts, routers, cables. Its manual is
//! `docs/topology.md`.
//!
//! ```toml
//! speed = "EDR"
//! cables = ["node[1-4] - leaf1", "leaf1:8 - spine1:1"]
//! switch = [{ name = "leaf1", ports = 8 }, { name = "spine1", ports = 8 }]
//! host = [{ name = "node", count = 4 }]
//! ```

mod cables;
mod nodes;
mod place;
mod schema;
mod writer;

pub use writer::write;

use toml::Spanned;

use self::place::{Place, speed, width};
use super::builder::DEFAULT_ADAPTER;
use super::generate::{Extra, Plan, Shape};
use super::{Builder, Error, Result, Speed, Topology, Width};

/// Largest TOML file in bytes: its parser holds the whole tree.
const LEN_MAX: usize = 64 << 20;

/// Reads a TOML file.
pub fn read(title: &str, text: &str) -> Result<Topology> {
    if text.len() > LEN_MAX {
        let mend = format!("at most {} MiB are read: use generators, or a net file", LEN_MAX >> 20);
        return Err(Error::of("the file is too long", mend));
    }
    let place = Place(text);
    let file: schema::File = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| place.line(span.start));
        Error::at(line, error.message().replace('\n', ", "), "docs/topology.md describes what a file may hold")
    })?;
    let defaults = defaults(place, &file)?;
    let mut builder = Builder::new(file.title.as_deref().unwrap_or(title));
    for section in &file.generate {
        place.at(section, generate(place, section, defaults, &mut builder))?;
    }
    nodes::read(place, &file, defaults, &mut builder)?;
    if builder.topology().nodes.is_empty() {
        let mend = "add [[host]] and [[switch]] tables, or a [[generate]] table such as fat-tree = \"36,2\"";
        return Err(Error::at(1, "the file describes no nodes", mend));
    }
    cables::read(place, &file, &mut builder)?;
    Ok(builder.finish())
}

/// Returns the default width and speed.
fn defaults(place: Place<'_>, file: &schema::File) -> Result<(Width, Speed)> {
    let width = file.width.as_ref().map_or(Ok(Width::X4), |text| width(place, text))?;
    let speed = file.speed.as_ref().map_or(Ok(Speed::Ndr), |text| speed(place, text))?;
    Ok((width, speed))
}

/// Runs a generator for its table.
fn generate(
    place: Place<'_>,
    section: &Spanned<schema::Generate>,
    defaults: (Width, Speed),
    builder: &mut Builder,
) -> Result<()> {
    let table = section.get_ref();
    let chosen: Vec<_> = table.shapes().into_iter().filter_map(|(kind, text)| Some((kind, text?))).collect();
    let [(kind, parameters)] = chosen[..] else {
        let kinds: Vec<&str> = super::generate::KINDS.iter().map(|(kind, ..)| *kind).collect();
        return Err(place.error(
            section,
            format!("{} generators in one table", chosen.len()),
            format!("each [[generate]] table names one of {}", kinds.join(", ")),
        ));
    };
    let extra = Extra { hosts: table.hosts, hosts_per_switch: table.hosts_per_switch };
    let shape = place.at(parameters, Shape::parse(kind, parameters.get_ref(), extra))?;
    let plan = Plan {
        shape,
        width: table.width.as_ref().map_or(Ok(defaults.0), |text| width(place, text))?,
        speed: table.speed.as_ref().map_or(Ok(defaults.1), |text| speed(place, text))?,
        prefix: table.prefix.clone().unwrap_or_default(),
        rails: table.rails.unwrap_or(1),
        adapter: table.adapter.clone().unwrap_or_else(|| DEFAULT_ADAPTER.to_owned()),
    };
    plan.generate_into(builder)
}

#[cfg(test)]
mod tests;
