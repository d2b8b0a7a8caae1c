//! Reading and printing of subnet administration records: fields by their position, lines with dots.

use std::fmt::Write;
use std::net::Ipv6Addr;

use serde_json::{Map, Value, json};
use weft_wire::span::Span;

/// A record's bytes; bytes beyond its end read as zeros.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    /// A number.
    pub fn get(self, at: Span) -> u64 {
        at.value(self.0)
    }

    /// One byte of a field.
    pub fn byte(self, at: Span, index: usize) -> u8 {
        at.bytes(self.0).get(index).copied().unwrap_or(0)
    }

    /// A GID's sixteen bytes.
    pub fn gid(self, at: Span) -> [u8; 16] {
        std::array::from_fn(|index| self.byte(at, index))
    }

    /// The bytes of a field, or fewer at the record's end.
    pub fn part(self, at: Span) -> Bytes<'a> {
        Bytes(at.bytes(self.0))
    }
}

/// A GID in inet_ntop's format: like [`Ipv6Addr`], but embedded IPv4 addresses in dotted form.
pub fn gid_text(gid: [u8; 16]) -> String {
    let [a, b, c, d] = [gid[12], gid[13], gid[14], gid[15]];
    if gid[..12] == [0; 12] && (a, b) != (0, 0) {
        return format!("::{a}.{b}.{c}.{d}");
    }
    Ipv6Addr::from(gid).to_string()
}

/// A printed value.
#[derive(Clone, Debug)]
pub enum Shown {
    /// Decimal.
    Decimal(u64),
    /// `0x` and capital digits, at least so many.
    Hex(u64, usize),
    /// `0x` and lower-case digits, at least so many.
    Small(u64, usize),
    /// Literal text.
    Text(String),
}

impl Shown {
    fn text(&self) -> String {
        match *self {
            Shown::Decimal(value) => value.to_string(),
            Shown::Hex(value, digits) => format!("0x{value:0digits$X}"),
            Shown::Small(value, digits) => format!("0x{value:0digits$x}"),
            Shown::Text(ref text) => text.clone(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Shown::Decimal(value) => (*value).into(),
            other => other.text().into(),
        }
    }
}

/// Decimal.
pub fn dec(value: impl Into<u64>) -> Shown {
    Shown::Decimal(value.into())
}

/// Hexadecimal in capitals.
pub fn hex(value: impl Into<u64>) -> Shown {
    Shown::Hex(value.into(), 1)
}

/// Hexadecimal in capitals, with at least `digits` digits.
pub fn hex_of(value: impl Into<u64>, digits: usize) -> Shown {
    Shown::Hex(value.into(), digits)
}

/// Hexadecimal in lower case.
pub fn small(value: impl Into<u64>) -> Shown {
    Shown::Small(value.into(), 1)
}

/// A GUID.
pub fn guid(value: u64) -> Shown {
    Shown::Small(value, 16)
}

/// A GID.
pub fn gid(value: [u8; 16]) -> Shown {
    Shown::Text(gid_text(value))
}

/// A part of a record.
#[derive(Clone, Debug)]
enum Part {
    /// A name and a value.
    Field(String, Shown),
    /// Literal lines, with their JSON name and value if they have one.
    Lines(String, Option<(&'static str, Value)>),
}

/// A record as it will be printed.
#[derive(Clone, Debug)]
pub struct Record {
    title: &'static str,
    column: usize,
    parts: Vec<Part>,
}

impl Record {
    /// Creates a record with its title and the column of its values.
    pub fn new(title: &'static str, column: usize) -> Record {
        Record { title, column, parts: Vec::new() }
    }

    /// Adds a field.
    #[must_use]
    pub fn field(mut self, name: &str, value: Shown) -> Record {
        self.parts.push(Part::Field(name.to_owned(), value));
        self
    }

    /// Adds lines that are not a field.
    #[must_use]
    pub fn lines(mut self, lines: impl Into<String>) -> Record {
        self.parts.push(Part::Lines(lines.into(), None));
        self
    }

    /// Adds lines of a table, with its JSON name and values.
    #[must_use]
    pub fn table(mut self, lines: String, name: &'static str, values: Value) -> Record {
        self.parts.push(Part::Lines(lines, Some((name, values))));
        self
    }

    /// The record as text.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n", self.title);
        for part in &self.parts {
            let _ = match part {
                Part::Lines(lines, _) => out.write_str(lines),
                Part::Field(name, value) => {
                    writeln!(out, "\t\t{name:.<width$}{}", value.text(), width = self.column)
                }
            };
        }
        out
    }

    /// The record as JSON.
    pub fn json(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("record".to_owned(), self.title.trim_end_matches(" dump:").trim_end_matches(':').into());
        for part in &self.parts {
            match part {
                Part::Field(name, value) => fields.insert(name.clone(), value.json()),
                Part::Lines(_, Some((name, values))) => fields.insert((*name).to_owned(), values.clone()),
                Part::Lines(..) => None,
            };
        }
        json!(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gids_are_written_as_c_does() {
        let text = |text: &str| gid_text(text.parse::<Ipv6Addr>().unwrap().octets());
        for same in ["::", "::1", "fe80::2:c903:10:0", "ff12:401b:ffff::1", "1:0:0:2::", "::ffff:10.0.0.1"] {
            assert_eq!(text(same), same);
        }
        assert_eq!(text("::0102:0304"), "::1.2.3.4");
    }

    #[test]
    fn a_short_record_reads_as_zeros() {
        let bytes = Bytes(&[1, 2, 3]);
        let value = |first, width| bytes.get(Span::new(first, width));
        assert_eq!((value(0, 16), value(16, 16), value(64, 64)), (0x102, 0x300, 0));
        assert_eq!(bytes.part(Span::new(16, 40)).0, [3]);
        assert!(bytes.part(Span::new(72, 8)).0.is_empty());
        assert_eq!(bytes.gid(Span::new(8, 128))[..3], [2, 3, 0]);
    }

    #[test]
    fn values_stand_in_one_column() {
        let record = Record::new("X dump:", 8).field("ab", dec(7u8)).lines("\t\tRID\n").field("c", hex(0xab_u8));
        assert_eq!(record.text(), "X dump:\n\t\tab......7\n\t\tRID\n\t\tc.......0xAB\n");
        assert_eq!(record.json(), json!({"record": "X", "ab": 7, "c": "0xAB"}));
    }
}
