//! Description of an option: its name, its value, when a change takes effect, its effect here.

use super::Options;

/// An option of opensm.conf.
#[derive(Clone, Copy)]
pub struct Spec {
    /// Its name in the file.
    pub name: &'static str,
    /// Its purpose, line by line.
    pub about: &'static [&'static str],
    /// When a change takes effect.
    pub change: Change,
    /// Its effect here.
    pub effect: Effect,
    /// Sets the option from text; an error says why the text is wrong.
    pub set: fn(&mut Options, &str) -> Result<(), String>,
    /// The option's text, in one line or several.
    pub show: fn(&Options) -> Vec<String>,
}

/// When a change of an option takes effect.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Change {
    /// As soon as the file is read again.
    Live,
    /// When the manager is started again.
    Restart,
}

/// Effect of an option.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Effect {
    /// The documented one.
    Works,
    /// None, for this reason.
    Nothing(&'static str),
}

/// Options under one heading in the file.
#[derive(Clone, Copy)]
pub struct Section {
    /// The heading.
    pub title: &'static str,
    /// The options, in order.
    pub specs: &'static [Spec],
}

/// Declares a group of options from one list: the struct, its defaults and [`Spec`]s. The doc comment of an option is
/// also its text in the file.
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

        /// Description of each option.
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
