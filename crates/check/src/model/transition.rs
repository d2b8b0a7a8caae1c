//! Transitions of queue pairs: the attributes that each requires and allows (IBA 10.3.1, ibv_modify_qp(3)).

use weft_verbs::{QpAttrMask, QpState as State, QpType, qp_state};

use super::objects::{QpKind, QpState};
use super::qp_attributes::QpAttributes;

/// The names of the attributes in a mask.
pub(super) fn names(mask: QpAttrMask) -> String {
    mask.iter_names().map(|(name, _)| format!("IBV_QP_{name}")).collect::<Vec<_>>().join(", ")
}

/// Returns whether the transition exists, for queue pairs of any type.
pub(super) fn exists(from: QpState, to: QpState) -> bool {
    let (Some(from), Some(to)) = (state(from), state(to)) else { return true };
    qp_state::attributes(QpType::Rc, from, to).is_some()
}

/// Attributes that the transition requires and the mask lacks.
pub(super) fn missing(kind: QpKind, call: &QpAttributes) -> Option<QpAttrMask> {
    let (required, _) = attributes(kind, call)?;
    let missing = required - mask(kind, call);
    (!missing.is_empty()).then_some(missing)
}

/// Attributes in the mask that the transition does not allow.
pub(super) fn extra(kind: QpKind, call: &QpAttributes) -> Option<QpAttrMask> {
    let (required, optional) = attributes(kind, call)?;
    let extra = mask(kind, call) - (required | optional | QpAttrMask::STATE | QpAttrMask::RATE_LIMIT);
    (!extra.is_empty()).then_some(extra)
}

fn attributes(kind: QpKind, call: &QpAttributes) -> Option<(QpAttrMask, QpAttrMask)> {
    qp_state::attributes(qp_type(kind)?, state(call.from)?, state(call.state?)?)
}

fn mask(kind: QpKind, call: &QpAttributes) -> QpAttrMask {
    let mask = QpAttrMask::from_bits_retain(call.mask);
    qp_type(kind).map_or(mask, |qp_type| qp_state::heeded(qp_type, mask))
}

/// `None` for types whose attributes the table does not know.
fn qp_type(kind: QpKind) -> Option<QpType> {
    Some(match kind {
        QpKind::Rc => QpType::Rc,
        QpKind::Uc => QpType::Uc,
        QpKind::Ud => QpType::Ud,
        QpKind::XrcSend => QpType::XrcSend,
        QpKind::XrcReceive => QpType::XrcRecv,
        QpKind::RawPacket | QpKind::Driver => return None,
    })
}

fn state(state: QpState) -> Option<State> {
    Some(match state {
        QpState::Reset => State::Reset,
        QpState::Init => State::Init,
        QpState::Rtr => State::Rtr,
        QpState::Rts => State::Rts,
        QpState::Sqd => State::Sqd,
        QpState::Sqe => State::Sqe,
        QpState::Err => State::Err,
        QpState::Unknown => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(from: QpState, to: QpState, mask: QpAttrMask) -> QpAttributes {
        QpAttributes::change((mask | QpAttrMask::STATE).bits(), from, to)
    }

    #[test]
    fn the_usual_way_is_complete() {
        use QpState::{Init, Reset, Rtr, Rts};
        type M = QpAttrMask;
        let rtr = M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER;
        let rts = M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::SQ_PSN | M::MAX_QP_RD_ATOMIC;
        for (from, to, mask) in
            [(Reset, Init, M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS), (Init, Rtr, rtr), (Rtr, Rts, rts)]
        {
            let call = call(from, to, mask);
            assert_eq!((missing(QpKind::Rc, &call), extra(QpKind::Rc, &call)), (None, None));
        }
        let short = call(Init, Rtr, rtr - M::RQ_PSN);
        assert_eq!(missing(QpKind::Rc, &short).map(names).as_deref(), Some("IBV_QP_RQ_PSN"));
        let long = call(Rtr, Rts, rts | M::DEST_QPN);
        assert_eq!(extra(QpKind::Rc, &long).map(names).as_deref(), Some("IBV_QP_DEST_QPN"));
    }

    #[test]
    fn shortcuts_do_not_exist() {
        assert!(!exists(QpState::Reset, QpState::Rts) && !exists(QpState::Init, QpState::Rts));
        assert!(!exists(QpState::Err, QpState::Rts) && exists(QpState::Rts, QpState::Reset));
    }
}
