//! Field layouts of messages, in one place: each message is declared as a table of its fields, from which its reader,
//! its writer and the test for overlaps are generated.

use crate::Psn;
use crate::mad::Attribute;
use crate::span::Span;

/// Maximum length of a message: a management datagram's.
const LONGEST: usize = 256;

/// A field of a message that holds a value of type `T`.
pub(crate) trait At<T> {
    /// Reads it.
    fn take(&self, data: &[u8]) -> T;
    /// Writes it; excess bits are dropped.
    fn put(&self, data: &mut [u8], value: &T);
    /// Returns its pieces: first bit from the start of the message, and number of bits.
    #[cfg(test)]
    fn spans(&self) -> Vec<(usize, usize)>;
}

/// `width` bits from `bit` (0 is the most significant) of byte `byte` on, in network order.
#[derive(Clone, Copy)]
pub(crate) struct Bits {
    first: usize,
    width: usize,
}

/// A field of whole bytes: `len` of them from `byte` on.
pub(crate) const fn int(byte: usize, len: usize) -> Bits {
    bits(byte, 0, len * 8)
}

/// A field that is not a whole number of bytes.
pub(crate) const fn bits(byte: usize, bit: usize, width: usize) -> Bits {
    assert!(bit < 8 && width > 0 && bit + width <= 64 && byte * 8 + bit + width <= LONGEST * 8);
    Bits { first: byte * 8 + bit, width }
}

impl Bits {
    /// Returns its position, whatever type it holds.
    pub(crate) const fn span(&self, _: usize) -> Span {
        Span::new(self.first as u16, self.width as u16)
    }

    /// Returns the bytes that hold the field, its shift from their end, and its mask.
    #[inline]
    fn window(&self) -> (std::ops::Range<usize>, usize, u64) {
        let end = self.first + self.width;
        let bytes = self.first / 8..end.div_ceil(8);
        (bytes.clone(), bytes.end * 8 - end, u64::MAX >> (64 - self.width))
    }

    #[inline]
    fn value(&self, data: &[u8]) -> u64 {
        let (bytes, shift, mask) = self.window();
        data[bytes].iter().fold(0_u64, |sum, b| sum << 8 | u64::from(*b)) >> shift & mask
    }

    #[inline]
    fn set(&self, data: &mut [u8], value: u64) {
        let (bytes, shift, mask) = self.window();
        let (mut value, mut mask) = ((value & mask) << shift, mask << shift);
        for b in data[bytes].iter_mut().rev() {
            *b = *b & !(mask as u8) | value as u8;
            (value, mask) = (value >> 8, mask >> 8);
        }
    }
}

/// A type whose value is a number on the wire.
pub(crate) trait Number {
    fn from_wire(value: u64) -> Self;
    fn to_wire(&self) -> u64;
}

macro_rules! number {
    ($($name:ty),*) => {$(
        impl Number for $name {
            fn from_wire(value: u64) -> Self {
                value as $name
            }
            fn to_wire(&self) -> u64 {
                u64::from(*self)
            }
        }
    )*};
}
number!(u8, u16, u32, u64);

impl Number for bool {
    fn from_wire(value: u64) -> bool {
        value != 0
    }
    fn to_wire(&self) -> u64 {
        u64::from(*self)
    }
}

impl Number for Psn {
    fn from_wire(value: u64) -> Psn {
        Psn::new(value as u32)
    }
    fn to_wire(&self) -> u64 {
        u64::from(self.value())
    }
}

impl<T: Number> At<T> for Bits {
    fn take(&self, data: &[u8]) -> T {
        T::from_wire(self.value(data))
    }
    fn put(&self, data: &mut [u8], value: &T) {
        self.set(data, value.to_wire());
    }
    #[cfg(test)]
    fn spans(&self) -> Vec<(usize, usize)> {
        vec![(self.first, self.width)]
    }
}

/// A number in three separate bytes, most significant first, for a vendor ID in formerly reserved bytes.
#[derive(Clone, Copy)]
pub(crate) struct Scattered(pub [usize; 3]);

impl Scattered {
    pub(crate) const fn span(&self, _: usize) -> Span {
        Span::NONE
    }
}

impl At<u32> for Scattered {
    fn take(&self, data: &[u8]) -> u32 {
        self.0.iter().fold(0, |sum, byte| sum << 8 | u32::from(data[*byte]))
    }
    fn put(&self, data: &mut [u8], value: &u32) {
        let [_, parts @ ..] = value.to_be_bytes();
        self.0.iter().zip(parts).for_each(|(byte, part)| data[*byte] = part);
    }
    #[cfg(test)]
    fn spans(&self) -> Vec<(usize, usize)> {
        self.0.iter().map(|byte| (byte * 8, 8)).collect()
    }
}

/// `N` numbers in a row from bit `first` on, each in the last `width` of `stride` bits.
#[derive(Clone, Copy)]
pub(crate) struct Array {
    first: usize,
    stride: usize,
    width: usize,
}

/// Numbers of `width` bits, packed, from byte `byte` on.
pub(crate) const fn array(byte: usize, width: usize) -> Array {
    Array { first: byte * 8, stride: width, width }
}

impl Array {
    /// Returns the position of the first number.
    pub(crate) const fn span(&self, _: usize) -> Span {
        Span::list((self.first + self.stride - self.width) as u16, self.width as u16, self.stride as u16)
    }

    #[inline]
    fn place(&self, index: usize) -> Bits {
        Bits { first: self.first + index * self.stride + self.stride - self.width, width: self.width }
    }
}

impl<T: Number, const N: usize> At<[T; N]> for Array {
    #[inline]
    fn take(&self, data: &[u8]) -> [T; N] {
        std::array::from_fn(|index| self.place(index).take(data))
    }
    #[inline]
    fn put(&self, data: &mut [u8], value: &[T; N]) {
        value.iter().enumerate().for_each(|(index, value)| self.place(index).put(data, value));
    }
    #[cfg(test)]
    fn spans(&self) -> Vec<(usize, usize)> {
        (0..N).map(|index| (self.place(index).first, self.width)).collect()
    }
}

/// Raw bytes, from this offset on.
#[derive(Clone, Copy)]
pub(crate) struct Bytes(pub usize);

impl Bytes {
    /// Returns the position of so many bytes.
    pub(crate) const fn span(&self, len: usize) -> Span {
        Span::new(self.0 as u16 * 8, len as u16 * 8)
    }
}

impl<const N: usize> At<[u8; N]> for Bytes {
    fn take(&self, data: &[u8]) -> [u8; N] {
        let mut value = [0; N];
        value.copy_from_slice(&data[self.0..self.0 + N]);
        value
    }
    fn put(&self, data: &mut [u8], value: &[u8; N]) {
        data[self.0..self.0 + N].copy_from_slice(value);
    }
    #[cfg(test)]
    fn spans(&self) -> Vec<(usize, usize)> {
        vec![(self.0 * 8, N * 8)]
    }
}

/// A message within a message: `len` bytes of it from `byte` on.
#[derive(Clone, Copy)]
pub(crate) struct Within {
    byte: usize,
    len: usize,
}

/// The first `len` bytes of a message, from byte `byte` on.
pub(crate) const fn within(byte: usize, len: usize) -> Within {
    Within { byte, len }
}

impl Within {
    /// Returns the position of the message.
    pub(crate) const fn span(&self, _: usize) -> Span {
        Span::new(self.byte as u16 * 8, self.len as u16 * 8)
    }
}

impl<T: Attribute> At<T> for Within {
    fn take(&self, data: &[u8]) -> T {
        let mut whole = [0; LONGEST];
        whole[..self.len].copy_from_slice(&data[self.byte..self.byte + self.len]);
        T::read(&whole).expect("no message is longer")
    }
    fn put(&self, data: &mut [u8], value: &T) {
        value.write(&mut data[self.byte..self.byte + self.len]);
    }
    #[cfg(test)]
    fn spans(&self) -> Vec<(usize, usize)> {
        vec![(self.byte * 8, self.len * 8)]
    }
}

/// Declares a message: from a row for each field, generates the structure, its reader and its writer. The length is
/// that of a datagram's data, unless given in brackets.
macro_rules! message {
    ($(#[$doc:meta])* $name:ident { $($fields:tt)* }) => {
        $crate::layout::message! { $(#[$doc])* $name[$crate::mad::DATA_LEN] { $($fields)* } }
    };
    ($(#[$doc:meta])* $name:ident[$len:expr] { $($(#[$field_doc:meta])* $field:ident: $ty:ty = $at:expr,)* }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug, Default)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $ty,)*
        }

        impl $name {
            /// Length in bytes.
            pub const LEN: usize = $len;

            /// Positions of the fields, by name; [`span!`](crate::span!) finds one.
            pub const FIELDS: &[(&str, $crate::span::Span)] =
                &[$((stringify!($field), $at.span(size_of::<$ty>())),)*];

            /// Reads it; any bits are a valid message. Reserved bits are ignored.
            #[inline]
            pub fn parse(data: &[u8; $len]) -> $name {
                use $crate::layout::At;
                $name { $($field: At::<$ty>::take(&$at, data),)* }
            }

            /// Writes it, reserved bits as zeros. Of a number wider than its field, writes the low bits.
            #[inline]
            pub fn encode(&self) -> [u8; $len] {
                use $crate::layout::At;
                let mut data = [0; $len];
                $(At::<$ty>::put(&$at, &mut data, &self.$field);)*
                data
            }

            #[cfg(test)]
            pub(crate) fn layout() -> Vec<(&'static str, Vec<(usize, usize)>)> {
                use $crate::layout::At;
                vec![$((stringify!($field), At::<$ty>::spans(&$at)),)*]
            }
        }
    };
}
pub(crate) use message;

/// Declares an open number: some values have names, and unnamed values survive.
macro_rules! open {
    ($(#[$doc:meta])* $name:ident($repr:ty) { $($(#[$value_doc:meta])* $value:ident = $number:expr, $text:expr;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub $repr);

        impl $name {
            $($(#[$value_doc])* #[doc = concat!("Number ", stringify!($number), ": ", $text, ".")] pub const $value: $name = $name($number);)*

            /// Every value that has a name.
            pub const ALL: &[$name] = &[$($name::$value),*];

            /// Returns its meaning in words; `None` for a number without a name.
            pub const fn text(self) -> Option<&'static str> {
                match self {
                    $($name::$value => Some($text),)*
                    _ => None,
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.text() {
                    Some(text) => write!(f, "{} ({})", text, self.0),
                    None => write!(f, "unknown ({})", self.0),
                }
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match *self {
                    $($name::$value => f.write_str(stringify!($value)),)*
                    _ => write!(f, concat!(stringify!($name), "({})"), self.0),
                }
            }
        }

        impl $crate::layout::Number for $name {
            fn from_wire(value: u64) -> Self {
                $name(value as $repr)
            }
            fn to_wire(&self) -> u64 {
                u64::from(self.0)
            }
        }
    };
}
pub(crate) use open;

/// Makes a set of flags a number on the wire; bits without a name survive.
macro_rules! flags {
    ($($name:ident($repr:ty)),*) => {$(
        impl $crate::layout::Number for $name {
            fn from_wire(value: u64) -> Self {
                $name::from_bits_retain(value as $repr)
            }
            fn to_wire(&self) -> u64 {
                u64::from(self.bits())
            }
        }
    )*};
}
pub(crate) use flags;

/// Returns the bits that two fields of one message share, for the tests of every message table.
#[cfg(test)]
pub(crate) fn overlaps(len: usize, layout: &[(&'static str, Vec<(usize, usize)>)]) -> Vec<String> {
    let mut owner = vec![None; len * 8];
    let mut found = Vec::new();
    for (field, spans) in layout {
        for bit in spans.iter().flat_map(|(first, width)| *first..first + width) {
            match owner.get_mut(bit) {
                Some(owner) => {
                    if let Some(other) = owner.replace(*field) {
                        found.push(format!("{field} and {other} at byte {}", bit / 8));
                    }
                }
                None => found.push(format!("{field} reaches byte {} of {len}", bit / 8)),
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::DATA_LEN;

    #[test]
    fn bits_leave_their_neighbours_alone() {
        for (place, value) in
            [(bits(3, 5, 2), 0b11), (bits(0, 0, 20), 0x522a4), (int(2, 8), u64::MAX), (bits(7, 4, 12), 0xabc)]
        {
            for fill in [0x00, 0xff] {
                let mut data = [fill; DATA_LEN];
                place.set(&mut data, value);
                assert_eq!(place.value(&data), value & u64::MAX >> (64 - place.width));
                let outside = (0..DATA_LEN * 8).filter(|bit| !(place.first..place.first + place.width).contains(bit));
                assert!(outside.into_iter().all(|bit| data[bit / 8] >> (7 - bit % 8) & 1 == fill & 1));
            }
        }
        let mut data = [0; DATA_LEN];
        Bits { first: 32, width: 20 }.set(&mut data, 0xf522a4);
        assert_eq!(data[4..7], [0x52, 0x2a, 0x40]);
    }
}
