//! Component masks (IBA 15.4.4): a query marks the components of a record that it has filled in, one bit each in their
//! order. A record declares its components as a list of widths, which yields the masks' names and the comparison of a
//! record with a query.

use crate::mad::Attribute;

/// The components of a record that a query specifies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ComponentMask(pub u64);

impl ComponentMask {
    /// No component: every record matches.
    pub const NONE: ComponentMask = ComponentMask(0);

    /// Returns the mask of component number `bit`.
    pub const fn bit(bit: u32) -> ComponentMask {
        ComponentMask(1 << bit)
    }
    /// Whether this mask contains all components of `other`.
    pub const fn contains(self, other: ComponentMask) -> bool {
        self.0 & other.0 == other.0
    }
    /// Whether this mask contains any component of `other`.
    pub const fn intersects(self, other: ComponentMask) -> bool {
        self.0 & other.0 != 0
    }
    /// Returns the union.
    pub const fn or(self, other: ComponentMask) -> ComponentMask {
        ComponentMask(self.0 | other.0)
    }
    /// Returns this mask without `other`.
    pub const fn without(self, other: ComponentMask) -> ComponentMask {
        ComponentMask(self.0 & !other.0)
    }
    /// Returns the numbers of its components.
    fn components(self) -> impl Iterator<Item = usize> {
        (0..64).filter(move |bit| self.0 >> bit & 1 != 0)
    }
}

impl std::ops::BitOr for ComponentMask {
    type Output = ComponentMask;
    fn bitor(self, other: ComponentMask) -> ComponentMask {
        self.or(other)
    }
}

impl std::ops::BitOrAssign for ComponentMask {
    fn bitor_assign(&mut self, other: ComponentMask) {
        *self = self.or(other);
    }
}

/// Components of a record: name and number of bits, in their order from the record's first bit on.
pub type Components = &'static [(&'static str, usize)];

/// A record whose components queries can specify.
pub trait Record: Attribute {
    /// Its components.
    const COMPONENTS: Components;

    /// Whether `record` equals `question` in the components of `mask`; both as bytes. A component beyond the end of
    /// either does not match.
    fn fits(mask: ComponentMask, question: &[u8], record: &[u8]) -> bool {
        mask.components().all(|number| {
            let Some((_, width)) = Self::COMPONENTS.get(number) else { return false };
            let first = Self::COMPONENTS[..number].iter().map(|(_, width)| width).sum();
            same_bits(question, record, first, *width)
        })
    }
}

/// Whether `width` bits from bit `first` on are present and equal.
fn same_bits(a: &[u8], b: &[u8], first: usize, width: usize) -> bool {
    let last = first + width;
    (first / 8..last.div_ceil(8)).all(|at| {
        let (Some(a), Some(b)) = (a.get(at), b.get(at)) else { return false };
        let head = 0xff_u8 >> first.saturating_sub(at * 8).min(7);
        let tail = 0xff_u8 << (at * 8 + 8).saturating_sub(last).min(7);
        (a ^ b) & head & tail == 0
    })
}

/// Declares the components of a record, one row each in their order: `NAME = bits,`; the masks are constants of the
/// record.
macro_rules! components {
    ($name:ident { $($component:ident = $width:expr,)* }) => {
        impl $crate::mad::sa::Record for $name {
            const COMPONENTS: $crate::mad::sa::Components = &[$((stringify!($component), $width)),*];
        }

        $crate::mad::sa::component::masks!($name, 0, $($component,)*);
    };
}
pub(crate) use components;

macro_rules! masks {
    ($name:ident, $bit:expr,) => {};
    ($name:ident, $bit:expr, $component:ident, $($rest:ident,)*) => {
        impl $name {
            #[doc = concat!("The component ", stringify!($component), ".")]
            pub const $component: $crate::mad::sa::ComponentMask = $crate::mad::sa::ComponentMask::bit($bit);
        }
        $crate::mad::sa::component::masks!($name, $bit + 1, $($rest,)*);
    };
}
pub(crate) use masks;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_bits_of_a_component_are_compared() {
        let (a, b) = ([0b1010_1111, 0x12, 0x34], [0b1010_0000, 0x12, 0x35]);
        assert!(same_bits(&a, &b, 0, 4) && !same_bits(&a, &b, 0, 5) && !same_bits(&a, &b, 4, 4));
        assert!(same_bits(&a, &b, 8, 15) && !same_bits(&a, &b, 8, 16) && same_bits(&a, &b, 1, 3));
        assert!(!same_bits(&a, &b, 16, 16), "a component that is not there");
    }
}
