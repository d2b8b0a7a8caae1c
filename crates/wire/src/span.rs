//! Positions of the fields of messages, for programs that show or change single fields of a message's bytes.

/// Position of a field: bits counted from a message's most significant bit. [`span!`](crate::span!) returns that of a
/// message's field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    first: u16,
    width: u16,
    /// Distance to the next number of a list.
    stride: u16,
}

impl Span {
    /// A field that is not one run of bits.
    pub(crate) const NONE: Span = Span::new(0, 0);

    /// Returns the position of `width` bits from bit `first` on, such as those of a reserved field.
    pub const fn new(first: u16, width: u16) -> Span {
        Span { first, width, stride: width }
    }

    /// Returns the first number of a list; each begins `stride` bits after the one before.
    pub(crate) const fn list(first: u16, width: u16, stride: u16) -> Span {
        Span { first, width, stride }
    }

    /// Returns the number at `index` of a list.
    #[must_use]
    pub const fn at(self, index: u16) -> Span {
        Span { first: self.first + index * self.stride, ..self }
    }

    /// Returns the position of everything from this field to the end of a later one.
    #[must_use]
    pub const fn through(self, last: Span) -> Span {
        Span::new(self.first, last.first + last.width - self.first)
    }

    /// Returns the number of bits.
    pub const fn width(self) -> u16 {
        self.width
    }

    /// Returns the bytes that hold a field of whole bytes; bytes beyond the end of `data` are left out.
    pub fn bytes(self, data: &[u8]) -> &[u8] {
        let rest = data.get(usize::from(self.first) / 8..).unwrap_or_default();
        &rest[..rest.len().min(usize::from(self.width) / 8)]
    }

    /// Returns the value of a field of at most 64 bits; bits beyond the end of `data` are 0.
    pub fn value(self, data: &[u8]) -> u64 {
        let bit = |at: usize| data.get(at / 8).map_or(0, |byte| u64::from(byte >> (7 - at % 8) & 1));
        let first = usize::from(self.first);
        (first..first + usize::from(self.width)).fold(0, |value, at| value << 1 | bit(at))
    }

    /// Writes the low bits of a value; bits beyond the end of `data` are dropped.
    pub fn set(self, data: &mut [u8], value: u64) {
        for i in 0..usize::from(self.width).min(64) {
            let at = usize::from(self.first) + usize::from(self.width) - 1 - i;
            if let Some(byte) = data.get_mut(at / 8) {
                let mask = 1u8 << (7 - at % 8);
                *byte = if value >> i & 1 != 0 { *byte | mask } else { *byte & !mask };
            }
        }
    }
}

/// Finds a field among those of a message, at compile time.
///
/// # Panics
/// The message has no field of this name, or it is not one run of bits.
pub const fn find(fields: &[(&str, Span)], name: &str) -> Span {
    let mut i = 0;
    while i < fields.len() {
        if is_same(fields[i].0.as_bytes(), name.as_bytes()) {
            assert!(fields[i].1.width > 0, "the field is not one run of bits");
            return fields[i].1;
        }
        i += 1;
    }
    panic!("the message has no field of this name")
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// Returns the [`Span`](crate::span::Span) of a message's field; that the field exists is checked at compile time.
#[macro_export]
macro_rules! span {
    ($message:ident.$field:ident) => {
        const { $crate::span::find($message::FIELDS, stringify!($field)) }
    };
}

#[cfg(test)]
mod tests {
    use crate::mad::sa::{PathRecord, SlToVlTableRecord};
    use crate::mad::subn::PortInfo;
    use crate::span::Span;

    #[test]
    fn values_are_read_and_written_at_any_bit() {
        let span = Span::new(5, 11);
        let mut data = [0xff; 3];
        span.set(&mut data, 0x123);
        assert_eq!(data, [0xf9, 0x23, 0xff]);
        assert_eq!((span.value(&data), span.value(&[])), (0x123, 0));
        span.set(&mut [], 1);
    }

    #[test]
    fn spans_are_where_messages_keep_their_fields() {
        let info = PortInfo { lid: 0x1234, lmc: 5, link_speed_ext_enabled2: Default::default(), ..PortInfo::default() };
        let data = info.encode();
        assert_eq!((span!(PortInfo.lid).value(&data), span!(PortInfo.lmc).value(&data)), (0x1234, 5));
        let path = PathRecord { reversible: true, numb_path: 3, dgid: [7; 16], ..PathRecord::default() }.encode();
        assert_eq!(span!(PathRecord.reversible).through(span!(PathRecord.numb_path)).value(&path), 0x83);
        assert_eq!(span!(PathRecord.dgid).bytes(&path), [7; 16]);
        assert!(span!(PathRecord.dgid).bytes(&path[..4]).is_empty());
        let lanes = SlToVlTableRecord { vls: std::array::from_fn(|i| i as u8), ..SlToVlTableRecord::default() };
        assert_eq!(span!(SlToVlTableRecord.vls).at(11).value(&lanes.encode()), 11);
    }
}
