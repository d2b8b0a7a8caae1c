//! A field of an attribute: its bits, its name in infiniband-diags, and its printed form.
//!
//! The tables of fields are in [`fields`](super::fields), in printing order.

use super::format::Format;

/// Column of the values in `Name:........value`.
const VALUE_COLUMN: usize = 32;

/// A field of an attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// The printed name.
    pub name: &'static str,
    /// Suffix of the name: the lane, VL, SL or counter.
    pub number: Option<u8>,
    /// First bit, counted from the attribute's most significant bit.
    pub offset: u16,
    /// Number of bits.
    pub bits: u16,
    /// Format of the value.
    pub format: Format,
}

/// Returns a field without a number.
pub const fn field(name: &'static str, offset: u16, bits: u16, format: Format) -> Field {
    Field { name, number: None, offset, bits, format }
}

/// Returns `N` consecutive numbered fields, such as one counter per VL.
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
    /// The name with its number.
    pub fn label(&self) -> String {
        match self.number {
            Some(number) => format!("{}{number}", self.name),
            None => self.name.to_owned(),
        }
    }

    /// The field's value; bits beyond the end of `data` are 0.
    pub fn value(&self, data: &[u8]) -> u64 {
        let bit = |at: usize| data.get(at / 8).map_or(0, |byte| u64::from(byte >> (7 - at % 8) & 1));
        let first = usize::from(self.offset);
        (first..first + usize::from(self.bits)).fold(0, |value, at| value << 1 | bit(at))
    }

    /// Writes the field's value; bits beyond the end of `data` are dropped.
    pub fn set(&self, data: &mut [u8], value: u64) {
        for i in 0..usize::from(self.bits).min(64) {
            let at = usize::from(self.offset) + usize::from(self.bits) - 1 - i;
            if let Some(byte) = data.get_mut(at / 8) {
                let mask = 1u8 << (7 - at % 8);
                *byte = if value >> i & 1 != 0 { *byte | mask } else { *byte & !mask };
            }
        }
    }

    /// The value as printed.
    pub fn text(&self, data: &[u8]) -> String {
        self.format.text(self.value(data), self.bits)
    }

    /// `Name:........value`, without a newline.
    pub fn line(&self, data: &[u8]) -> String {
        self.line_with(&self.text(data))
    }

    /// `Name:........text`.
    pub fn line_with(&self, text: &str) -> String {
        let label = self.label();
        let dots = ".".repeat(VALUE_COLUMN.saturating_sub(label.len()));
        format!("{label}:{dots}{text}")
    }

    /// The value as JSON: a number if the text is a number, else the text.
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

/// The lines of `fields`, each with a newline.
pub fn lines(fields: &[Field], data: &[u8]) -> String {
    fields.iter().map(|field| field.line(data) + "\n").collect()
}

/// `fields` as a JSON object.
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
