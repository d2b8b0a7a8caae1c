//! Parser of partitions.conf: `name=key,flags : members ;`, as OpenSM reads it, abbreviations included. Mistakes that
//! OpenSM ignores silently get a diagnostic here. Mistakes that make OpenSM reject the whole file make this parser reject
//! it too, but it reports all of them at once.

use std::net::Ipv6Addr;

use super::config::{Config, DEFAULT_KEY, Group, GroupFlags, Member, Membership, Rule, Who};
use super::groups::disagreement;
use super::piece::Piece;
use crate::options::{Diagnostic, Diagnostics, bounded, clip, number};

/// Words for groups of ports; a word may be abbreviated, and the first match counts.
const WHO: &[(&str, Who)] = &[
    ("ALL", Who::All),
    ("ALL_CAS", Who::Cas),
    ("ALL_SWITCHES", Who::Switches),
    ("ALL_ROUTERS", Who::Routers),
    ("SELF", Who::Myself),
];

/// Memberships; a word may be abbreviated, and the first match counts.
const MEMBERSHIPS: &[(&str, Membership)] =
    &[("full", Membership::Full), ("both", Membership::Both), ("limited", Membership::Limited)];

/// Flags of groups; a word may be abbreviated, and the first match counts.
const GROUP_FLAGS: &[&str] = &["mtu", "rate", "scope", "Q_Key", "TClass", "sl", "FlowLabel"];

/// Parses a file; `file` names it in diagnostics.
pub fn parse(text: &str, file: &str) -> (Config, Vec<Diagnostic>) {
    let mut parser = Parser { diagnostics: Diagnostics::of(file), rules: Vec::new(), open: None, broken: false };
    if bounded(text).len() < text.len() {
        parser.broken((0, 0), "the file is too long to be one of partitions", "is this the right file?");
    }
    for (number, line) in (1u32..).zip(bounded(text).lines()) {
        parser.line(Piece::of(number, line.split('#').next().unwrap_or("")));
    }
    parser.end()
}

struct Parser {
    diagnostics: Diagnostics,
    rules: Vec<Rule>,
    /// The unfinished rule, and the default membership of its members.
    open: Option<(Rule, Membership)>,
    broken: bool,
}

impl Parser {
    fn line(&mut self, line: Piece<'_>) {
        let mut rest = Some(line);
        while let Some(piece) = rest {
            let (statement, behind) = piece.cut(';');
            if !statement.text().is_empty() {
                self.statement(statement);
            } else if behind.is_some() {
                self.lone_end(statement);
            }
            if behind.is_some() {
                self.rules.extend(self.open.take().map(|(rule, _)| rule));
            }
            rest = behind;
        }
    }

    /// Handles a `;` at the beginning of a line. OpenSM rejects the file there; if the rule's first line ends at the
    /// colon and members follow, it accepts some such files and rejects others.
    fn lone_end(&mut self, piece: Piece<'_>) {
        let what = "a ; stands by itself, where OpenSM gives the file up";
        let Some((rule, _)) = &self.open else {
            self.broken(piece.at(), what, "leave it out");
            return;
        };
        let mut lines = rule.members.iter().map(|member| member.line).chain(rule.groups.iter().map(|group| group.line));
        let follow = lines.next().is_some_and(|first| first != rule.line) && lines.all(|line| line != rule.line);
        let fix = "write it behind the last member";
        match follow {
            true => {
                self.diagnostics.warning(piece.at(), "a ; stands by itself, where OpenSM may give the file up", fix)
            }
            false => self.broken(piece.at(), what, fix),
        }
    }

    fn statement(&mut self, piece: Piece<'_>) {
        let Some((mut rule, mut membership)) = self.open.take() else {
            self.header(piece);
            return;
        };
        self.members(piece, &mut rule, &mut membership);
        self.open = Some((rule, membership));
    }

    fn header(&mut self, piece: Piece<'_>) {
        let (definition, members) = piece.cut(':');
        let Some(members) = members else {
            let what = format!("no partition is defined by {}: there is no colon", clip(piece.text()));
            self.broken(piece.at(), what, "write NAME=KEY, flags : members ; with the colon in the first line");
            return;
        };
        let mut parts = definition.split(',');
        let mut rule = self.name_and_key(parts.next().unwrap_or(definition));
        let mut membership = Membership::Limited;
        for flag in parts {
            self.rule_flag(flag, &mut rule, &mut membership);
        }
        if !members.text().is_empty() {
            self.members(members, &mut rule, &mut membership);
        }
        self.open = Some((rule, membership));
    }

    fn name_and_key(&mut self, piece: Piece<'_>) -> Rule {
        let (name, key) = piece.cut('=');
        // A lone number is a key.
        let alone = key.is_none() && name.text().starts_with(|c: char| c.is_ascii_digit());
        let key = if alone { Some(name) } else { key };
        let name_text = if alone { "" } else { name.text() };
        let key = key.and_then(|piece| self.key(piece));
        Rule {
            line: piece.at().0,
            name: name_text.to_owned(),
            key,
            index0: false,
            ipoib: false,
            flags: GroupFlags::default(),
            members: Vec::new(),
            groups: Vec::new(),
        }
    }

    fn key(&mut self, piece: Piece<'_>) -> Option<u16> {
        let value = match number(piece.text()) {
            Ok(value) => value,
            Err(wrong) => {
                self.broken(piece.at(), format!("P_Key: {wrong}"), "write a number such as 0x0002");
                return None;
            }
        };
        if value > 0xffff {
            let what = format!("P_Key {} has more than 16 bits: only the low 15 count", clip(piece.text()));
            self.diagnostics.warning(piece.at(), what, "write 0x0001 to 0x7fff");
        }
        let key = (value & 0x7fff) as u16;
        if key == 0 {
            let fix = "write 0x0001 to 0x7fff, or no key";
            self.diagnostics.warning(piece.at(), "P_Key 0 is none: one is made up", fix);
        }
        (key != 0).then_some(key)
    }

    fn rule_flag(&mut self, piece: Piece<'_>, rule: &mut Rule, membership: &mut Membership) {
        let (name, value) = piece.cut('=');
        let word = name.text();
        if word.is_empty() {
            self.diagnostics.warning(piece.at(), "nothing stands between two commas", "leave one of them out");
        } else if self.group_flag(name, value, &mut rule.flags) {
        } else if "ipoib".starts_with(word) {
            self.abbreviated(name, "ipoib");
            rule.ipoib = true;
        } else if "defmember".starts_with(word) {
            self.abbreviated(name, "defmember");
            *membership = self.membership(value, name).unwrap_or(*membership);
        } else if word == "indx0" {
            rule.index0 = true;
        } else {
            let what = format!("no flag of a partition is called {}; it is passed over", clip(word));
            self.diagnostics.error(
                piece.at(),
                what,
                "flags: ipoib, indx0, defmember=, rate=, mtu=, sl=, scope=, Q_Key=, TClass=, FlowLabel=",
            );
        }
    }

    /// Applies a group flag; `false` if the name is not one.
    fn group_flag(&mut self, name: Piece<'_>, value: Option<Piece<'_>>, flags: &mut GroupFlags) -> bool {
        let Some(flag) = GROUP_FLAGS.iter().find(|flag| flag.starts_with(name.text())) else { return false };
        self.abbreviated(name, flag);
        let given = value.map_or("", |value| value.text());
        let (low, high) = match *flag {
            "mtu" => (1, 5),
            "rate" => (2, 63),
            "scope" => (1, 15),
            "Q_Key" => (0, u64::from(u32::MAX)),
            "TClass" => (0, 255),
            "sl" => (0, 15),
            _ => (0, 0xf_ffff),
        };
        let number = match number(given) {
            Ok(number) if (low..=high).contains(&number) => number as u32,
            Ok(_) | Err(_) => {
                let what = format!(
                    "{flag} cannot be {}; it stays what it was",
                    if given.is_empty() { "nothing" } else { given }
                );
                self.diagnostics.error(
                    value.unwrap_or(name).at(),
                    clip(&what),
                    format!("write a number from {low} to {high}"),
                );
                return true;
            }
        };
        match *flag {
            "mtu" => flags.mtu = number as u8,
            "rate" => flags.rate = number as u8,
            "scope" => flags.scopes |= 1 << number,
            "Q_Key" => flags.qkey = number,
            "TClass" => flags.tclass = number as u8,
            "sl" => flags.sl = number as u8,
            _ => flags.flow_label = number,
        }
        true
    }

    fn members(&mut self, piece: Piece<'_>, rule: &mut Rule, default: &mut Membership) {
        let mut rest = Some(piece);
        while let Some(piece) = rest {
            let (item, behind) = piece.cut(',');
            rest = behind;
            let (name, value) = item.cut('=');
            match name.text() {
                "" if value.is_none() => {}
                "mgid" => {
                    self.group(value.unwrap_or(name), behind, rule);
                    return;
                }
                // The manual's example has defmember after the colon, and a second colon after it.
                "defmember" if value.is_some_and(|value| value.cut(':').1.is_some()) => {
                    let (membership, member) = value.unwrap_or(name).cut(':');
                    let what =
                        "defmember stands behind the colon, where OpenSM takes it for a member and gives the file up";
                    self.diagnostics.warning(name.at(), what, "write it before the colon");
                    *default = self.membership(Some(membership), name).unwrap_or(*default);
                    rest = member.and_then(|member| join(member, behind));
                }
                _ => self.member(item, name, value, rule, *default),
            }
        }
    }

    fn member(
        &mut self,
        item: Piece<'_>,
        name: Piece<'_>,
        value: Option<Piece<'_>>,
        rule: &mut Rule,
        default: Membership,
    ) {
        let word = name.text();
        if "NONE".starts_with(word) {
            return;
        }
        let membership = match value {
            None => default,
            Some(value) => self.membership(Some(value), name).unwrap_or_default(),
        };
        let who = match WHO.iter().find(|(known, _)| known.starts_with(word)) {
            Some((known, who)) => {
                self.abbreviated(name, known);
                *who
            }
            None => match number(word) {
                Ok(guid) if guid != 0 => Who::Guid(guid),
                _ => return self.no_member(item, word),
            },
        };
        rule.members.push(Member { line: item.at().0, who, membership });
    }

    fn no_member(&mut self, item: Piece<'_>, word: &str) {
        let fix = if word == "ALL SWITCHES" || word == "ALL CAS" || word == "ALL ROUTERS" {
            format!("write {}", word.replace(' ', "_"))
        } else if item.text().contains(':') {
            "is a ; missing at the end of the line before?".to_owned()
        } else {
            "write a port's GUID as 0x..., ALL, ALL_CAS, ALL_SWITCHES, ALL_ROUTERS or SELF".to_owned()
        };
        self.broken(item.at(), format!("{} is no port", clip(item.text())), fix);
    }

    fn membership(&mut self, value: Option<Piece<'_>>, name: Piece<'_>) -> Option<Membership> {
        let word = value.map_or("", |value| value.text());
        let found = MEMBERSHIPS.iter().find(|(known, _)| !word.is_empty() && known.starts_with(word));
        let at = value.unwrap_or(name);
        match found {
            Some((known, membership)) => {
                self.abbreviated(at, known);
                Some(*membership)
            }
            None => {
                let what = format!(
                    "no membership is called {}: it is taken as limited",
                    clip(if word.is_empty() { "nothing" } else { word })
                );
                self.diagnostics.error(at.at(), what, "write full, limited or both");
                None
            }
        }
    }

    fn group(&mut self, mgid: Piece<'_>, flags: Option<Piece<'_>>, rule: &mut Rule) {
        let inherited = GroupFlags { tclass: 0, ..rule.flags };
        let address = mgid.text().parse::<Ipv6Addr>().map(|address| address.octets());
        let mut group = Group { line: mgid.at().0, mgid: address.unwrap_or_default(), flags: inherited };
        for flag in flags.into_iter().flat_map(|flags| flags.split(',')) {
            let (name, value) = flag.cut('=');
            if name.text().is_empty() {
                self.diagnostics.warning(flag.at(), "nothing stands behind a comma", "leave the comma out");
            } else if !self.group_flag(name, value, &mut group.flags) {
                let what = format!("no flag of a group is called {}; it is passed over", clip(name.text()));
                self.diagnostics.error(
                    flag.at(),
                    what,
                    "a group has its line alone: mgid=..., flags; members stand in other lines",
                );
            }
        }
        if group.mgid[0] != 0xff {
            let what = format!("{} is no multicast GID; there is no such group", clip(mgid.text()));
            self.diagnostics.error(mgid.at(), what, "write one such as ff12:401b::ffff:ffff");
        } else {
            self.check_ip_group(mgid, &group, rule);
            rule.groups.push(group);
        }
    }

    /// Checks that an IP group agrees with the broadcast group; one that does not is not created.
    fn check_ip_group(&mut self, mgid: Piece<'_>, group: &Group, rule: &Rule) {
        if !group.is_ip() {
            return;
        }
        if let Some(wrong) = disagreement(group, rule.flags, rule.key) {
            let what = format!("{}: {wrong}; there is no such group", clip(mgid.text()));
            self.diagnostics.error(mgid.at(), what, "write what the partition says, or nothing");
        }
    }

    fn abbreviated(&mut self, piece: Piece<'_>, known: &str) {
        if piece.text() != known {
            let what = format!("{} is taken for {known}", clip(piece.text()));
            self.diagnostics.note(piece.at(), what, format!("write {known}"));
        }
    }

    fn broken(&mut self, at: (u32, u32), what: impl Into<String>, fix: impl Into<String>) {
        self.broken = true;
        self.diagnostics.error(at, what, fix);
    }

    fn end(mut self) -> (Config, Vec<Diagnostic>) {
        if let Some((rule, _)) = self.open.take() {
            self.diagnostics.warning(
                (rule.line, 0),
                "the last rule has no end; it counts all the same",
                "write ; at its end",
            );
            self.rules.push(rule);
        }
        if self.broken || self.rules.is_empty() {
            let what = "the file cannot be used: everybody would be a full member of the default partition alone";
            self.diagnostics.error(
                (0, 0),
                what,
                if self.broken { "fix the mistakes" } else { "write a rule, or remove the file" },
            );
            return (Config::Broken, self.diagnostics.into_list());
        }
        if !self.rules.iter().any(Rule::is_default) {
            let what = format!(
                "no rule for the default partition: all but the manager's port are limited members of {DEFAULT_KEY:#06x}, and hosts do not reach each other there"
            );
            self.diagnostics.warning((0, 0), what, "write Default=0x7fff : ALL=full ;");
        }
        (Config::Rules(self.rules), self.diagnostics.into_list())
    }
}

/// Joins a piece with those that follow it.
fn join<'a>(first: Piece<'a>, behind: Option<Piece<'a>>) -> Option<Piece<'a>> {
    Some(behind.map_or(first, |behind| first.through(behind)))
}
