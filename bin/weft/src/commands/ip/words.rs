//! The words of an `ip` command line, as far as the stand-in must understand them.

use std::ffi::OsString;

/// Objects that concern IPoIB interfaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Object {
    /// `ip address`.
    Address,
    /// `ip link`.
    Link,
    /// `ip neighbour`.
    Neighbour,
}

/// A command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Words {
    pub json: bool,
    pub pretty: bool,
    pub brief: bool,
    /// 4 or 6, if only that family is wanted.
    pub family: Option<u8>,
    pub object: Object,
    /// Command and arguments of the object.
    pub rest: Vec<String>,
}

/// The objects of `ip` in its order, as far as one may be taken for another: an abbreviation is the first that it begins.
const OBJECTS: [(&str, Option<Object>); 14] = [
    ("address", Some(Object::Address)),
    ("addrlabel", None),
    ("maddress", None),
    ("route", None),
    ("rule", None),
    ("neighbor", Some(Object::Neighbour)),
    ("neighbour", Some(Object::Neighbour)),
    ("ntable", None),
    ("ntbl", None),
    ("link", Some(Object::Link)),
    ("l2tp", None),
    ("netns", None),
    ("netconf", None),
    ("nexthop", None),
];

impl Words {
    /// Reads a command line; `None` if it does not concern IPoIB interfaces, or a part of it is unknown.
    pub fn parse(args: &[OsString]) -> Option<Words> {
        let args: Option<Vec<&str>> = args.iter().map(|arg| arg.to_str()).collect();
        let mut args = args?.into_iter();
        let mut words =
            Words { json: false, pretty: false, brief: false, family: None, object: Object::Link, rest: Vec::new() };
        let object = loop {
            let word = args.next()?;
            let Some(option) = word.strip_prefix('-') else { break word };
            let option = option.strip_prefix('-').unwrap_or(option);
            match option {
                "4" => words.family = Some(4),
                "6" => words.family = Some(6),
                "f" | "family" => match args.next()? {
                    "inet" => words.family = Some(4),
                    "inet6" => words.family = Some(6),
                    _ => return None,
                },
                "l" | "loops" | "rc" | "rcvbuf" => drop(args.next()?),
                "br" | "brief" => words.brief = true,
                "j" | "json" => words.json = true,
                "p" | "pretty" => words.pretty = true,
                "0" | "s" | "stats" | "statistics" | "d" | "details" | "r" | "resolve" | "o" | "oneline" | "t"
                | "timestamp" | "ts" | "tshort" | "h" | "human" | "human-readable" | "iec" | "N" | "Numeric" | "a"
                | "all" => {}
                color if color == "c" || color.starts_with("c=") || color.starts_with("color") => {}
                // Others change what the command is about, such as another network namespace or a file of commands.
                _ => return None,
            }
        };
        words.object = OBJECTS.iter().find(|(name, _)| name.starts_with(object)).and_then(|(_, object)| *object)?;
        words.rest = args.map(str::to_owned).collect();
        Some(words)
    }

    /// Whether the command shows objects and changes none.
    pub fn shows(&self) -> bool {
        self.rest.first().is_none_or(|command| {
            let is = |name: &str| !command.is_empty() && name.starts_with(command.as_str());
            is("show") || is("list") || is("lst")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Option<Words> {
        Words::parse(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_understood_as_ip_does() {
        let link = parse("-d -j -p l show ib0").unwrap();
        assert_eq!((link.object, link.json, link.pretty, link.shows()), (Object::Link, true, true, true));
        assert_eq!(parse("a").map(|words| (words.object, words.shows())), Some((Object::Address, true)));
        assert_eq!(parse("-f inet6 n").map(|words| (words.object, words.family)), Some((Object::Neighbour, Some(6))));
        assert_eq!(parse("-br addr add 10.0.0.1/8 dev ib0").map(|words| words.shows()), Some(false));
        for other in ["route", "-n blue link", "-b file", "-V", "", "m", "xfrm", "ne"] {
            assert_eq!(
                parse(other).map(|words| words.object),
                if other == "ne" { Some(Object::Neighbour) } else { None }
            );
        }
    }
}
