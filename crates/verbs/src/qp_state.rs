//! State transitions of queue pairs with their required and optional attributes (IBA 10.3.1 and the manual page of
//! `ibv_modify_qp`), as one table. An attribute that a transition neither requires nor allows makes the call fail and
//! leaves the queue pair unchanged.
//!
//! ```text
//!            +-------+        +------+        +-----+        +-----+
//!   create-->| RESET |------->| INIT |------->| RTR |------->| RTS |<---------+
//!            +-------+        +------+        +-----+        +-----+          |
//!                ^             |  ^ |                         | ^ | \         |
//!                |             +--+ |                         | | |  \ (UC, UD: a send failed)
//!                |           (again)|                         v | |   v       |
//!   any state ---+                  |                       +-----+  +-----+  |
//!     (modify)                      |                       | SQD |  | SQE |--+
//!                                   v                       +-----+  +-----+
//!                                +-----+                      |        |
//!                                | ERR |<---------------------+--------+
//!                                +-----+   any state but RESET: by modify or by a failure
//! ```

use crate::{QpAttrMask, QpState, QpType, VerbsError};

/// One transition: its attributes for each queue pair type.
struct Transition {
    from: QpState,
    to: QpState,
    /// Required attributes; columns as in [`column`].
    required: [QpAttrMask; 5],
    /// Optional attributes.
    optional: [QpAttrMask; 5],
}

/// Returns the column of a queue pair type in [`Transition`].
fn column(qp_type: QpType) -> usize {
    match qp_type {
        QpType::Ud => 0,
        QpType::Uc => 1,
        QpType::Rc => 2,
        QpType::XrcSend => 3,
        QpType::XrcRecv => 4,
    }
}

/// A union of masks by name, usable in constants.
macro_rules! attrs {
    ($($name:ident)*) => { QpAttrMask::empty()$(.union(QpAttrMask::$name))* };
}

const NONE: [QpAttrMask; 5] = [QpAttrMask::empty(); 5];

const fn plain(from: QpState, to: QpState) -> Transition {
    Transition { from, to, required: NONE, optional: NONE }
}

/// Attributes that are required from RESET to INIT and optional in INIT.
const START: [QpAttrMask; 5] = [
    attrs!(PKEY_INDEX PORT QKEY),
    attrs!(PKEY_INDEX PORT ACCESS_FLAGS),
    attrs!(PKEY_INDEX PORT ACCESS_FLAGS),
    attrs!(PKEY_INDEX PORT ACCESS_FLAGS),
    attrs!(PKEY_INDEX PORT ACCESS_FLAGS),
];

/// Attributes that may change on the way into RTS and while in it.
const RUNNING: [QpAttrMask; 5] = [
    attrs!(CUR_STATE QKEY),
    attrs!(CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE),
    attrs!(CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE MIN_RNR_TIMER),
    attrs!(CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE),
    attrs!(CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE MIN_RNR_TIMER),
];

use QpState::{Err as Error, Init, Reset, Rtr, Rts, Sqd, Sqe};

/// The table. Columns: UD, UC, RC, XRC initiator, XRC target.
#[rustfmt::skip]
const TRANSITIONS: &[Transition] = &[
    plain(Reset, Reset),
    Transition { from: Reset, to: Init, required: START, optional: NONE },

    plain(Init, Reset),
    plain(Init, Error),
    Transition { from: Init, to: Init, required: NONE, optional: START },
    Transition {
        from: Init, to: Rtr,
        required: [
            attrs!(),
            attrs!(AV PATH_MTU DEST_QPN RQ_PSN),
            attrs!(AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER),
            attrs!(AV PATH_MTU DEST_QPN RQ_PSN),
            attrs!(AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER),
        ],
        optional: [
            attrs!(PKEY_INDEX QKEY),
            attrs!(ALT_PATH ACCESS_FLAGS PKEY_INDEX),
            attrs!(ALT_PATH ACCESS_FLAGS PKEY_INDEX),
            attrs!(ALT_PATH ACCESS_FLAGS PKEY_INDEX),
            attrs!(ALT_PATH ACCESS_FLAGS PKEY_INDEX),
        ],
    },

    plain(Rtr, Reset),
    plain(Rtr, Error),
    Transition {
        from: Rtr, to: Rts,
        required: [
            attrs!(SQ_PSN),
            attrs!(SQ_PSN),
            attrs!(SQ_PSN TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC),
            attrs!(SQ_PSN TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC),
            attrs!(SQ_PSN TIMEOUT),
        ],
        optional: RUNNING,
    },

    plain(Rts, Reset),
    plain(Rts, Error),
    Transition { from: Rts, to: Rts, required: NONE, optional: RUNNING },
    Transition { from: Rts, to: Sqd, required: NONE, optional: [attrs!(EN_SQD_ASYNC_NOTIFY); 5] },

    plain(Sqd, Reset),
    plain(Sqd, Error),
    Transition { from: Sqd, to: Rts, required: NONE, optional: RUNNING },
    Transition {
        from: Sqd, to: Sqd,
        required: NONE,
        optional: [
            attrs!(PKEY_INDEX QKEY),
            attrs!(AV ALT_PATH ACCESS_FLAGS PKEY_INDEX PATH_MIG_STATE),
            attrs!(PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC MAX_DEST_RD_ATOMIC ALT_PATH ACCESS_FLAGS
                   PKEY_INDEX MIN_RNR_TIMER PATH_MIG_STATE),
            attrs!(PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC ALT_PATH ACCESS_FLAGS PKEY_INDEX
                   PATH_MIG_STATE),
            attrs!(PORT AV TIMEOUT MAX_DEST_RD_ATOMIC ALT_PATH ACCESS_FLAGS PKEY_INDEX MIN_RNR_TIMER PATH_MIG_STATE),
        ],
    },

    plain(Sqe, Reset),
    plain(Sqe, Error),
    Transition {
        from: Sqe, to: Rts,
        required: NONE,
        optional: [attrs!(CUR_STATE QKEY), attrs!(CUR_STATE ACCESS_FLAGS), attrs!(), attrs!(), attrs!()],
    },

    plain(Error, Reset),
    plain(Error, Error),
];

/// Returns the attributes that a transition requires and those that it also allows, or `None` if there is no such
/// transition.
pub fn attributes(qp_type: QpType, from: QpState, to: QpState) -> Option<(QpAttrMask, QpAttrMask)> {
    let row = TRANSITIONS.iter().find(|t| t.from == from && t.to == to)?;
    let column = column(qp_type);
    Some((row.required[column], row.optional[column]))
}

/// Returns the attributes of `mask` that a queue pair of this type uses. Programs set up both halves of XRC alike, as
/// one RC queue pair, so attributes of the missing half are ignored: an initiator answers no READs and sends no RNR
/// NAKs, a target retries nothing.
pub fn heeded(qp_type: QpType, mask: QpAttrMask) -> QpAttrMask {
    match qp_type {
        QpType::XrcSend => mask - (QpAttrMask::MAX_DEST_RD_ATOMIC | QpAttrMask::MIN_RNR_TIMER),
        QpType::XrcRecv => mask - (QpAttrMask::MAX_QP_RD_ATOMIC | QpAttrMask::RETRY_CNT | QpAttrMask::RNR_RETRY),
        QpType::Rc | QpType::Uc | QpType::Ud => mask,
    }
}

/// Checks whether a queue pair of this type may go `from` one state `to` another with these attributes.
/// [`QpAttrMask::STATE`] itself is ignored: a caller that omits it wants to stay, with `to` equal to `from`.
pub fn check(qp_type: QpType, from: QpState, to: QpState, mask: QpAttrMask) -> Result<(), VerbsError> {
    let Some((required, optional)) = attributes(qp_type, from, to) else {
        return Err(VerbsError::Invalid("no such transition from the queue pair's state"));
    };
    if !mask.contains(required) {
        return Err(VerbsError::Invalid("an attribute that this transition requires is missing"));
    }
    if !required.union(optional).union(QpAttrMask::STATE).contains(mask) {
        return Err(VerbsError::Invalid("an attribute was given that this transition does not take"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    const TYPES: [QpType; 5] = [QpType::Ud, QpType::Uc, QpType::Rc, QpType::XrcSend, QpType::XrcRecv];
    const STATES: [QpState; 7] = [Reset, Init, Rtr, Rts, Sqd, Sqe, Error];

    #[test]
    fn xrc_halves_pass_over_what_the_other_half_heeds() {
        let rtr = QpAttrMask::STATE | QpAttrMask::AV | QpAttrMask::PATH_MTU | QpAttrMask::DEST_QPN | QpAttrMask::RQ_PSN;
        let as_rc = rtr | QpAttrMask::MAX_DEST_RD_ATOMIC | QpAttrMask::MIN_RNR_TIMER;
        assert!(check(QpType::XrcSend, Init, Rtr, as_rc).is_err());
        assert_eq!(check(QpType::XrcSend, Init, Rtr, heeded(QpType::XrcSend, as_rc)), Ok(()));
        assert_eq!(heeded(QpType::Rc, as_rc), as_rc);
    }

    fn names(mask: QpAttrMask) -> String {
        let names: Vec<&str> = mask.iter_names().map(|(name, _)| name).collect();
        if names.is_empty() { "-".to_owned() } else { names.join(" ") }
    }

    /// Renders every state times every state times every type as text.
    fn render() -> String {
        let mut out = String::new();
        for qp_type in TYPES {
            for from in STATES {
                for to in STATES {
                    let Some((required, optional)) = attributes(qp_type, from, to) else {
                        assert!(check(qp_type, from, to, QpAttrMask::STATE).is_err());
                        writeln!(out, "{qp_type:?} {from:?} -> {to:?}: no").unwrap();
                        continue;
                    };
                    writeln!(
                        out,
                        "{qp_type:?} {from:?} -> {to:?}: required {}; optional {}",
                        names(required),
                        names(optional)
                    )
                    .unwrap();
                }
            }
        }
        out
    }

    /// To accept a change of the table: `WEFT_BLESS=1 cargo test -p weft-verbs`.
    #[test]
    #[allow(clippy::disallowed_methods)] // A test may read its environment.
    fn the_table_is_the_recorded_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/qp_state.snapshot");
        let now = render();
        if std::env::var_os("WEFT_BLESS").is_some() {
            std::fs::write(path, &now).unwrap();
        }
        let recorded = std::fs::read_to_string(path).unwrap();
        assert_eq!(now, recorded, "the table changed: compare, then bless");
    }

    #[test]
    fn each_required_attribute_is_required_and_nothing_foreign_passes() {
        for qp_type in TYPES {
            for from in STATES {
                for to in STATES {
                    let Some((required, optional)) = attributes(qp_type, from, to) else {
                        continue;
                    };
                    assert_eq!(required & optional, QpAttrMask::empty());
                    assert_eq!(check(qp_type, from, to, required), Ok(()));
                    assert_eq!(check(qp_type, from, to, required | optional | QpAttrMask::STATE), Ok(()));
                    for one in QpAttrMask::all().iter() {
                        let without = (required | optional) - one;
                        assert_eq!(check(qp_type, from, to, without).is_err(), required.contains(one));
                        let with = required | one;
                        let known = (required | optional | QpAttrMask::STATE).contains(one);
                        assert_eq!(check(qp_type, from, to, with).is_ok(), known);
                    }
                }
            }
        }
    }

    #[test]
    fn every_state_leads_back_to_reset_and_all_but_reset_to_error() {
        for qp_type in TYPES {
            for from in STATES {
                assert!(attributes(qp_type, from, Reset).is_some());
                assert_eq!(attributes(qp_type, from, Error).is_some(), from != Reset);
            }
        }
    }
}
