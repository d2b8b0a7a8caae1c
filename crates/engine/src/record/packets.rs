//! Packets as the record has them.

use weft_hca::Screening;
use weft_link::LinkStats;
use weft_record::{Fate, LinkTrouble, PacketInfo};
use weft_transport::{LocalRoute, RxPacket, TxBatch, TxPacket};
use weft_verbs::{AddressVector, Gid};
use weft_wire::opcode::header;
use weft_wire::{Aeth, Bth};
use zerocopy::FromBytes as _;

/// Describes a received packet.
pub fn received(rx: &RxPacket<'_>) -> PacketInfo {
    let bth = &rx.packet.bth;
    let peer = match rx.local {
        Some(LocalRoute { slid, global: false, .. }) => of_lid(slid),
        _ => rx.sgid,
    };
    PacketInfo {
        peer,
        dest_qpn: bth.dest_qp(),
        psn: bth.psn().value(),
        opcode: bth.opcode().0,
        syndrome: rx.packet.ext.aeth.map(|aeth| aeth.syndrome().to_byte()),
        ack_req: bth.ack_req(),
        pkey: bth.pkey(),
        bytes: rx.packet.payload.len() as u32,
    }
}

/// Translates how the adapter treated a packet.
pub fn fate(screening: Screening) -> Fate {
    match screening {
        Screening::Deliver => Fate::Delivered,
        Screening::UnknownQpn => Fate::UnknownQpn,
        Screening::BadPkey => Fate::BadPkey,
        Screening::BadAddress => Fate::BadAddress,
    }
}

/// Describes the packets of a batch, each with the number of its queue pair.
pub fn sent(batch: &TxBatch) -> impl Iterator<Item = (u32, PacketInfo)> {
    batch.packets.iter().filter_map(|packet| Some((packet.src_qpn, sent_one(batch, packet)?)))
}

fn sent_one(batch: &TxBatch, out: &TxPacket) -> Option<PacketInfo> {
    let bytes = batch.arena.get(out.header.start as usize..out.header.end as usize)?;
    let (bth, rest) = Bth::read_from_prefix(bytes).ok()?;
    Some(PacketInfo {
        peer: name_of(&out.av),
        dest_qpn: out.dest_qpn,
        psn: bth.psn().value(),
        opcode: bth.opcode().0,
        syndrome: syndrome(&bth, rest),
        ack_req: bth.ack_req(),
        pkey: bth.pkey(),
        bytes: out.payload_len,
    })
}

/// Reads the syndrome behind a BTH: an AETH is the first extended header of the packets that have one.
fn syndrome(bth: &Bth, rest: &[u8]) -> Option<u8> {
    let info = bth.opcode().info()?;
    if info.headers & header::AETH == 0 {
        return None;
    }
    let (aeth, _) = Aeth::read_from_prefix(rest).ok()?;
    Some(aeth.syndrome().to_byte())
}

/// Returns the queue pair of a batch's packets, if all are of one.
pub fn only_sender(batch: &TxBatch) -> Option<u32> {
    let (first, others) = batch.packets.split_first()?;
    others.iter().all(|other| other.src_qpn == first.src_qpn).then_some(first.src_qpn)
}

/// Returns the losses between two readings of a link's counters, in the order of [`weft_record::counters::LINK`]. A number
/// of the kernel's belongs to the counter that grew by it.
pub fn troubles(before: &LinkStats, now: &LinkStats) -> impl Iterator<Item = LinkTrouble> {
    let values = |stats: &LinkStats| {
        [
            (stats.tx_refused, stats.tx_refused_errno),
            (stats.tx_unresolved, 0),
            (stats.tx_unmapped, 0),
            (stats.tx_overflowed, 0),
            (stats.rx_icrc_errors, 0),
            (stats.rx_malformed, 0),
            (stats.rx_misrouted, 0),
            (stats.tx_socket_errors, stats.tx_socket_errno),
        ]
    };
    let pairs = values(before).into_iter().zip(values(now)).zip(0..);
    pairs.filter(|(((was, _), (is, _)), _)| is > was).map(|(((was, _), (is, errno)), counter)| LinkTrouble {
        counter,
        amount: is - was,
        errno,
    })
}

fn name_of(av: &AddressVector) -> Gid {
    if av.dlid != 0 && !av.is_global { of_lid(av.dlid) } else { av.dgid }
}

fn of_lid(lid: u16) -> Gid {
    Gid(u128::from(lid).to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_number_belongs_to_the_counter_that_grew() {
        let before = LinkStats { tx_refused: 2, tx_refused_errno: 1, ..LinkStats::default() };
        let now = LinkStats { tx_overflowed: 1, tx_socket_errors: 1, tx_socket_errno: 111, ..before };
        let found: Vec<_> = troubles(&before, &now).collect();
        let trouble = |counter, errno| LinkTrouble { counter, amount: 1, errno };
        assert_eq!(found, [trouble(3, 0), trouble(7, 111)], "the refusal was earlier");
    }

    #[test]
    fn every_counter_has_a_name() {
        let all = LinkStats {
            tx_refused: 1,
            tx_unresolved: 1,
            tx_unmapped: 1,
            tx_overflowed: 1,
            rx_icrc_errors: 1,
            rx_malformed: 1,
            rx_misrouted: 1,
            tx_socket_errors: 1,
            ..LinkStats::default()
        };
        assert_eq!(troubles(&LinkStats::default(), &all).count(), weft_record::counters::LINK.len());
    }
}
