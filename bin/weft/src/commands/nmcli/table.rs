//! Tables in nmcli's form: columns of equal width, or terse lines with colons.

use super::failure::Failure;
use super::options::Options;

/// Prints rows of a table whose columns are known by name.
///
/// # Errors
/// The user asked for a column that there is not.
pub fn print(options: &Options, usual: &[&str], all: &[&str], rows: &[Vec<(&str, String)>]) -> Result<(), Failure> {
    let columns = columns(options, usual, all)?;
    let cells: Vec<Vec<String>> = rows.iter().map(|row| columns.iter().map(|name| cell(row, name)).collect()).collect();
    if options.terse {
        for row in cells {
            crate::outln!("{}", row.iter().map(|cell| escaped(cell)).collect::<Vec<_>>().join(":"));
        }
        return Ok(());
    }
    let head: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
    let shown: Vec<Vec<String>> = cells.into_iter().map(|row| row.into_iter().map(or_dashes).collect()).collect();
    let width = |column: usize| {
        let of_row = |row: &Vec<String>| row.get(column).map_or(0, |cell| cell.chars().count());
        shown.iter().chain([&head]).map(of_row).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    for row in [&head].into_iter().chain(&shown).filter(|_| !shown.is_empty()) {
        let padded: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        crate::outln!("{} ", padded.join("  "));
    }
    Ok(())
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

/// Prints properties, one on each line.
pub fn print_properties(options: &Options, rows: &[(String, String)]) {
    /// Column of the values.
    const NAME_WIDTH: usize = 40;
    for (name, value) in rows {
        if options.values_only {
            crate::outln!("{value}");
        } else if options.terse {
            crate::outln!("{name}:{value}");
        } else {
            let value = or_dashes(value.clone());
            crate::outln!("{:<NAME_WIDTH$}{value}", format!("{name}:"));
        }
    }
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
        // Addresses that an interface does not have are no error.
        if found.is_empty() && !field.to_ascii_uppercase().starts_with("IP") {
            return Err(Failure::input(&format!("invalid field '{field}'.")));
        }
        out.extend(found);
    }
    Ok(out)
}

/// Escapes a value between colons.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace(':', "\\:")
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
        assert_eq!(escaped("80:00\\"), "80\\:00\\\\");
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
