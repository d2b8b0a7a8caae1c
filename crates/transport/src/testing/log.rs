//! Packets as lines of text.

use weft_wire::{Packet, Syndrome};

/// Formats one packet as one line.
pub fn describe(side: usize, packet: &Packet<'_>) -> String {
    let mut line = format!("{side} {} {:06x}", packet.info.name, packet.bth.psn().value());
    if packet.bth.ack_req() {
        line.push_str(" A");
    }
    if packet.bth.solicited() {
        line.push_str(" S");
    }
    if !packet.payload.is_empty() {
        line.push_str(&format!(" data={}", packet.payload.len()));
    }
    if let Some(reth) = packet.ext.reth {
        line.push_str(&format!(" dmalen={}", reth.dma_len()));
    }
    if let Some(aeth) = packet.ext.aeth {
        match aeth.syndrome() {
            Syndrome::Ack(c) => line.push_str(&format!(" ack={c}")),
            Syndrome::RnrNak(t) => line.push_str(&format!(" rnr={t}")),
            Syndrome::Nak(n) => line.push_str(&format!(" nak={}", n.0)),
            Syndrome::Reserved(b) => line.push_str(&format!(" reserved={b}")),
        }
        line.push_str(&format!(" msn={}", aeth.msn()));
    }
    line
}
