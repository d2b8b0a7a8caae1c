//! The stream whose socket a polling thread reads without asking the set first: to ask which sockets are readable costs as
//! much as to read one. It is the only stream, or the one that alone brought the last arrivals, as the data connection of
//! a program does that keeps another one for control.

/// Consecutive arrivals from one stream that make it preferred.
const ARRIVALS_MIN: u32 = 8;

/// The stream of the last arrivals.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Preferred {
    at: usize,
    arrivals: u32,
}

impl Preferred {
    /// Records an arrival.
    pub fn on_arrival(&mut self, at: usize) {
        self.arrivals = if at == self.at { self.arrivals.saturating_add(1) } else { 1 };
        self.at = at;
    }

    /// Returns the number of its consecutive arrivals, if the last one came to this place.
    pub fn arrivals_of(self, at: usize) -> u32 {
        if at == self.at { self.arrivals } else { 0 }
    }

    /// Returns its place.
    pub fn place(self) -> Option<usize> {
        (self.arrivals >= ARRIVALS_MIN).then_some(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_stream_alone_is_preferred_until_another_brings_something() {
        let mut preferred = Preferred::default();
        for _ in 1..ARRIVALS_MIN {
            preferred.on_arrival(3);
            assert_eq!(preferred.place(), None);
        }
        preferred.on_arrival(3);
        assert_eq!((preferred.place(), preferred.arrivals_of(3)), (Some(3), ARRIVALS_MIN));
        assert_eq!(preferred.arrivals_of(5), 0);
        preferred.on_arrival(5);
        assert_eq!(preferred.place(), None);
    }
}
