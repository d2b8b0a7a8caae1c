//! Key files in the form of GLib, which NetworkManager keeps its connection profiles in: groups in brackets, lines of
//! `key=value`, comments after `#`.

use std::fmt::Write;

/// Longest file in bytes.
pub const BYTES_MAX: usize = weft_ipc::HOST_FILE_BYTES_MAX;

/// Lines of a file.
const LINES_MAX: usize = 1024;

/// A line of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Name of the group, such as `ipv4`.
    pub group: String,
    /// Name of the key.
    pub key: String,
    /// Value, without escapes.
    pub value: String,
    /// Number of the line, counted from 1; 0 for an entry that no file had.
    pub line: usize,
}

/// Parses a file into its entries, in their order.
///
/// # Errors
/// The text names the line and the fault.
pub fn parse(text: &str) -> Result<Vec<Entry>, String> {
    if text.len() > BYTES_MAX {
        return Err(format!("a key file has at most {BYTES_MAX} bytes, this one {}", text.len()));
    }
    let (mut entries, mut group): (Vec<Entry>, Option<String>) = (Vec::new(), None);
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.trim_start();
        if line > LINES_MAX {
            return Err(format!("a key file has at most {LINES_MAX} lines"));
        }
        if content.trim_end().is_empty() || content.starts_with('#') {
            continue;
        }
        if let Some(rest) = content.strip_prefix('[') {
            group = Some(group_name(rest).ok_or_else(|| format!("line {line}: {content:?} is not a [group]"))?);
            continue;
        }
        let (key, value) =
            content.split_once('=').ok_or_else(|| format!("line {line}: {content:?} is not key=value"))?;
        let (key, group) = (key.trim_end(), group.clone());
        let group = group.ok_or_else(|| format!("line {line}: {key} is in no [group]"))?;
        if key.is_empty() {
            return Err(format!("line {line}: the key is missing before ="));
        }
        if entries.iter().any(|entry| entry.group == group && entry.key == key) {
            return Err(format!("line {line}: {key} is twice in [{group}]"));
        }
        let value = unescaped(value.trim_start()).ok_or_else(|| format!("line {line}: unknown escape in {key}"))?;
        entries.push(Entry { group, key: key.to_owned(), value, line });
    }
    Ok(entries)
}

/// Formats entries as a file. Entries of a group must follow each other.
pub fn format(entries: &[Entry]) -> String {
    let (mut out, mut group) = (String::new(), None);
    for entry in entries {
        if group != Some(&entry.group) {
            let _ = writeln!(out, "{}[{}]", if group.is_some() { "\n" } else { "" }, entry.group);
            group = Some(&entry.group);
        }
        let _ = writeln!(out, "{}={}", entry.key, escaped(&entry.value));
    }
    out
}

fn group_name(rest: &str) -> Option<String> {
    let name = rest.trim_end().strip_suffix(']')?;
    let is_plain = !name.is_empty() && !name.contains(['[', ']']) && !name.contains(char::is_control);
    is_plain.then(|| name.to_owned())
}

fn unescaped(value: &str) -> Option<String> {
    let (mut out, mut chars) = (String::new(), value.chars());
    while let Some(char) = chars.next() {
        out.push(match char {
            '\\' => match chars.next()? {
                's' => ' ',
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                '\\' => '\\',
                // An escaped separator of a list.
                ';' => ';',
                _ => return None,
            },
            '\0' => return None,
            other => other,
        });
    }
    Some(out)
}

fn escaped(value: &str) -> String {
    let mut out = String::new();
    for (at, char) in value.char_indices() {
        match char {
            ' ' if at == 0 => out.push_str("\\s"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\\' => out.push_str("\\\\"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn files_round_trip() {
        let text = "[connection]\nid=a b\nuuid=x\n\n[ipv4]\naddress1=192.0.2.1/24,192.0.2.254\ndns=192.0.2.253;\n";
        assert_eq!(format(&parse(text).unwrap()), text);
        let escaped = "# comment\n\n [ipv4] \n key =\\s x\\ny\n";
        let entries = parse(escaped).unwrap();
        assert_eq!((entries[0].key.as_str(), entries[0].value.as_str(), entries[0].line), ("key", "  x\ny", 4));
        assert_eq!(parse(&format(&entries)).unwrap()[0].value, "  x\ny");
    }

    #[test]
    fn errors_name_the_line() {
        for (text, expected) in [
            ("a=b", "line 1: a is in no [group]"),
            ("[x]\nnonsense", "line 2: \"nonsense\" is not key=value"),
            ("[x\n", "line 1: \"[x\" is not a [group]"),
            ("[]\n", "line 1: \"[]\" is not a [group]"),
            ("[x]\na=1\na=2", "line 3: a is twice in [x]"),
            ("[x]\n=2", "line 2: the key is missing before ="),
            ("[x]\na=\\q", "line 2: unknown escape in a"),
            ("[x]\na=\\", "line 2: unknown escape in a"),
        ] {
            assert_eq!(parse(text), Err(expected.to_owned()));
        }
        assert!(parse(&"#".repeat(BYTES_MAX + 1)).is_err());
        assert!(parse(&"\n".repeat(LINES_MAX + 1)).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "\\PC*|(\\[[a-c=\\\\;\n\\]]{0,8}\\]?\n?([a-c]=[ \\\\snq;]{0,5}\n){0,3}){0,4}") {
            if let Ok(entries) = parse(&text) {
                let again = parse(&format(&entries));
                let plain = |all: &[Entry]| all.iter().map(|e| (e.group.clone(), e.key.clone(), e.value.clone())).collect::<Vec<_>>();
                // Groups that a file has in several parts come apart; the entries stay.
                if let Ok(again) = again {
                    prop_assert_eq!(plain(&again), plain(&entries));
                }
            }
        }
    }
}
