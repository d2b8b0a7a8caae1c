//! PortCountersExtended: 64-bit counters, which do not saturate in practice. They are cleared independently of
//! PortCounters.

use super::bank::{Bank, answer};
use crate::counters::Counter;
use weft_wire::mad::perf::PortCountersExtended;
use weft_wire::mad::{Attribute, Status};

/// A counter with its field, and the bit that sets it: of CounterSelect (0) or CounterSelect2 (1).
struct Register {
    counter: Counter,
    select: usize,
    bit: u32,
    get: fn(&PortCountersExtended) -> u64,
    put: fn(&mut PortCountersExtended, u64),
}

macro_rules! registers {
    ($($counter:ident $select:literal $bit:literal $field:ident;)*) => {
        &[$(Register {
            counter: Counter::$counter,
            select: $select,
            bit: 1 << $bit,
            get: |counters| counters.$field,
            put: |counters, value| counters.$field = value,
        }),*]
    };
}

const REGISTERS: &[Register] = registers! {
    XmitData 0 0 port_xmit_data;
    RcvData 0 1 port_rcv_data;
    XmitPackets 0 2 port_xmit_pkts;
    RcvPackets 0 3 port_rcv_pkts;
    UnicastXmitPackets 0 4 port_unicast_xmit_pkts;
    UnicastRcvPackets 0 5 port_unicast_rcv_pkts;
    MulticastXmitPackets 0 6 port_multicast_xmit_pkts;
    MulticastRcvPackets 0 7 port_multicast_rcv_pkts;
    SymbolErrors 1 0 symbol_error_counter;
    LinkErrorRecovery 1 1 link_error_recovery_counter;
    LinkDowned 1 2 link_downed_counter;
    RcvErrors 1 3 port_rcv_errors;
    RcvRemotePhysicalErrors 1 4 port_rcv_remote_physical_errors;
    RcvSwitchRelayErrors 1 5 port_rcv_switch_relay_errors;
    XmitDiscards 1 6 port_xmit_discards;
    XmitConstraintErrors 1 7 port_xmit_constraint_errors;
    RcvConstraintErrors 1 8 port_rcv_constraint_errors;
    LocalLinkIntegrityErrors 1 9 local_link_integrity_errors;
    ExcessiveBufferOverrunErrors 1 10 excessive_buffer_overrun_errors;
    Vl15Dropped 1 11 vl15_dropped;
    XmitWait 1 12 port_xmit_wait;
    Qp1Dropped 1 13 qp1_dropped;
};

pub(super) fn serve(bank: &mut Bank<'_>, data: &mut [u8], set: bool) -> Result<(), Status> {
    let asked = PortCountersExtended::read(data).ok_or(Status::INVALID_FIELD)?;
    if set {
        let selects = [u32::from(asked.counter_select), asked.counter_select2];
        for register in REGISTERS.iter().filter(|register| selects[register.select] & register.bit != 0) {
            bank.write(register.counter, (register.get)(&asked));
        }
    }
    let mut counters = PortCountersExtended {
        port_select: asked.port_select,
        counter_select: asked.counter_select,
        counter_select2: asked.counter_select2,
        ..PortCountersExtended::default()
    };
    for register in REGISTERS {
        (register.put)(&mut counters, bank.read(register.counter));
    }
    answer(data, &counters)
}
