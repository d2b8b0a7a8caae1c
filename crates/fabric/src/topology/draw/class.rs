//! Appearance of a link in drawings: its state, or the fault that matters more.

use super::super::LinkState;

/// Appearance of a cable. Later ones are drawn over earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkClass {
    /// Carries data.
    Active,
    /// Configured, not yet open for data.
    Armed,
    /// Trained, not yet configured by a manager.
    Init,
    /// Limited below what its ports support.
    Slow,
    /// Damages packets.
    Errors,
    /// No link.
    Down,
    /// Unplugged.
    Cut,
}

impl LinkClass {
    /// Every class with its word and its text in a legend.
    pub const ALL: [(LinkClass, &'static str, &'static str); 7] = [
        (LinkClass::Active, "active", "active"),
        (LinkClass::Armed, "armed", "armed"),
        (LinkClass::Init, "init", "trained, not managed"),
        (LinkClass::Slow, "slow", "slower than its ports"),
        (LinkClass::Errors, "errors", "damages packets"),
        (LinkClass::Down, "down", "no link"),
        (LinkClass::Cut, "cut", "cut"),
    ];

    /// Returns the class of a link; `limited` says whether the cable keeps it below what its ports support.
    pub fn of(state: LinkState, limited: bool, errors_ppm: u32) -> LinkClass {
        match state {
            LinkState::Cut => LinkClass::Cut,
            LinkState::Down => LinkClass::Down,
            _ if errors_ppm > 0 => LinkClass::Errors,
            _ if limited => LinkClass::Slow,
            LinkState::Init => LinkClass::Init,
            LinkState::Armed => LinkClass::Armed,
            LinkState::Active => LinkClass::Active,
        }
    }

    /// Returns the word for it.
    pub fn word(self) -> &'static str {
        LinkClass::ALL.iter().find(|(class, ..)| *class == self).map_or("", |(_, word, _)| word)
    }
}
