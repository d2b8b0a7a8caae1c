//! Breakdown of PortCounters' totals: why packets were bad, why they were discarded.

use super::bank::Bank;
use crate::counters::Counter;
use weft_wire::mad::Status;

/// The counters of PortRcvErrorDetails in their order, each with the CounterSelect bit of its place.
const RCV_ERRORS: &[Counter] = &[
    Counter::LocalPhysicalErrors,
    Counter::MalformedPacketErrors,
    Counter::BufferOverrunErrors,
    Counter::DlidMappingErrors,
    Counter::VlMappingErrors,
    Counter::LoopingErrors,
];

/// Those of PortXmitDiscardDetails.
const XMIT_DISCARDS: &[Counter] = &[
    Counter::InactiveDiscards,
    Counter::NeighborMtuDiscards,
    Counter::SwLifetimeLimitDiscards,
    Counter::SwHoqLifetimeLimitDiscards,
];

pub(super) fn rcv_errors(bank: &mut Bank<'_>, data: &mut [u8], set: bool) -> Result<(), Status> {
    serve(bank, data, set, RCV_ERRORS)
}

pub(super) fn xmit_discards(bank: &mut Bank<'_>, data: &mut [u8], set: bool) -> Result<(), Status> {
    serve(bank, data, set, XMIT_DISCARDS)
}

/// Serves both attributes: port, CounterSelect, and 16 bits per counter.
fn serve(bank: &mut Bank<'_>, data: &mut [u8], set: bool, counters: &[Counter]) -> Result<(), Status> {
    let (head, registers) = data.split_at_mut_checked(4).ok_or(Status::INVALID_FIELD)?;
    let select = u16::from_be_bytes([head[2], head[3]]);
    let (registers, _) = registers.as_chunks_mut::<2>();
    for (place, (register, counter)) in registers.iter_mut().zip(counters).enumerate() {
        if set && select & 1 << place != 0 {
            bank.write(*counter, u16::from_be_bytes(*register).into());
        }
        *register = (bank.read(*counter).min(0xffff) as u16).to_be_bytes();
    }
    Ok(())
}
