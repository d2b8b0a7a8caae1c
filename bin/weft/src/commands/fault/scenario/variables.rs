//! Variables of a scenario: `${NAME}` in its texts, from `weft fault run --set NAME=VALUE` or from the file's `[defaults]`.

use std::collections::BTreeMap;

use toml::{Table, Value};

/// Values by name.
pub(super) type Variables = BTreeMap<String, String>;

/// Parses a word of the command line, `NAME=VALUE`.
pub(super) fn parse(word: &str) -> Result<(String, String), String> {
    let (name, value) = word.split_once('=').ok_or("a variable is NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Replaces the variables in all texts of a file. The values themselves have none.
///
/// # Errors
/// A variable has no value, or the user sets one that the file does not have.
pub(super) fn replace(mut file: Table, set: &Variables) -> Result<Table, String> {
    let mut values = Variables::new();
    if let Some(Value::Table(defaults)) = file.get("defaults") {
        for (name, value) in defaults {
            let text = value.as_str().ok_or_else(|| format!("defaults: {name} is no text"))?;
            values.insert(name.clone(), text.to_owned());
        }
    }
    values.extend(set.clone());
    let mut used = Vec::new();
    for (key, value) in &mut file {
        if key != "defaults" {
            fill(value, &values, &mut used)?;
        }
    }
    match set.keys().find(|name| !used.contains(name)) {
        Some(name) => Err(format!("--set {name}: the scenario has no ${{{name}}}")),
        None => Ok(file),
    }
}

fn fill(value: &mut Value, values: &Variables, used: &mut Vec<String>) -> Result<(), String> {
    match value {
        Value::String(text) => *text = filled(text, values, used)?,
        Value::Array(values_of) => values_of.iter_mut().try_for_each(|value| fill(value, values, used))?,
        Value::Table(table) => table.iter_mut().try_for_each(|(_, value)| fill(value, values, used))?,
        _ => {}
    }
    Ok(())
}

fn filled(text: &str, values: &Variables, used: &mut Vec<String>) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').ok_or_else(|| format!("\"{text}\": ${{ has no end"))?;
        let value = values.get(name).ok_or_else(|| format!("the scenario needs a value: --set {name}=..."))?;
        used.push(name.to_owned());
        out += before;
        out += value;
        rest = after;
    }
    Ok(out + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(file: &str, set: &[(&str, &str)]) -> Result<String, String> {
        let set = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        replace(file.parse().unwrap(), &set).map(|table| format!("{table:?}"))
    }

    const FILE: &str = "seed = 1\n[defaults]\nto = \"10.0.0.1\"\n[[step]]\nfault = \"loss=${share},to=${to}\"";

    #[test]
    fn values_come_from_the_user_and_else_from_the_file() {
        let with_default = texts(FILE, &[("share", "5%")]).unwrap();
        assert!(with_default.contains("\"loss=5%,to=10.0.0.1\""), "{with_default}");
        let with_both = texts(FILE, &[("share", "5%"), ("to", "fd77::1")]).unwrap();
        assert!(with_both.contains("to=fd77::1"), "{with_both}");
        let not_again = texts(FILE, &[("share", "${to}")]).unwrap();
        assert!(not_again.contains("loss=${to},"), "a value has no variables: {not_again}");
    }

    #[test]
    fn mistakes_are_named() {
        assert!(texts(FILE, &[]).unwrap_err().contains("--set share=..."));
        assert!(texts(FILE, &[("share", "1%"), ("rail", "2")]).unwrap_err().contains("no ${rail}"));
        assert!(texts("a = \"${b\"", &[]).unwrap_err().contains("has no end"));
        assert!(texts("[defaults]\nx = 1", &[]).unwrap_err().contains("x is no text"));
        assert!(parse("share").unwrap_err().contains("NAME=VALUE"));
    }
}
