//! Attributes, the objects of Get and Set. Each class lists its own in one table, which yields the attribute IDs, the
//! names, and the test that no two fields of an attribute overlap.

use super::AttrId;

/// A value that a management class reads or writes as a whole.
pub trait Attribute: Sized {
    /// Its ID in its class.
    const ID: AttrId;
    /// Its name in the specification.
    const NAME: &'static str;
    /// Its length in bytes.
    const SIZE: usize;

    /// Reads it from the front of these bytes; `None` if there are too few.
    fn read(data: &[u8]) -> Option<Self>;

    /// Writes it to the front of these bytes, as far as they reach.
    fn write(&self, data: &mut [u8]);
}

/// Copies as many bytes as fit.
pub(crate) fn copy_front(to: &mut [u8], from: &[u8]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
}

/// Declares the attributes of a class, one row each: `Type(CONSTANT = number, "name");`.
macro_rules! attributes {
    ($(#[$all_doc:meta])* $all:ident { $($name:ident($attr:ident = $id:expr, $text:expr);)* }) => {
        impl $crate::mad::AttrId {
            $(#[doc = concat!($text, ".")] pub const $attr: $crate::mad::AttrId = $crate::mad::AttrId($id);)*
        }

        $(#[$all_doc])*
        pub const $all: &[($crate::mad::AttrId, &str)] = &[$(($crate::mad::AttrId::$attr, $text)),*];

        $(impl $crate::mad::Attribute for $name {
            const ID: $crate::mad::AttrId = $crate::mad::AttrId::$attr;
            const NAME: &'static str = $text;
            const SIZE: usize = $name::LEN;

            #[inline]
            fn read(data: &[u8]) -> Option<Self> {
                data.first_chunk().map($name::parse)
            }
            #[inline]
            fn write(&self, data: &mut [u8]) {
                $crate::mad::attribute::copy_front(data, &self.encode());
            }
        })*

        #[cfg(test)]
        #[test]
        fn every_attribute_has_a_place_for_each_field() {
            $(assert_eq!($crate::layout::overlaps($name::LEN, &$name::layout()), Vec::<String>::new(), $text);)*
        }

        /// Checks that any bytes, once read, are written and read again unchanged, and that no bit appears from
        /// nowhere.
        pub(crate) fn round_trip(bytes: &[u8]) {
            $({
                let mut whole = [0; $name::LEN];
                $crate::mad::attribute::copy_front(&mut whole, bytes);
                let value = $name::parse(&whole);
                let written = value.encode();
                assert!(written.iter().zip(whole).all(|(w, b)| w & !b == 0), "{}: a bit from nowhere", $text);
                assert_eq!($name::parse(&written), value);
            })*
        }
    };
}
pub(crate) use attributes;
