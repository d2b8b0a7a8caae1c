//! A field of an attribute: its position, its name in infiniband-diags, and its printed form.
//!
//! The tables of fields are in [`fields`](super::fields), in printing order.

use weft_wire::span::Span;

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
    /// Its bits.
    pub span: Span,
    /// Format of the value.
    pub format: Format,
}

/// Returns a field without a number.
pub const fn field(name: &'static str, span: Span, format: Format) -> Field {
    Field { name, number: None, span, format }
}

/// Returns the first `N` numbers of a list as numbered fields, such as one counter per VL.
pub const fn numbered<const N: usize>(name: &'static str, list: Span) -> [Field; N] {
    let mut fields = [field(name, list, Format::Uint); N];
    let mut i = 0;
    while i < N {
        fields[i].number = Some(i as u8);
        fields[i].span = list.at(i as u16);
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
        self.span.value(data)
    }

    /// Writes the field's value; bits beyond the end of `data` are dropped.
    pub fn set(&self, data: &mut [u8], value: u64) {
        self.span.set(data, value);
    }

    /// The value as printed.
    pub fn text(&self, data: &[u8]) -> String {
        self.format.text(self.value(data), self.span.width())
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
    use weft_wire::mad::perf::PortVlOpPackets;
    use weft_wire::span;

    #[test]
    fn a_line_has_its_value_in_one_column() {
        let data = [0x12, 0x34, 0, 0];
        assert_eq!(field("Lid", Span::new(0, 16), Format::Uint).line(&data), "Lid:.............................4660");
        let lanes: [Field; 2] = numbered("VL", span!(PortVlOpPackets.port_vl_op_packets));
        let data = [0, 0, 0, 0, 0x12, 0x34];
        assert_eq!(lines(&lanes, &data), "VL0:.............................4660\nVL1:.............................0\n");
    }
}
