//! Tables of fields: subnet management in [`subn`], performance management in [`perf`].

pub mod perf;
pub mod subn;

/// Defines a constant for each field, and the table of all. A row is its constant, its printed name, its name in the
/// message of `weft_wire`, and its format.
macro_rules! table {
    ($(#[$doc:meta])* $table:ident of $message:ident { $($name:ident = $text:literal $field:ident $format:ident;)* }) => {
        $(
            #[doc = concat!("`", $text, "`")]
            pub const $name: $crate::ib::field::Field =
                $crate::ib::field::field($text, weft_wire::span!($message.$field), $crate::ib::format::Format::$format);
        )*
        $(#[$doc])*
        pub const $table: &[$crate::ib::field::Field] = &[$($name),*];
    };
}
pub(crate) use table;
