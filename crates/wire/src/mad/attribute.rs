//! Attributes: what Get and Set are about. Each class lists its own in one table, from which come the attribute IDs,
//! the names, and the test that no two fields of one attribute overlap.

use super::AttrId;

/// Something that a management class reads or writes as a whole.
pub trait Attribute: Sized {
    /// Its number in its class.
    const ID: AttrId;
    /// Its name in the specification.
    const NAME: &'static str;
    /// Bytes that it takes.
    const SIZE: usize;

    /// Read it from the front of these bytes; `None` if they are too few.
    fn read(data: &[u8]) -> Option<Self>;

    /// Write it to the front of these bytes, as far as they reach.
    fn write(&self, data: &mut [u8]);
}

/// Copy what fits.
pub(crate) fn copy_front(to: &mut [u8], from: &[u8]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
}

/// Declare the attributes of a class: `Type(CONSTANT = number, "name");` a row.
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

        /// Whatever the bytes are: what is read is written and read again the same, and no bit comes from nowhere.
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
