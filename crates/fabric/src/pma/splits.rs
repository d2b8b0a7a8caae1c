//! Counters by service level and by virtual lane: PortXmitDataSL, PortRcvDataSL, PortVLXmitWaitCounters,
//! SwPortVLCongestion. Those of operations, flow control and congestion control are answered as unsupported, because
//! the fabric does not model these.

use super::bank::Bank;
use crate::counters::Split;
use crate::topology::NodeKind;
use weft_wire::mad::Status;

pub(super) fn sent(bank: &mut Bank<'_>, data: &mut [u8], set: bool) -> Result<(), Status> {
    serve::<4>(bank, data, set, Split::XmitData)
}

pub(super) fn received(bank: &mut Bank<'_>, data: &mut [u8], set: bool) -> Result<(), Status> {
    serve::<4>(bank, data, set, Split::RcvData)
}

pub(super) fn waits(bank: &mut Bank<'_>, data: &mut [u8], set: bool) -> Result<(), Status> {
    serve::<2>(bank, data, set, Split::XmitWait)
}

/// Only switches have it.
pub(super) fn congestion(bank: &mut Bank<'_>, data: &mut [u8], set: bool) -> Result<(), Status> {
    match bank.kind() {
        NodeKind::Switch => serve::<2>(bank, data, set, Split::Congestion),
        _ => Err(Status::BAD_METHOD_ATTRIBUTE),
    }
}

/// Serves these attributes: port, CounterSelect, and a saturating register of `BYTES` for each level or lane.
fn serve<const BYTES: usize>(bank: &mut Bank<'_>, data: &mut [u8], set: bool, split: Split) -> Result<(), Status> {
    let (head, registers) = data.split_at_mut_checked(4).ok_or(Status::INVALID_FIELD)?;
    let select = u16::from_be_bytes([head[2], head[3]]);
    let (registers, _) = registers.as_chunks_mut::<BYTES>();
    let top = (1_u64 << (8 * BYTES)) - 1;
    for (part, register) in registers.iter_mut().enumerate().take(16) {
        if set && select & 1 << part != 0 {
            bank.write_part(split, part, register.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)));
        }
        let value = bank.read_part(split, part).min(top).to_be_bytes();
        register.iter_mut().rev().zip(value.iter().rev()).for_each(|(to, from)| *to = *from);
    }
    Ok(())
}
