//! A peer's READs, atomic operations and FLUSHes on local memory: checks of rights and ranges, and execution (IBA
//! 9.7.4.1, 9.4.5, A19). A refusal returns the NAK code that the specification assigns to it.

use weft_verbs::{Access, MSG_SIZE_MAX, PdId};
use weft_wire::NakCode;
use weft_wire::ext::Feth;

use crate::core::Core;
use crate::{Env, Memory};

/// Checks a READ of `len` bytes.
pub(crate) fn read<E: Env>(core: &Core, pd: PdId, key: u32, va: u64, len: u64, env: &E) -> Result<(), NakCode> {
    if !core.attr.qp_access.contains(Access::REMOTE_READ) || len > u64::from(MSG_SIZE_MAX) {
        return Err(NakCode::INVALID_REQUEST);
    }
    if len != 0 {
        env.remote(pd, core.qpn, key, va, len, Access::REMOTE_READ).map_err(|_| NakCode::REMOTE_ACCESS)?;
    }
    Ok(())
}

/// Executes a compare and swap (`swap` holds both values), or an add. Returns the original value.
pub(crate) fn atomic<E: Env>(
    core: &Core,
    pd: PdId,
    key: u32,
    va: u64,
    swap: Option<(u64, u64)>,
    add: u64,
    env: &mut E,
) -> Result<u64, NakCode> {
    let addr = word(core, pd, key, va, Access::REMOTE_ATOMIC, env)?;
    Ok(match swap {
        Some((compare, swap)) => env.memory().compare_swap(addr, compare, swap),
        None => env.memory().fetch_add(addr, add),
    })
}

/// Stores eight bytes, given in memory order, atomically.
pub(crate) fn atomic_write<E: Env>(
    core: &Core,
    pd: PdId,
    key: u32,
    va: u64,
    value: [u8; 8],
    env: &mut E,
) -> Result<(), NakCode> {
    let addr = word(core, pd, key, va, Access::REMOTE_WRITE, env)?;
    env.memory().store_u64(addr, value);
    Ok(())
}

/// Returns the host address of eight bytes for an atomic access.
fn word<E: Env>(core: &Core, pd: PdId, key: u32, va: u64, need: Access, env: &E) -> Result<u64, NakCode> {
    if !core.attr.qp_access.contains(need) || !va.is_multiple_of(8) {
        return Err(NakCode::INVALID_REQUEST);
    }
    let addr = env.remote(pd, core.qpn, key, va, 8, need).map_err(|_| NakCode::REMOTE_ACCESS)?;
    // A region may map an aligned address to an unaligned host address, which the processor cannot change atomically.
    if addr.is_multiple_of(8) { Ok(addr) } else { Err(NakCode::INVALID_REQUEST) }
}

/// Flushes a range (first address, bytes), or at selectivity level 1 the whole region.
pub(crate) fn flush<E: Env>(
    core: &Core,
    pd: PdId,
    key: u32,
    range: (u64, u64),
    placement: u8,
    level: u8,
    env: &mut E,
) -> Result<(), NakCode> {
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
