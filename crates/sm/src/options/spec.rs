//! What is known of an option: its name, its value, when a change counts, what it does.

use super::Options;

/// An option of opensm.conf.
#[derive(Clone, Copy)]
pub struct Spec {
    /// Its name in the file.
    pub name: &'static str,
    /// What it is for, line by line.
    pub about: &'static [&'static str],
    /// When a change of it counts.
    pub change: Change,
    /// What it does here.
    pub effect: Effect,
    /// Sets it from its text; an error says what is wrong with the text.
    pub set: fn(&mut Options, &str) -> Result<(), String>,
    /// Its text, in one line or several.
    pub show: fn(&Options) -> Vec<String>,
}

/// When a change of an option counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Change {
    /// As soon as the file is read again.
    Live,
    /// When the manager is started again.
    Restart,
}

/// What an option does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Effect {
    /// What it says.
    Works,
    /// Nothing, and why.
    Nothing(&'static str),
}

/// Options that stand together in the file.
#[derive(Clone, Copy)]
pub struct Section {
    /// The heading.
    pub title: &'static str,
    /// The options, in order.
    pub specs: &'static [Spec],
}

/// Declares a group of options: the struct, its defaults and [`Spec`]s, of one list. The words about an option are those
/// that stand in the file.
macro_rules! group {
    (
        $(#[$about:meta])*
        $Group:ident at $path:ident {
            $( $(#[doc = $doc:literal])* $field:ident: $type:ty = $default:expr, $change:ident, $effect:expr; )*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct $Group {
            $( $(#[doc = $doc])* pub $field: $type, )*
        }

        impl Default for $Group {
            fn default() -> $Group {
                $Group { $( $field: $default, )* }
            }
        }

        /// What is known of each.
        pub(in crate::options) const SPECS: &[$crate::options::spec::Spec] = &[
            $( $crate::options::spec::Spec {
                name: stringify!($field),
                about: &[$($doc),*],
                change: $crate::options::spec::Change::$change,
                effect: $effect,
                set: |options, text| $crate::options::value::Value::update(&mut options.$path.$field, text),
                show: |options| $crate::options::value::Value::lines(&options.$path.$field),
            }, )*
        ];
    };
}

pub(super) use group;
