//! A field of an attribute: where its bits are, what infiniband-diags calls it and how it prints it.
//!
//! Tables of them stand in [`fields`](super::fields), in the order of the printed lines.

use super::format::Format;

/// Column of the values in `Name:........value`.
const VALUE_COLUMN: usize = 32;

/// A field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// Its name as printed.
    pub name: &'static str,
    /// What is appended to the name: the lane, VL, SL or counter.
    pub number: Option<u8>,
    /// First bit, counted from the attribute's most significant one.
    pub offset: u16,
    /// How many bits.
    pub bits: u16,
    /// How the value is printed.
    pub format: Format,
}

/// A field.
pub const fn field(name: &'static str, offset: u16, bits: u16, format: Format) -> Field {
    Field { name, number: None, offset, bits, format }
}

/// `N` numbers in a row, such as one counter for each VL.
pub const fn numbered<const N: usize>(name: &'static str, offset: u16, bits: u16) -> [Field; N] {
    let mut fields = [field(name, offset, bits, Format::Uint); N];
    let mut i = 0;
    while i < N {
        fields[i].number = Some(i as u8);
        fields[i].offset = offset + bits * i as u16;
        i += 1;
    }
    fields
}

impl Field {
    /// Its whole name.
    pub fn label(&self) -> String {
        match self.number {
            Some(number) => format!("{}{number}", self.name),
            None => self.name.to_owned(),
        }
    }

    /// Its value; bits that `data` does not have are 0.
    pub fn value(&self, data: &[u8]) -> u64 {
        let bit = |at: usize| data.get(at / 8).map_or(0, |byte| u64::from(byte >> (7 - at % 8) & 1));
        let first = usize::from(self.offset);
        (first..first + usize::from(self.bits)).fold(0, |value, at| value << 1 | bit(at))
    }

    /// Writes its value; bits that `data` does not have are left out.
    pub fn set(&self, data: &mut [u8], value: u64) {
        for i in 0..usize::from(self.bits).min(64) {
            let at = usize::from(self.offset) + usize::from(self.bits) - 1 - i;
            if let Some(byte) = data.get_mut(at / 8) {
                let mask = 1u8 << (7 - at % 8);
                *byte = if value >> i & 1 != 0 { *byte | mask } else { *byte & !mask };
            }
        }
    }

    /// Its value as printed.
    pub fn text(&self, data: &[u8]) -> String {
        self.format.text(self.value(data), self.bits)
    }

    /// `Name:........value`, without a line's end.
    pub fn line(&self, data: &[u8]) -> String {
        self.line_with(&self.text(data))
    }

    /// `Name:........text`.
    pub fn line_with(&self, text: &str) -> String {
        let label = self.label();
        let dots = ".".repeat(VALUE_COLUMN.saturating_sub(label.len()));
        format!("{label}:{dots}{text}")
    }

    /// The value for JSON: a number where a number is printed, else the text.
    pub fn json(&self, data: &[u8]) -> serde_json::Value {
        match self.format {
            Format::Uint => self.value(data).into(),
            Format::CapMask | Format::CapMask2 => {
                let value = self.value(data);
                let names: Vec<&str> = self.format.flags(value).collect();
                serde_json::json!({"value": format!("0x{value:x}"), "names": names})
            }
            _ => self.text(data).into(),
        }
    }
}

/// The lines of fields, each ended.
pub fn lines(fields: &[Field], data: &[u8]) -> String {
    fields.iter().map(|field| field.line(data) + "\n").collect()
}

/// Fields for JSON, by name.
pub fn json(fields: &[Field], data: &[u8]) -> serde_json::Map<String, serde_json::Value> {
    fields.iter().map(|field| (field.label(), field.json(data))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_written_at_any_bit() {
        let field = field("X", 5, 11, Format::Uint);
        let mut data = [0xff; 3];
        field.set(&mut data, 0x123);
        assert_eq!(data, [0xf9, 0x23, 0xff]);
        assert_eq!(field.value(&data), 0x123);
        assert_eq!(field.value(&[]), 0);
        field.set(&mut [], 1);
    }

    #[test]
    fn a_line_has_its_value_in_one_column() {
        let data = [0x12, 0x34, 0, 0];
        assert_eq!(field("Lid", 0, 16, Format::Uint).line(&data), "Lid:.............................4660");
        let lanes: [Field; 2] = numbered("Lane", 0, 16);
        assert_eq!(lines(&lanes, &data), "Lane0:...........................4660\nLane1:...........................0\n");
    }
}
