//! udev rules: those that give IPoIB interfaces their names, such as `70-persistent-ipoib.rules`, and those that give
//! management nodes their permissions, such as `90-rdma-umad.rules`.

/// Longest file in bytes.
pub const BYTES_MAX: usize = 64 << 10;

/// Rules of a file.
const RULES_MAX: usize = 256;

/// Longest pattern in bytes: more than any attribute of an interface needs.
const PATTERN_BYTES_MAX: usize = 256;

/// `ARPHRD_INFINIBAND`, as a pattern of `ATTR{type}` meets it.
const LINK_TYPE: &str = "32";

/// A rule that names an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NameRule {
    /// Line of the file, counted from 1.
    pub line: usize,
    /// The name.
    pub name: String,
    /// Conditions of the rule that an interface must meet.
    conditions: Vec<Condition>,
}

/// A rule about the permissions of management nodes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeRule {
    mode: Option<u32>,
    group: Option<String>,
    /// Patterns of KERNEL, and whether they are negated.
    names: Vec<(String, bool)>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Condition {
    subject: Subject,
    pattern: String,
    is_negated: bool,
}

/// A part of an interface that a condition is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Subject {
    Address,
    DevId,
    DevPort,
    Kernel,
    /// The same for all IPoIB interfaces.
    Fixed(&'static str),
}

/// The attributes of an interface that rules compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributes<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its link-layer address, in sysfs's form.
    pub address: &'a str,
    /// Its port, counted from 0.
    pub port: u8,
}

/// Parses a file. Returns its rules, and warnings about lines without effect.
///
/// # Errors
/// The text names the line and the fault.
pub fn parse(text: &str) -> Result<(Vec<NameRule>, Vec<String>), String> {
    if text.len() > BYTES_MAX {
        return Err(format!("a file of rules has at most {BYTES_MAX} bytes, this one {}", text.len()));
    }
    let (mut rules, mut warnings) = (Vec::new(), Vec::new());
    for (line, content) in logical_lines(text) {
        let mut warn = |warning: String| warnings.push(format!("line {line}: {warning}"));
        rules.extend(rule(line, &content, &mut warn).map_err(|why| format!("line {line}: {why}"))?);
    }
    if rules.len() > RULES_MAX {
        return Err(format!("the file has more than {RULES_MAX} rules"));
    }
    Ok((rules, warnings))
}

/// Joins lines that end in a backslash, and leaves out comments.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut all = Vec::new();
    let mut begun: Option<(usize, String)> = None;
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.trim();
        if begun.is_none() && (content.is_empty() || content.starts_with('#')) {
            continue;
        }
        let (first, mut joined) = begun.take().unwrap_or((line, String::new()));
        match content.strip_suffix('\\') {
            Some(part) => {
                joined.push_str(part);
                begun = Some((first, joined));
            }
            None => {
                joined.push_str(content);
                all.push((first, joined));
            }
        }
    }
    all.extend(begun);
    all
}

/// Parses a rule; `None` for one without effect. Warns of that, and of its parts without effect.
fn rule(line: usize, text: &str, warn: &mut impl FnMut(String)) -> Result<Option<NameRule>, String> {
    let (mut conditions, mut name) = (Vec::new(), None);
    let mut rest = text;
    while !rest.trim().is_empty() {
        let (key, operator, value, after) = pair(rest)?;
        rest = after;
        if (key, operator) == ("NAME", "=") || (key, operator) == ("NAME", ":=") {
            name = Some(value.to_owned());
            continue;
        }
        // The name is set all the same.
        if !matches!(operator, "==" | "!=") {
            warn(match key {
                "MODE" | "GROUP" => {
                    format!("{key}= of nodes takes effect from /etc/udev/rules.d, in views that root starts")
                }
                _ => format!("{key}{operator} has no effect on a host of a fabric"),
            });
            continue;
        }
        let Some(subject) = subject(key) else {
            warn(format!("{key} is not known of a host's interfaces: the rule applies to none"));
            return Ok(None);
        };
        if value.len() > PATTERN_BYTES_MAX {
            return Err(format!("the pattern of {key} has more than {PATTERN_BYTES_MAX} bytes"));
        }
        conditions.push(Condition { subject, pattern: value.to_owned(), is_negated: operator == "!=" });
    }
    let Some(name) = name else {
        warn("the rule sets no NAME= and has no effect on a host of a fabric".to_owned());
        return Ok(None);
    };
    super::profile::check_interface_name(&name).map_err(|why| format!("NAME={why}"))?;
    Ok(Some(NameRule { line, name, conditions }))
}

/// Whether a node is one of management datagrams: the others are open to all users.
pub fn is_management_node(name: &str) -> bool {
    name.starts_with("umad") || name.starts_with("issm")
}

/// Returns the rules of a file that give management nodes permissions or a group. Rules with other conditions than those
/// about names and the subsystem are none of them.
pub fn node_rules(text: &str) -> Vec<NodeRule> {
    logical_lines(text).into_iter().filter_map(|(_, content)| node_rule(&content)).take(RULES_MAX).collect()
}

fn node_rule(text: &str) -> Option<NodeRule> {
    let mut found = NodeRule::default();
    let mut is_of_nodes = false;
    let mut rest = text;
    while !rest.trim().is_empty() {
        let (key, operator, value, after) = pair(rest).ok()?;
        rest = after;
        let matches = |text: &str| value.split('|').any(|pattern| glob(pattern.as_bytes(), text.as_bytes()));
        match (key, operator) {
            _ if value.len() > PATTERN_BYTES_MAX => return None,
            ("MODE", "=" | ":=") => found.mode = u32::from_str_radix(value, 8).ok().filter(|mode| *mode <= 0o777),
            ("GROUP", "=" | ":=") => found.group = Some(value.to_owned()),
            ("KERNEL", "==" | "!=") => {
                is_of_nodes |= operator == "==" && value.split('|').any(is_management_node);
                found.names.push((value.to_owned(), operator == "!="));
            }
            ("SUBSYSTEM", "==") if matches("infiniband_mad") => is_of_nodes = true,
            ("ACTION", "==") if matches("add") => {}
            ("ACTION", "!=") if !matches("add") => {}
            // They change nothing about permissions.
            ("NAME" | "SYMLINK" | "TAG" | "OPTIONS" | "LABEL", "=" | ":=" | "+=" | "-=") => {}
            (key, "=" | "+=") if key.starts_with("ENV{") => {}
            _ => return None,
        }
    }
    (is_of_nodes && (found.mode.is_some() || found.group.is_some())).then_some(found)
}

/// Returns the permissions and the group that the rules give a node, if any: later rules win.
pub fn rights<'a>(rules: &'a [NodeRule], name: &str) -> (Option<u32>, Option<&'a str>) {
    let matches = |pattern: &str| pattern.split('|').any(|one| glob(one.as_bytes(), name.as_bytes()));
    let holds = |rule: &&NodeRule| rule.names.iter().all(|(pattern, negated)| matches(pattern) != *negated);
    rules
        .iter()
        .filter(holds)
        .fold((None, None), |(mode, group), rule| (rule.mode.or(mode), rule.group.as_deref().or(group)))
}

/// Splits off the first `KEY==\"value\"`.
fn pair(text: &str) -> Result<(&str, &str, &str, &str), String> {
    let text = text.trim_start_matches(|char: char| char == ',' || char.is_whitespace());
    let malformed = || format!("{text:?} is not KEY==\"value\"");
    let at = text.find(['=', '!', ':', '+', '-']).ok_or_else(malformed)?;
    let (key, rest) = text.split_at(at);
    let length = rest.find('"').ok_or_else(malformed)?;
    let (operator, rest) = rest.split_at(length);
    let rest = rest.strip_prefix('"').ok_or_else(malformed)?;
    let (value, rest) = rest.split_once('"').ok_or_else(|| format!("the value of {key} has no end"))?;
    let (key, operator) = (key.trim(), operator.trim());
    let is_operator = matches!(operator, "==" | "!=" | "=" | ":=" | "+=" | "-=");
    if key.is_empty() || !is_operator { Err(malformed()) } else { Ok((key, operator, value, rest)) }
}

fn subject(key: &str) -> Option<Subject> {
    Some(match key {
        "ACTION" => Subject::Fixed("add"),
        "SUBSYSTEM" => Subject::Fixed("net"),
        // The name of the adapter's driver: rules ask that there be one.
        "DRIVERS" => Subject::Fixed("weft"),
        "ATTR{type}" => Subject::Fixed(LINK_TYPE),
        "ATTR{address}" => Subject::Address,
        "ATTR{dev_id}" => Subject::DevId,
        "ATTR{dev_port}" => Subject::DevPort,
        "KERNEL" => Subject::Kernel,
        _ => return None,
    })
}

impl NameRule {
    /// Returns whether the rule is for this interface.
    pub fn matches(&self, interface: &Attributes<'_>) -> bool {
        self.conditions.iter().all(|condition| {
            let text = match condition.subject {
                Subject::Address => interface.address.to_owned(),
                Subject::DevId => format!("{:#x}", interface.port),
                Subject::DevPort => interface.port.to_string(),
                Subject::Kernel => interface.name.to_owned(),
                Subject::Fixed(text) => text.to_owned(),
            };
            let matches = condition.pattern.split('|').any(|pattern| glob(pattern.as_bytes(), text.as_bytes()));
            matches != condition.is_negated
        })
    }
}

/// Matches a shell pattern as fnmatch(3) does: `*`, `?`, `[a-f]`, `[!0]`. Goes back to the last `*` only, so the time is
/// bounded by the product of the lengths.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while read < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, read));
                at += 1;
                continue;
            }
            Some(_) => {
                if let Some(length) = one(&pattern[at..], text[read]) {
                    at += length;
                    read += 1;
                    continue;
                }
            }
            None => {}
        }
        let Some((star_at, from)) = star else { return false };
        star = Some((star_at, from + 1));
        (at, read) = (star_at + 1, from + 1);
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Matches one byte; returns the length of the pattern for it.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', rest @ ..] => {
            let negated = matches!(rest.first(), Some(b'!' | b'^'));
            let from = usize::from(negated);
            // A bracket directly after the opening one is a member of the set.
            let Some(end) = rest.iter().skip(from + 1).position(|byte| *byte == b']').map(|place| place + from + 1)
            else {
                return (byte == b'[').then_some(1);
            };
            (in_set(&rest[from..end], byte) != negated).then_some(end + 2)
        }
        [literal, ..] => (*literal == byte).then_some(1),
        [] => None,
    }
}

fn in_set(set: &[u8], byte: u8) -> bool {
    let mut at = 0;
    while at < set.len() {
        if let (Some(b'-'), Some(last)) = (set.get(at + 1), set.get(at + 2)) {
            if (set[at]..=*last).contains(&byte) {
                return true;
            }
            at += 3;
        } else if set[at] == byte {
            return true;
        } else {
            at += 1;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Red Hat's guide, 4.1.
    const OF_THE_GUIDE: &str = "ACTION==\"add\", SUBSYSTEM==\"net\", DRIVERS==\"?*\", ATTR{type}==\"32\", \
                                ATTR{address}==\"?*00:02:c9:03:00:31:78:f2\", NAME=\"mlx4_ib0\"\n";

    const ADDRESS: &str = "80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:31:78:f2";

    fn attributes(address: &str) -> Attributes<'_> {
        Attributes { name: "ib0", address, port: 0 }
    }

    #[test]
    fn the_guide_s_rule_names_the_interface_with_that_guid() {
        let (rules, warnings) = parse(OF_THE_GUIDE).unwrap();
        assert_eq!((rules[0].name.as_str(), warnings.len()), ("mlx4_ib0", 0));
        assert!(rules[0].matches(&attributes(ADDRESS)));
        assert!(!rules[0].matches(&attributes(&ADDRESS.replace("f2", "f3"))));
        let continued = OF_THE_GUIDE.replace("ATTR{address}", "\\\n  ATTR{address}");
        assert_eq!(parse(&format!("# comment\n\n{continued}")).unwrap().0[0].conditions, rules[0].conditions);
    }

    #[test]
    fn other_conditions_count() {
        let with = |more: &str| parse(&OF_THE_GUIDE.replace("NAME=", &format!("{more}, NAME="))).unwrap().0;
        for (more, expected) in [
            ("ATTR{dev_id}==\"0x0\"", true),
            ("ATTR{dev_id}==\"0x1\"", false),
            ("ATTR{dev_port}!=\"1\"", true),
            ("KERNEL==\"ib*|eth*\"", true),
            ("KERNEL==\"eth[0-9]\"", false),
            ("ACTION==\"remove\"", false),
        ] {
            assert_eq!(with(more)[0].matches(&attributes(ADDRESS)), expected, "{more}");
        }
    }

    #[test]
    fn rules_without_effect_are_named() {
        for (text, part) in [
            ("KERNEL==\"umad*\", MODE=\"0666\"", "MODE= of nodes takes effect from /etc/udev/rules.d"),
            ("SUBSYSTEM==\"net\"", "sets no NAME="),
            ("ENV{x}==\"y\", NAME=\"ib7\"", "ENV{x} is not known"),
        ] {
            let (rules, warnings) = parse(text).unwrap();
            assert!(rules.is_empty() && warnings[0].contains(part), "{warnings:?}");
        }
    }

    #[test]
    fn rules_open_management_nodes() {
        // Debian's guide, and the usual one for a group.
        let guide = "KERNEL==\"umad*\", NAME=\"infiniband/%k\", MODE=\"0666\" \n";
        let group = "SUBSYSTEM==\"infiniband_mad\", KERNEL==\"*umad*\", MODE=\"0660\", GROUP=\"rdma\"";
        let of = |text: &str, node: &str| {
            let rules = node_rules(text);
            let (mode, group) = rights(&rules, node);
            (mode, group.map(str::to_owned))
        };
        assert_eq!(of(guide, "umad3"), (Some(0o666), None));
        assert_eq!(of(guide, "issm3"), (None, None));
        assert_eq!(of(&format!("{guide}{group}"), "umad0"), (Some(0o660), Some("rdma".to_owned())));
        for other in [
            "KERNEL==\"sd*\", MODE=\"0666\"",
            "KERNEL==\"umad*\", ATTRS{node_guid}==\"x\", MODE=\"0666\"",
            "KERNEL==\"umad*\", ACTION==\"remove\", MODE=\"0666\"",
            "KERNEL==\"umad*\", MODE=\"7777\"",
            "KERNEL==\"umad*\", MODE=\"open\"",
        ] {
            assert_eq!(of(other, "umad0"), (None, None), "{other}");
        }
    }

    #[test]
    fn malformed_rules_are_refused() {
        for bad in [
            "NAME",
            "NAME=ib0",
            "NAME=\"ib0",
            "=\"x\"",
            "NAME=\"a/b\"",
            "NAME=\"a_name_that_is_too_long\"",
            "KERNEL=~\"x\"",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(parse(&"#".repeat(BYTES_MAX + 1)).is_err());
        assert!(parse(&format!("KERNEL==\"{}\", NAME=\"x\"", "*".repeat(PATTERN_BYTES_MAX + 1))).is_err());
    }

    #[test]
    fn patterns_match_as_the_shell_s() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("?*", "", false),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "aXbY", false),
            ("[a-c]?", "b1", true),
            ("[!a-c]", "b", false),
            ("[]]", "]", true),
            ("[", "[", true),
        ] {
            assert_eq!(glob(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
        assert!(!glob("*a".repeat(100).as_bytes(), "a".repeat(90).as_bytes()));
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "(ATTR\\{a|KERNEL|NAME|MODE|umad|==|=|!|\"|\\[|\\]|\\*|-|a| |,|\n|\\\\){0,30}") {
            if let Ok((rules, _)) = parse(&text) {
                for rule in rules {
                    rule.matches(&attributes(ADDRESS));
                }
            }
            rights(&node_rules(&text), "umad0");
        }
    }
}
