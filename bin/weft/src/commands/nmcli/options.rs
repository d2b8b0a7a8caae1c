//! The options of nmcli before the object.

use super::failure::Failure;

/// Options.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Values without columns, separated by colons.
    pub terse: bool,
    /// Values alone, without the names of properties.
    pub values_only: bool,
    /// Fields to show, as given; none for the usual ones.
    pub fields: Option<Vec<String>>,
    /// Print the version.
    pub version: bool,
    /// Print the usage.
    pub help: bool,
}

/// Options without a value and without an effect on the stand-in.
const IDLE: [&str; 4] = ["ask", "pretty", "show-secrets", "overview"];

/// Options with a value and without an effect.
const IDLE_WITH_VALUE: [&str; 4] = ["colors", "escape", "mode", "wait"];

/// Fields of a list.
const FIELDS_MAX: usize = 64;

impl Options {
    /// Parses the options; returns them with the words behind.
    ///
    /// # Errors
    /// An option is unknown, or its value is missing.
    pub fn parse(words: &[String]) -> Result<(Options, &[String]), Failure> {
        let mut options = Options::default();
        let mut rest = words;
        while let Some((word, after)) = rest.split_first() {
            let Some(option) = word.strip_prefix('-').filter(|option| !option.is_empty()) else { break };
            let option = option.strip_prefix('-').unwrap_or(option);
            rest = after;
            let is = |name: &str| !option.is_empty() && name.starts_with(option);
            let mut value = || {
                let (value, after) = after
                    .split_first()
                    .ok_or_else(|| Failure::input(&format!("missing argument for '{word}' option.")))?;
                rest = after;
                Ok::<_, Failure>(value.clone())
            };
            if is("terse") {
                options.terse = true;
            } else if is("fields") {
                options.fields = Some(fields(&value()?)?);
            } else if is("get-values") {
                options.fields = Some(fields(&value()?)?);
                (options.terse, options.values_only) = (true, true);
            } else if is("version") {
                options.version = true;
            } else if is("help") {
                options.help = true;
            } else if IDLE_WITH_VALUE.into_iter().any(is) {
                value()?;
            } else if !IDLE.into_iter().any(is) {
                return Err(Failure::input(&format!("Option '{word}' is unknown, try 'nmcli -help'.")));
            }
        }
        Ok((options, rest))
    }
}

fn fields(list: &str) -> Result<Vec<String>, Failure> {
    let all: Vec<String> = list.split(',').map(|field| field.trim().to_owned()).collect();
    if all.len() > FIELDS_MAX || all.iter().any(String::is_empty) {
        return Err(Failure::input(&format!("'{list}' is no list of fields.")));
    }
    Ok(all)
}

/// Finds the first name that a word abbreviates.
pub fn abbreviated(word: &str, names: &[&'static str]) -> Option<&'static str> {
    names.iter().copied().find(|name| !word.is_empty() && name.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<(Options, usize), Failure> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&words).map(|(options, rest)| (options, rest.len()))
    }

    #[test]
    fn options_come_before_the_object() {
        let (options, rest) = parse("-t -f NAME,DEVICE con show").unwrap();
        assert_eq!((options.terse, options.values_only, rest), (true, false, 2));
        assert_eq!(options.fields, Some(vec!["NAME".to_owned(), "DEVICE".to_owned()]));
        let (options, rest) = parse("--wait 5 -g ipv4.addresses c show x").unwrap();
        assert_eq!((options.terse, options.values_only, rest), (true, true, 3));
        assert!(parse("--version").unwrap().0.version);
        assert_eq!(parse("-x c").unwrap_err().text, "Error: Option '-x' is unknown, try 'nmcli -help'.");
        assert_eq!(parse("-f").unwrap_err().text, "Error: missing argument for '-f' option.");
        assert!(parse("-f a,,b c").is_err());
    }
}
