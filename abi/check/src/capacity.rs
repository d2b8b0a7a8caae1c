//! Requests beyond the capacity of their queue: the library's answer decides.

use libc::c_int;
use weft_check::model::Excess;

use crate::call::Call;
use crate::errno;

/// The first such request among those of one call.
#[derive(Default)]
pub struct FirstExcess(Option<(usize, Excess)>);

impl FirstExcess {
    /// The model's answer about a request of the call.
    pub fn note(&mut self, place: usize, excess: Option<Excess>) {
        if self.0.is_none() {
            self.0 = excess.map(|excess| (place, excess));
        }
    }

    /// The library has accepted so many requests, and returned this.
    pub fn settle(self, call: &Call, accepted: usize, result: c_int) {
        let Some((place, excess)) = self.0 else { return };
        let is_accepted = place < accepted;
        if is_accepted || errno::of_result(result) == libc::ENOMEM {
            call.tell(|model, _| model.report_excess(excess, is_accepted));
        }
    }
}
