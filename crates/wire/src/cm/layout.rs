//! Where a field stands in a message, said once: a message is declared as a table of its fields, and reader, writer and
//! the test that no two overlap are made from the same rows.

use crate::Psn;
use crate::mad::{DATA_LEN, MadData};

/// A place in a message that holds a value of type `T`.
pub(crate) trait At<T> {
    /// Read it.
    fn take(&self, data: &MadData) -> T;
    /// Write it; bits that the place does not have are dropped.
    fn put(&self, data: &mut MadData, value: &T);
    /// Its pieces: first bit counted from the start of the message, and number of bits.
    #[cfg(test)]
    fn spans(&self) -> Vec<(usize, usize)>;
}

/// `width` bits from `bit` (0 is the most significant) of byte `byte` on, in network order.
#[derive(Clone, Copy)]
pub(crate) struct Bits {
    first: usize,
    width: usize,
}

/// Bits of whole bytes: `len` of them from `byte` on.
pub(crate) const fn int(byte: usize, len: usize) -> Bits {
    bits(byte, 0, len * 8)
}

/// Bits that do not fill bytes.
pub(crate) const fn bits(byte: usize, bit: usize, width: usize) -> Bits {
    assert!(bit < 8 && width > 0 && bit + width <= 64 && byte * 8 + bit + width <= DATA_LEN * 8);
    Bits { first: byte * 8 + bit, width }
}

impl Bits {
    /// The bytes that hold the field, how far it stands from their end, and its mask.
    fn window(&self) -> (std::ops::Range<usize>, usize, u64) {
        let end = self.first + self.width;
        let bytes = self.first / 8..end.div_ceil(8);
        (bytes.clone(), bytes.end * 8 - end, u64::MAX >> (64 - self.width))
    }

    fn value(&self, data: &MadData) -> u64 {
        let (bytes, shift, mask) = self.window();
        data[bytes].iter().fold(0_u64, |sum, b| sum << 8 | u64::from(*b)) >> shift & mask
    }

    fn set(&self, data: &mut MadData, value: u64) {
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
    fn take(&self, data: &MadData) -> T {
        T::from_wire(self.value(data))
    }
    fn put(&self, data: &mut MadData, value: &T) {
        self.set(data, value.to_wire());
    }
    #[cfg(test)]
    fn spans(&self) -> Vec<(usize, usize)> {
        vec![(self.first, self.width)]
    }
}

/// A number of three bytes that stand apart, most significant first: where a vendor's ID went into reserved bytes.
#[derive(Clone, Copy)]
pub(crate) struct Scattered(pub [usize; 3]);

impl At<u32> for Scattered {
    fn take(&self, data: &MadData) -> u32 {
        self.0.iter().fold(0, |sum, byte| sum << 8 | u32::from(data[*byte]))
    }
    fn put(&self, data: &mut MadData, value: &u32) {
        let [_, parts @ ..] = value.to_be_bytes();
        self.0.iter().zip(parts).for_each(|(byte, part)| data[*byte] = part);
    }
    #[cfg(test)]
    fn spans(&self) -> Vec<(usize, usize)> {
        self.0.iter().map(|byte| (byte * 8, 8)).collect()
    }
}

/// Bytes as they are, from this one on.
#[derive(Clone, Copy)]
pub(crate) struct Bytes(pub usize);

impl<const N: usize> At<[u8; N]> for Bytes {
    fn take(&self, data: &MadData) -> [u8; N] {
        let mut value = [0; N];
        value.copy_from_slice(&data[self.0..self.0 + N]);
        value
    }
    fn put(&self, data: &mut MadData, value: &[u8; N]) {
        data[self.0..self.0 + N].copy_from_slice(value);
    }
    #[cfg(test)]
    fn spans(&self) -> Vec<(usize, usize)> {
        vec![(self.0 * 8, N * 8)]
    }
}

/// Declare a message: its structure with a row a field, and from the rows its reader and its writer.
macro_rules! message {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ty = $at:expr,)* }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug, Default)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $ty,)*
        }

        impl $name {
            /// Read it; whatever the bits are, they are a message. Reserved bits are passed over.
            pub fn parse(data: &$crate::mad::MadData) -> $name {
                use $crate::cm::layout::At;
                $name { $($field: At::<$ty>::take(&$at, data),)* }
            }

            /// Write it, reserved bits as zeros. Of a number wider than its field the low bits are written.
            pub fn encode(&self) -> $crate::mad::MadData {
                use $crate::cm::layout::At;
                let mut data = [0; $crate::mad::DATA_LEN];
                $(At::<$ty>::put(&$at, &mut data, &self.$field);)*
                data
            }

            #[cfg(test)]
            pub(crate) fn layout() -> Vec<(&'static str, Vec<(usize, usize)>)> {
                use $crate::cm::layout::At;
                vec![$((stringify!($field), At::<$ty>::spans(&$at)),)*]
            }
        }
    };
}
pub(crate) use message;

/// Declare an open number: a value with names, where unnamed ones survive.
macro_rules! open {
    ($(#[$doc:meta])* $name:ident($repr:ty) { $($(#[$value_doc:meta])* $value:ident = $number:expr, $text:expr;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub $repr);

        impl $name {
            $($(#[$value_doc])* #[doc = concat!("Number ", stringify!($number), ": ", $text, ".")] pub const $value: $name = $name($number);)*

            /// Every value that has a name.
            pub const ALL: &[$name] = &[$($name::$value),*];

            /// What it means in words; `None` for a number without a name.
            pub fn text(self) -> Option<&'static str> {
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

        impl $crate::cm::layout::Number for $name {
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

#[cfg(test)]
mod tests {
    use super::*;

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
