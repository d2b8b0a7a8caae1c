//! Tables in nmcli's form: columns of equal width, or terse lines with colons.

use std::fmt::Write;

use super::failure::Failure;
use super::options::{Mode, Options};
use crate::output;

/// Prints rows of a table whose columns are known by name.
///
/// # Errors
/// The user asked for a column that there is not.
pub fn print(options: &Options, usual: &[&str], all: &[&str], rows: &[Vec<(&str, String)>]) -> Result<(), Failure> {
    let columns = columns(options, usual, all)?;
    let head: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
    let cells: Vec<Vec<String>> = rows.iter().map(|row| columns.iter().map(|name| cell(row, name)).collect()).collect();
    output::print(&match options.mode {
        Some(Mode::Multiline) => {
            let lines = |row: Vec<String>| multiline(options, head.iter().cloned().zip(row));
            cells.into_iter().map(lines).collect()
        }
        _ => tabular(options, &head, cells),
    });
    Ok(())
}

/// Formats rows below a head, or terse lines.
fn tabular(options: &Options, head: &Vec<String>, cells: Vec<Vec<String>>) -> String {
    let mut out = String::new();
    if options.terse {
        for row in cells {
            let row: Vec<String> = row.iter().map(|cell| escaped(options, cell)).collect();
            let _ = writeln!(out, "{}", row.join(":"));
        }
        return out;
    }
    let shown: Vec<Vec<String>> = cells.into_iter().map(|row| row.into_iter().map(or_dashes).collect()).collect();
    let width = |column: usize| {
        let of_row = |row: &Vec<String>| row.get(column).map_or(0, |cell| cell.chars().count());
        shown.iter().chain([head]).map(of_row).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    for row in [head].into_iter().chain(&shown).filter(|_| !shown.is_empty()) {
        let padded: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let _ = writeln!(out, "{} ", padded.join("  "));
    }
    out
}

fn columns<'a>(options: &Options, usual: &[&'a str], all: &[&'a str]) -> Result<Vec<&'a str>, Failure> {
    let Some(fields) = &options.fields else { return Ok(usual.to_vec()) };
    match fields.iter().map(|field| field.to_ascii_uppercase()).collect::<Vec<_>>().as_slice() {
        [field] if field == "ALL" => return Ok(all.to_vec()),
        [field] if field == "COMMON" => return Ok(usual.to_vec()),
        _ => {}
    }
    let find = |field: &String| {
        let found = all.iter().copied().find(|name| name.eq_ignore_ascii_case(field));
        found.ok_or_else(|| Failure::input(&format!("invalid field '{field}'; allowed fields: {}.", all.join(","))))
    };
    fields.iter().map(find).collect()
}

fn cell(row: &[(&str, String)], name: &str) -> String {
    row.iter().find(|(column, _)| *column == name).map(|(_, cell)| cell.clone()).unwrap_or_default()
}

fn or_dashes(cell: String) -> String {
    if cell.is_empty() { "--".to_owned() } else { cell }
}

/// Prints properties: one on each line, or the setting of each as a table.
pub fn print_properties(options: &Options, rows: &[(String, String)]) {
    if options.values_only || options.mode != Some(Mode::Tabular) {
        return output::print(&multiline(options, rows.iter().cloned()));
    }
    let setting = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    for rows in rows.chunk_by(|(a, _), (b, _)| setting(a) == setting(b)) {
        let setting = setting(rows.first().map(|(name, _)| name.as_str()).unwrap_or_default());
        let property = |name: &String| name.split_once('.').map_or(name.clone(), |(_, name)| name.to_owned());
        let head = ["name".to_owned()].into_iter().chain(rows.iter().map(|(name, _)| property(name))).collect();
        let values = [setting].into_iter().chain(rows.iter().map(|(_, value)| value.clone())).collect();
        output::print(&tabular(options, &head, vec![values]));
    }
}

/// Formats values, one on each line.
fn multiline(options: &Options, rows: impl Iterator<Item = (String, String)>) -> String {
    /// Column of the values.
    const NAME_WIDTH: usize = 40;
    let mut out = String::new();
    for (name, value) in rows {
        let _ = if options.values_only {
            // As nmcli: the option means terse columns, of one row each.
            writeln!(out, "{}", escaped(options, &value))
        } else if options.terse {
            writeln!(out, "{name}:{value}")
        } else {
            writeln!(out, "{:<NAME_WIDTH$}{}", format!("{name}:"), or_dashes(value))
        };
    }
    out
}

/// Selects rows by the fields that the user gave: names of properties, or of settings.
///
/// # Errors
/// There is no such field.
pub fn chosen(options: &Options, rows: Vec<(String, String)>) -> Result<Vec<(String, String)>, Failure> {
    let Some(fields) = &options.fields else { return Ok(rows) };
    let mut out = Vec::new();
    for field in fields {
        let is_meant = |name: &str| {
            let name = name.split('[').next().unwrap_or(name);
            let is_all = field.eq_ignore_ascii_case("all") || field.eq_ignore_ascii_case("common");
            let setting = name.split('.').next().unwrap_or(name);
            is_all || name.eq_ignore_ascii_case(field) || setting.eq_ignore_ascii_case(field)
        };
        let found: Vec<_> = rows.iter().filter(|(name, _)| is_meant(name)).cloned().collect();
        // Addresses that an interface does not have are not an error.
        if found.is_empty() && !field.to_ascii_uppercase().starts_with("IP") {
            return Err(Failure::input(&format!("invalid field '{field}'.")));
        }
        out.extend(found);
    }
    Ok(out)
}

/// Escapes a value between colons, unless the user wants it as it is.
fn escaped(options: &Options, value: &str) -> String {
    if options.escape { value.replace('\\', "\\\\").replace(':', "\\:") } else { value.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_chosen_by_name() {
        let with = |fields: &[&str]| Options {
            fields: Some(fields.iter().map(|&field| field.to_owned()).collect()),
            ..Options::default()
        };
        let (usual, all) = (["NAME", "UUID"], ["NAME", "UUID", "DEVICE"]);
        let columns = |options: &Options| columns(options, &usual, &all);
        assert_eq!(columns(&Options::default()).unwrap(), usual);
        assert_eq!(columns(&with(&["all"])).unwrap(), all);
        assert_eq!(columns(&with(&["device", "NAME"])).unwrap(), ["DEVICE", "NAME"]);
        let error = columns(&with(&["x"])).unwrap_err();
        assert_eq!(error.text, "Error: invalid field 'x'; allowed fields: NAME,UUID,DEVICE.");
        assert_eq!(escaped(&Options::default(), "80:00\\"), "80\\:00\\\\");
        assert_eq!(escaped(&Options { escape: false, ..Options::default() }, "80:00\\"), "80:00\\");
    }

    #[test]
    fn values_have_lines_or_columns() {
        let terse = Options { terse: true, ..Options::default() };
        let values_only = Options { values_only: true, ..terse.clone() };
        let rows = || [("a.b".to_owned(), "1:2".to_owned()), ("a.c".to_owned(), String::new())].into_iter();
        assert_eq!(multiline(&terse, rows()), "a.b:1:2\na.c:\n");
        assert_eq!(multiline(&values_only, rows()), "1\\:2\n\n");
        assert_eq!(multiline(&Options { escape: false, ..values_only }, rows()), "1:2\n\n");
        assert_eq!(multiline(&Options::default(), rows().skip(1)), format!("{:<40}--\n", "a.c:"));
        let head = vec!["name".to_owned(), "b".to_owned()];
        let cells = || vec![vec!["a".to_owned(), "1:2".to_owned()]];
        assert_eq!(tabular(&terse, &head, cells()), "a:1\\:2\n");
        assert_eq!(tabular(&Options::default(), &head, cells()), "name  b   \na     1:2 \n");
    }

    #[test]
    fn rows_are_chosen_by_property_or_setting() {
        let rows: Vec<(String, String)> = ["ipv4.method", "ipv4.dns", "IP4.ADDRESS[1]", "connection.id"]
            .map(|name| (name.to_owned(), String::new()))
            .to_vec();
        let names = |fields: &[&str]| {
            let fields = Some(fields.iter().map(|&field| field.to_owned()).collect());
            let options = Options { fields, ..Options::default() };
            chosen(&options, rows.clone()).map(|rows| rows.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["ipv4.method"]).unwrap(), ["ipv4.method"]);
        assert_eq!(names(&["connection", "ipv4"]).unwrap(), ["connection.id", "ipv4.method", "ipv4.dns"]);
        assert_eq!(names(&["IP4.ADDRESS"]).unwrap(), ["IP4.ADDRESS[1]"]);
        assert_eq!(names(&["all"]).unwrap().len(), 4);
        assert_eq!(names(&["frob"]).unwrap_err().text, "Error: invalid field 'frob'.");
    }
}
