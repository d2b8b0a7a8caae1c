//! PortCounters: the counters that every port has, which stop at their fields' maximum.

use super::bank::{Bank, answer};
use crate::counters::Counter;
use weft_wire::mad::perf::{CounterSelect, PortCounters};
use weft_wire::mad::{Attribute, Status};

/// A counter with its register in PortCounters, and the bit of CounterSelect that sets it.
struct Register {
    counter: Counter,
    select: CounterSelect,
    get: fn(&PortCounters) -> u64,
    put: fn(&mut PortCounters, u64),
}

macro_rules! registers {
    ($($counter:ident $select:ident $field:ident: $ty:ident <= $max:expr;)*) => {
        &[$(Register {
            counter: Counter::$counter,
            select: CounterSelect::$select,
            get: |counters| u64::from(counters.$field),
            put: |counters, value| counters.$field = value.min($max) as $ty,
        }),*]
    };
}

const REGISTERS: &[Register] = registers! {
    SymbolErrors SYMBOL_ERROR symbol_error_counter: u16 <= 0xffff;
    LinkErrorRecovery LINK_ERROR_RECOVERY link_error_recovery_counter: u8 <= 0xff;
    LinkDowned LINK_DOWNED link_downed_counter: u8 <= 0xff;
    RcvErrors RCV_ERRORS port_rcv_errors: u16 <= 0xffff;
    RcvRemotePhysicalErrors RCV_REMOTE_PHYSICAL_ERRORS port_rcv_remote_physical_errors: u16 <= 0xffff;
    RcvSwitchRelayErrors RCV_SWITCH_RELAY_ERRORS port_rcv_switch_relay_errors: u16 <= 0xffff;
    XmitDiscards XMIT_DISCARDS port_xmit_discards: u16 <= 0xffff;
    XmitConstraintErrors XMIT_CONSTRAINT_ERRORS port_xmit_constraint_errors: u8 <= 0xff;
    RcvConstraintErrors RCV_CONSTRAINT_ERRORS port_rcv_constraint_errors: u8 <= 0xff;
    LocalLinkIntegrityErrors LOCAL_LINK_INTEGRITY_ERRORS local_link_integrity_errors: u8 <= 0xf;
    ExcessiveBufferOverrunErrors EXCESSIVE_BUFFER_OVERRUN_ERRORS excessive_buffer_overrun_errors: u8 <= 0xf;
    Vl15Dropped VL15_DROPPED vl15_dropped: u16 <= 0xffff;
    XmitData XMIT_DATA port_xmit_data: u32 <= 0xffff_ffff;
    RcvData RCV_DATA port_rcv_data: u32 <= 0xffff_ffff;
    XmitPackets XMIT_PKTS port_xmit_pkts: u32 <= 0xffff_ffff;
    RcvPackets RCV_PKTS port_rcv_pkts: u32 <= 0xffff_ffff;
};

/// PortXmitWait and QP1Dropped, which CounterSelect2 sets: bits 0 and 1.
const REGISTERS2: &[(u8, Counter)] = &[(1, Counter::XmitWait), (2, Counter::Qp1Dropped)];

pub(super) fn serve(bank: &mut Bank<'_>, data: &mut [u8], set: bool) -> Result<(), Status> {
    let asked = PortCounters::read(data).ok_or(Status::INVALID_FIELD)?;
    if set {
        for register in REGISTERS.iter().filter(|register| asked.counter_select.contains(register.select)) {
            bank.write(register.counter, (register.get)(&asked));
        }
        for (bit, counter) in REGISTERS2.iter().filter(|(bit, _)| asked.counter_select2 & bit != 0) {
            bank.write(*counter, u64::from(if *bit == 1 { asked.port_xmit_wait } else { asked.qp1_dropped.into() }));
        }
    }
    let mut counters = PortCounters {
        port_select: asked.port_select,
        counter_select: asked.counter_select,
        counter_select2: asked.counter_select2,
        port_xmit_wait: bank.read(Counter::XmitWait).min(0xffff_ffff) as u32,
        qp1_dropped: bank.read(Counter::Qp1Dropped).min(0xffff) as u16,
        ..PortCounters::default()
    };
    for register in REGISTERS {
        (register.put)(&mut counters, bank.read(register.counter));
    }
    answer(data, &counters)
}
