//! Tables of fields: subnet management in [`subn`], performance management in [`perf`].

pub mod perf;
pub mod subn;

/// Defines a constant for each field, and the table of all.
macro_rules! table {
    ($(#[$doc:meta])* $table:ident { $($name:ident = $text:literal $offset:literal $bits:literal $format:ident;)* }) => {
        $(
            #[doc = concat!("`", $text, "`")]
            pub const $name: $crate::ib::field::Field =
                $crate::ib::field::field($text, $offset, $bits, $crate::ib::format::Format::$format);
        )*
        $(#[$doc])*
        pub const $table: &[$crate::ib::field::Field] = &[$($name),*];
    };
}
pub(crate) use table;
