//! Whether to keep packets that arrive behind a gap. It pays if the requester retransmits only the missing packet, as
//! Weft does. A requester that goes back retransmits everything (adapters, Linux's rxe), so nothing is gained. And rxe
//! may hang: the acknowledgement of all kept packets moves its window beyond its latest retransmission; if it pauses
//! there, its timer finds nothing to send.

/// Gaps in a row with packets kept in vain after which no more are kept.
const IN_VAIN_MAX: u8 = 2;
/// One of this many gaps tries again.
const TRIAL_PERIOD: u32 = 32;

/// The responder's experience with its requester.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Keeping {
    /// The PSNs kept behind the last gap, until the requester sends one of them again.
    kept: (u64, u64),
    in_vain: u8,
    gaps: u32,
    /// Whether packets behind the current gap are kept.
    keeps: bool,
    /// PSN of the last packet behind it.
    last: u64,
}

impl Keeping {
    /// Records a new gap.
    pub fn on_gap(&mut self) {
        self.gaps = self.gaps.wrapping_add(1);
        self.keeps = self.in_vain < IN_VAIN_MAX || self.gaps.is_multiple_of(TRIAL_PERIOD);
        self.last = 0;
    }

    /// Returns whether packets behind the gap are kept.
    pub fn keeps(&self) -> bool {
        self.keeps
    }

    /// Records a packet behind the gap that is not kept. Returns whether the requester went back without closing the
    /// gap.
    pub fn on_dropped(&mut self, psn: u64) -> bool {
        let went_back = psn <= self.last;
        self.last = psn;
        went_back
    }

    /// Records that the gap closed, with packets `first..end` kept.
    pub fn on_closed(&mut self, first: u64, end: u64) {
        if self.kept.0 < self.kept.1 {
            // None of the packets kept at the previous gap came again.
            self.in_vain = 0;
        }
        self.kept = (first, end);
    }

    /// Records a request that was already executed.
    pub fn on_duplicate(&mut self, psn: u64) {
        if (self.kept.0..self.kept.1).contains(&psn) {
            self.kept = (0, 0);
            self.in_vain = (self.in_vain + 1).min(IN_VAIN_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a gap behind which packets are kept if that pays; the requester goes back or not. Returns whether they
    /// were.
    fn gap(keeping: &mut Keeping, psn: u64, goes_back: bool) -> bool {
        keeping.on_gap();
        if keeping.keeps() {
            keeping.on_closed(psn, psn + 10);
            if goes_back {
                (psn..psn + 10).for_each(|psn| keeping.on_duplicate(psn));
            }
        }
        keeping.keeps()
    }

    #[test]
    fn nothing_is_kept_for_a_requester_that_goes_back_and_it_is_tried_again() {
        let mut keeping = Keeping::default();
        let mut nth = 0;
        let mut kept = |gaps: u64, goes_back| {
            nth += gaps;
            (nth - gaps..nth).filter(|n| gap(&mut keeping, n * 100, goes_back)).count()
        };
        assert_eq!(kept(100, false), 100);
        assert!((2..=6).contains(&kept(100, true)));
        assert!(kept(200, false) > 100, "it learned anew");
    }

    #[test]
    fn one_that_goes_back_without_closing_the_gap_is_told_again() {
        let mut keeping = Keeping::default();
        keeping.on_gap();
        assert_eq!([5, 6, 7, 5, 6, 5].map(|psn| keeping.on_dropped(psn)), [false, false, false, true, false, true]);
        keeping.on_gap();
        assert!(!keeping.on_dropped(5));
    }
}
