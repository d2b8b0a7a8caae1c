//! A peer's requests with a response of their own: READs, operations on eight bytes, FLUSHes. Checks of rights and
//! ranges, and execution (IBA 9.7.4.1, 9.4.5, A19). A refusal returns the NAK code that the specification assigns to it.

use weft_verbs::op::{ResponseKind, TargetAction};
use weft_verbs::{Access, MSG_SIZE_MAX, PdId};
use weft_wire::NakCode;
use weft_wire::ext::Feth;

use crate::core::Core;
use crate::word::{AtomicOp, WORD_BYTES};
use crate::{Env, Memory};

use super::request::{RemoteAccess, RemoteRange};

/// The answer to such a request. It is kept, so that a repeated request gets the same answer: a READ reads memory again,
/// an atomic operation returns the recorded value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answered {
    /// READ of a range.
    Read {
        /// Domain that the key is checked against.
        pd: PdId,
        /// R_Key.
        rkey: u32,
        /// First byte.
        va: u64,
        /// Bytes.
        len: u64,
    },
    /// The value before an atomic operation.
    Value(u64),
    /// Done, without data.
    Done,
}

impl Answered {
    /// Returns the response that it is.
    pub fn response(&self) -> ResponseKind {
        match self {
            Answered::Read { .. } => ResponseKind::Data,
            Answered::Value(_) => ResponseKind::Value,
            Answered::Done => ResponseKind::Done,
        }
    }
}

/// Executes a request.
pub(super) fn execute<E: Env>(core: &Core, pd: PdId, access: &RemoteAccess, env: &mut E) -> Result<Answered, NakCode> {
    match access.op.info().action {
        TargetAction::Read => read(core, pd, access.target, env),
        TargetAction::Word => word(core, pd, access, env),
        TargetAction::Flush => {
            flush(core, pd, access, env)?;
            Ok(Answered::Done)
        }
        TargetAction::Receive | TargetAction::Write | TargetAction::Local => Err(NakCode::INVALID_REQUEST),
    }
}

/// Checks a READ. Its bytes are read when they are sent.
fn read<E: Env>(core: &Core, pd: PdId, RemoteRange { at, length }: RemoteRange, env: &E) -> Result<Answered, NakCode> {
    if !core.attr.qp_access.contains(Access::REMOTE_READ) || length > u64::from(MSG_SIZE_MAX) {
        return Err(NakCode::INVALID_REQUEST);
    }
    if length != 0 {
        env.remote(pd, core.qpn, at.rkey, at.addr, length, Access::REMOTE_READ).map_err(|_| NakCode::REMOTE_ACCESS)?;
    }
    Ok(Answered::Read { pd, rkey: at.rkey, va: at.addr, len: length })
}

/// Executes an operation on eight bytes.
fn word<E: Env>(core: &Core, pd: PdId, access: &RemoteAccess, env: &mut E) -> Result<Answered, NakCode> {
    let (row, at) = (access.op.info(), access.target.at);
    let op = AtomicOp::of(access.op, access.operands).ok_or(NakCode::INVALID_REQUEST)?;
    if !core.attr.qp_access.contains(row.need) || !at.addr.is_multiple_of(WORD_BYTES) {
        return Err(NakCode::INVALID_REQUEST);
    }
    let addr = env.remote(pd, core.qpn, at.rkey, at.addr, WORD_BYTES, row.need).map_err(|_| NakCode::REMOTE_ACCESS)?;
    // A region may map an aligned address to an unaligned host address, which the processor cannot change atomically.
    if !addr.is_multiple_of(WORD_BYTES) {
        return Err(NakCode::INVALID_REQUEST);
    }
    let memory = env.memory();
    let before = match op {
        AtomicOp::CompareSwap { compare, swap } => memory.compare_swap(addr, compare, swap),
        AtomicOp::FetchAdd(add) => memory.fetch_add(addr, add),
        AtomicOp::Store(value) => {
            memory.store_u64(addr, value);
            0
        }
    };
    Ok(if row.response == ResponseKind::Value { Answered::Value(before) } else { Answered::Done })
}

/// Flushes a range (first address, bytes), or at selectivity level 1 the whole region.
fn flush<E: Env>(core: &Core, pd: PdId, access: &RemoteAccess, env: &mut E) -> Result<(), NakCode> {
    let RemoteAccess { target: RemoteRange { at, length }, placement, level, .. } = *access;
    let (key, range) = (at.rkey, (at.addr, length));
    let mut need = Access::empty();
    need.set(Access::FLUSH_GLOBAL, placement & Feth::GLOBAL != 0);
    need.set(Access::FLUSH_PERSISTENT, placement & Feth::PERSISTENT != 0);
    if need.is_empty() || !core.attr.qp_access.contains(need) {
        return Err(NakCode::INVALID_REQUEST);
    }
    let (va, len) = match level {
        0 => range,
        1 => env.remote_range(pd, core.qpn, key).map_err(|_| NakCode::REMOTE_ACCESS)?,
        _ => return Err(NakCode::INVALID_REQUEST),
    };
    if len == 0 {
        return Ok(());
    }
    let persistent = need.contains(Access::FLUSH_PERSISTENT);
    let (addr, len) = match env.remote(pd, core.qpn, key, va, len, need) {
        Ok(addr) => (addr, len),
        // Linux's rxe retransmits a FLUSH with address 0. The whole region contains the range that is meant, and a
        // FLUSH changes no byte, so flushing all of it does no harm even if the requester meant 0.
        Err(_) if level == 0 && va == 0 => {
            let (first, all) = env.remote_range(pd, core.qpn, key).map_err(|_| NakCode::REMOTE_ACCESS)?;
            if len > all {
                return Err(NakCode::REMOTE_ACCESS);
            }
            (env.remote(pd, core.qpn, key, first, all, need).map_err(|_| NakCode::REMOTE_ACCESS)?, all)
        }
        Err(_) => return Err(NakCode::REMOTE_ACCESS),
    };
    env.memory().flush(addr, len, persistent);
    Ok(())
}
