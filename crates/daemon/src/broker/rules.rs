//! Rules of requests.

/// Any user may make the request, it changes no saved state, and it waits until recovery ends.
pub(super) const PLAIN: Rules = Rules { trusted: None, saved: false, waits: true };

/// Conditions of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rules {
    /// Only trusted users may make it: the text completes "may not".
    pub trusted: Option<&'static str>,
    /// It may change the state that is saved for a successor.
    pub saved: bool,
    /// It waits until recovery ends: a predecessor's programs may still return and make an earlier answer wrong.
    pub waits: bool,
}

impl Rules {
    /// It may change the state that is saved for a successor.
    pub const fn saved(self) -> Rules {
        Rules { saved: true, ..self }
    }

    /// Only trusted users may make it; `what` completes "may not".
    pub const fn trusted(self, what: &'static str) -> Rules {
        Rules { trusted: Some(what), ..self }
    }

    /// It is answered during recovery, too.
    pub const fn during_recovery(self) -> Rules {
        Rules { waits: false, ..self }
    }
}
