//! Transitions of queue pairs: the attributes that each requires and allows (IBA 10.3.1, ibv_modify_qp(3)).

use super::objects::{QpKind, QpState};
use super::qp_attributes::QpAttributes;

const STATE: u32 = 1;
const CUR_STATE: u32 = 1 << 1;
const ACCESS: u32 = 1 << 3;
const PKEY: u32 = 1 << 4;
const PORT: u32 = 1 << 5;
const QKEY: u32 = 1 << 6;
const AV: u32 = 1 << 7;
const PATH_MTU: u32 = 1 << 8;
const TIMEOUT: u32 = 1 << 9;
const RETRY: u32 = 1 << 10;
const RNR_RETRY: u32 = 1 << 11;
const RQ_PSN: u32 = 1 << 12;
const READ_LIMIT: u32 = 1 << 13;
const ALT_PATH: u32 = 1 << 14;
const RNR_TIMER: u32 = 1 << 15;
const SQ_PSN: u32 = 1 << 16;
const DEST_READ_LIMIT: u32 = 1 << 17;
const MIG_STATE: u32 = 1 << 18;
const CAP: u32 = 1 << 19;
const DEST_QPN: u32 = 1 << 20;
const RATE_LIMIT: u32 = 1 << 25;

const NAMES: &[(u32, &str)] = &[
    (CUR_STATE, "IBV_QP_CUR_STATE"),
    (1 << 2, "IBV_QP_EN_SQD_ASYNC_NOTIFY"),
    (ACCESS, "IBV_QP_ACCESS_FLAGS"),
    (PKEY, "IBV_QP_PKEY_INDEX"),
    (PORT, "IBV_QP_PORT"),
    (QKEY, "IBV_QP_QKEY"),
    (AV, "IBV_QP_AV"),
    (PATH_MTU, "IBV_QP_PATH_MTU"),
    (TIMEOUT, "IBV_QP_TIMEOUT"),
    (RETRY, "IBV_QP_RETRY_CNT"),
    (RNR_RETRY, "IBV_QP_RNR_RETRY"),
    (RQ_PSN, "IBV_QP_RQ_PSN"),
    (READ_LIMIT, "IBV_QP_MAX_QP_RD_ATOMIC"),
    (ALT_PATH, "IBV_QP_ALT_PATH"),
    (RNR_TIMER, "IBV_QP_MIN_RNR_TIMER"),
    (SQ_PSN, "IBV_QP_SQ_PSN"),
    (DEST_READ_LIMIT, "IBV_QP_MAX_DEST_RD_ATOMIC"),
    (MIG_STATE, "IBV_QP_PATH_MIG_STATE"),
    (CAP, "IBV_QP_CAP"),
    (DEST_QPN, "IBV_QP_DEST_QPN"),
];

/// The names of the attributes in a mask.
pub(super) fn names(mask: u32) -> String {
    let names: Vec<_> = NAMES.iter().filter(|(bit, _)| mask & bit != 0).map(|(_, name)| *name).collect();
    names.join(", ")
}

/// Returns whether the transition exists. Every state leads to RESET and ERR.
pub(super) fn exists(from: QpState, to: QpState) -> bool {
    use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
    matches!(
        (from, to),
        (_, Reset | Err) | (Reset | Init, Init) | (Init, Rtr) | (Rtr | Rts | Sqd | Sqe, Rts) | (Rts | Sqd, Sqd)
    )
}

/// Attributes that the transition requires, and those that it allows besides.
fn attributes(kind: QpKind, from: QpState, to: QpState) -> Option<(u32, u32)> {
    use QpKind::{RawPacket, Rc, Uc, Ud, XrcReceive, XrcSend};
    use QpState::{Init, Reset, Rtr, Rts};
    Some(match (from, to, kind) {
        (Reset, Init, Ud) => (PKEY | PORT | QKEY, 0),
        (Reset, Init, RawPacket) => (PORT, 0),
        (Reset, Init, _) => (PKEY | PORT | ACCESS, 0),
        (Init, Init, Ud) => (0, PKEY | PORT | QKEY),
        (Init, Init, _) => (0, PKEY | PORT | ACCESS),
        (Init, Rtr, Rc | XrcReceive) => {
            (AV | PATH_MTU | DEST_QPN | RQ_PSN | DEST_READ_LIMIT | RNR_TIMER, ALT_PATH | ACCESS | PKEY)
        }
        (Init, Rtr, Uc | XrcSend) => (AV | PATH_MTU | DEST_QPN | RQ_PSN, ALT_PATH | ACCESS | PKEY),
        (Init, Rtr, _) => (0, PKEY | QKEY),
        (Rtr, Rts, Rc | XrcSend) => {
            let required = TIMEOUT | RETRY | RNR_RETRY | SQ_PSN | READ_LIMIT;
            (required, CUR_STATE | ALT_PATH | ACCESS | RNR_TIMER | MIG_STATE)
        }
        (Rtr, Rts, XrcReceive) => (TIMEOUT | SQ_PSN, CUR_STATE | ALT_PATH | ACCESS | RNR_TIMER | MIG_STATE),
        (Rtr, Rts, Uc) => (SQ_PSN, CUR_STATE | ALT_PATH | ACCESS | MIG_STATE),
        (Rtr, Rts, Ud) => (SQ_PSN, CUR_STATE | QKEY),
        _ => return None,
    })
}

/// Attributes that the transition requires and the mask lacks.
pub(super) fn missing(kind: QpKind, call: &QpAttributes) -> Option<u32> {
    let (required, _) = attributes(kind, call.from, call.state?)?;
    let missing = required & !call.mask;
    (missing != 0).then_some(missing)
}

/// Attributes in the mask that the transition does not allow.
pub(super) fn extra(kind: QpKind, call: &QpAttributes) -> Option<u32> {
    let (required, optional) = attributes(kind, call.from, call.state?)?;
    let extra = call.mask & !(required | optional | STATE | RATE_LIMIT);
    (extra != 0).then_some(extra)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(from: QpState, to: QpState, mask: u32) -> QpAttributes {
        QpAttributes {
            mask: mask | STATE,
            from,
            state: Some(to),
            port: None,
            port_mtu_bytes: None,
            path_mtu_bytes: None,
            timeout: None,
            retry_count: None,
            read_limit: None,
            access: None,
            address: None,
        }
    }

    #[test]
    fn the_usual_way_is_complete() {
        use QpState::{Init, Reset, Rtr, Rts};
        let rtr = AV | PATH_MTU | DEST_QPN | RQ_PSN | DEST_READ_LIMIT | RNR_TIMER;
        let rts = TIMEOUT | RETRY | RNR_RETRY | SQ_PSN | READ_LIMIT;
        for (from, to, mask) in [(Reset, Init, PKEY | PORT | ACCESS), (Init, Rtr, rtr), (Rtr, Rts, rts)] {
            let call = call(from, to, mask);
            assert_eq!((missing(QpKind::Rc, &call), extra(QpKind::Rc, &call)), (None, None));
        }
        let short = call(Init, Rtr, rtr & !RQ_PSN);
        assert_eq!(missing(QpKind::Rc, &short).map(names).as_deref(), Some("IBV_QP_RQ_PSN"));
        let long = call(Rtr, Rts, rts | DEST_QPN);
        assert_eq!(extra(QpKind::Rc, &long).map(names).as_deref(), Some("IBV_QP_DEST_QPN"));
    }

    #[test]
    fn shortcuts_do_not_exist() {
        assert!(!exists(QpState::Reset, QpState::Rts) && !exists(QpState::Init, QpState::Rts));
        assert!(!exists(QpState::Err, QpState::Rts) && exists(QpState::Rts, QpState::Reset));
    }
}
