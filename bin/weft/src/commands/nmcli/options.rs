//! The options of nmcli before the object.

use super::failure::Failure;

/// Options.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Values without columns, separated by colons.
    pub terse: bool,
    /// Values alone, without the names of properties.
    pub values_only: bool,
    /// Whether `:` and `\` in terse columns are escaped.
    pub escape: bool,
    /// Form of the output, if the user wants another one than the usual.
    pub mode: Option<Mode>,
    /// Fields to show, as given; none for the usual ones.
    pub fields: Option<Vec<String>>,
    /// Print the version.
    pub version: bool,
    /// Print the usage.
    pub help: bool,
}

/// Form of the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// An object in each line, a property in each column.
    Tabular,
    /// A property in each line.
    Multiline,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            terse: false,
            values_only: false,
            escape: true,
            mode: None,
            fields: None,
            version: false,
            help: false,
        }
    }
}

/// Options without a value and without an effect on the stand-in. It never asks for missing words: they are errors, as
/// where nmcli has no terminal.
const IDLE: [&str; 5] = ["ask", "pretty", "show-secrets", "overview", "nocheck"];

/// Options with a value and without an effect.
const IDLE_WITH_VALUE: [&str; 2] = ["colors", "wait"];

/// Values of `--escape` and `--mode`.
const ESCAPES: [(&str, bool); 2] = [("yes", true), ("no", false)];
const MODES: [(&str, Mode); 2] = [("tabular", Mode::Tabular), ("multiline", Mode::Multiline)];

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
            } else if is("escape") {
                options.escape = chosen(word, &value()?, &ESCAPES)?;
            } else if is("mode") {
                options.mode = Some(chosen(word, &value()?, &MODES)?);
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

/// Finds the first value that a word abbreviates.
fn chosen<T: Copy>(option: &str, word: &str, values: &[(&str, T)]) -> Result<T, Failure> {
    let found = values.iter().find(|(name, _)| !word.is_empty() && name.starts_with(word));
    found
        .map(|(_, value)| *value)
        .ok_or_else(|| Failure::input(&format!("'{word}' is not a valid argument for '{option}' option.")))
}

fn fields(list: &str) -> Result<Vec<String>, Failure> {
    let all: Vec<String> = list.split(',').map(|field| field.trim().to_owned()).collect();
    if all.len() > FIELDS_MAX || all.iter().any(String::is_empty) {
        return Err(Failure::input(&format!("'{list}' is not a list of fields.")));
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
        let (options, rest) = parse("-e no --ask --mode multi -t d").unwrap();
        assert_eq!((options.escape, options.mode, rest), (false, Some(Mode::Multiline), 1));
        assert_eq!(parse("-m tab d").unwrap().0.mode, Some(Mode::Tabular));
        let wrong = parse("-e maybe d").unwrap_err().text;
        assert_eq!(wrong, "Error: 'maybe' is not a valid argument for '-e' option.");
        assert_eq!(parse("-m").unwrap_err().text, "Error: missing argument for '-m' option.");
        assert_eq!(parse("-x c").unwrap_err().text, "Error: Option '-x' is unknown, try 'nmcli -help'.");
        assert_eq!(parse("-f").unwrap_err().text, "Error: missing argument for '-f' option.");
        assert!(parse("-f a,,b c").is_err());
    }
}
