//! A failed queue pair with all that the records say about it.

use weft_wire::aeth::Syndrome;
use weft_wire::{Opcode, Psn};

use crate::finding::Certainty;
use crate::peers::{Peer, Search};
use crate::recording::Recording;
use crate::story::QpStory;
use weft_record::layout::Section;
use weft_record::{
    Address, Attributes, CompletionInfo, Event, LinkTrouble, PacketInfo, Reachability, Record, counters,
};

/// Time in which a program polls a failure so soon that the kernel's view of the peer is of its time.
const PROBED_WITHIN: u64 = 1_000_000_000;

/// `IBV_WC_WR_FLUSH_ERR`.
const WR_FLUSH_ERR: u8 = 5;

/// The first completion with an error of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// When it was made.
    pub at: u64,
    /// The completion.
    pub completion: CompletionInfo,
}

impl Failure {
    /// Returns the failure of a queue pair, if it had one. Flushed requests tell only that it is in the error state.
    pub fn of(qp: &QpStory) -> Option<Failure> {
        qp.records.iter().find_map(|record| match record.event {
            Event::Completed(completion) if completion.status != 0 && completion.status != WR_FLUSH_ERR => {
                Some(Failure { at: completion.made_at.min(record.at), completion })
            }
            _ => None,
        })
    }
}

/// A request without an answer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Unanswered {
    /// The packet.
    pub packet: PacketInfo,
    /// When it left first.
    pub first_sent: u64,
    /// When it left last.
    pub last_sent: u64,
    /// How often it left.
    pub attempts: usize,
}

/// Errors of the kernel for packets of the failed queue pair, from when the unanswered request left first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendErrors {
    /// The last error number.
    pub errno: u32,
    /// How many packets had it.
    pub count: u64,
    /// Whether every transmission of the request had it.
    pub is_every_attempt: bool,
}

/// A failed queue pair, its process, and the other side.
#[derive(Debug)]
pub struct Case<'a> {
    /// The queue pair.
    pub qp: &'a QpStory,
    /// Its process.
    pub process: &'a Recording,
    /// The failure.
    pub failure: Failure,
    /// Its attributes at the time of the failure.
    pub attributes: Attributes,
    /// The addresses of its path at that time.
    pub address: Option<Address>,
    /// The queue pair that it sends to, if that was recorded.
    pub peer: Option<Peer<'a>>,
    /// A queue pair that takes it for its peer, if it sends elsewhere.
    pub claimant: Option<Peer<'a>>,
    /// Whether the claimant's process had the number that this queue pair sends to.
    pub claimant_had_number: bool,
    /// The first request without an answer, on a path of packets.
    pub unanswered: Option<Unanswered>,
}

impl<'a> Case<'a> {
    /// Returns the case of a queue pair; `None` if it did not fail.
    pub fn new(qp: &'a QpStory, stories: &'a [QpStory], recordings: &'a [Recording]) -> Option<Case<'a>> {
        let failure = Failure::of(qp)?;
        let process = recordings.get(qp.id.recording)?;
        let (at, attributes, address) = (failure.at, qp.attributes_at(failure.at), qp.address_at(failure.at));
        let search = Search { story: qp, process, at, attributes, address, stories, recordings };
        let peer = search.named();
        let is_mutual = peer.is_some_and(|peer| peer.attributes.dest_qpn == qp.id.qpn);
        let claimant = if is_mutual { None } else { search.claimant() };
        Some(Case {
            qp,
            process,
            failure,
            attributes,
            address,
            peer,
            claimant,
            claimant_had_number: claimant.is_some_and(|claimant| search.had_number(claimant.story.id.recording)),
            unanswered: unanswered(qp, failure.at),
        })
    }

    /// Returns the completion's status.
    pub fn status(&self) -> u8 {
        self.failure.completion.status
    }

    /// Whether the retries were used up without an answer (`IBV_WC_RETRY_EXC_ERR`, `IBV_WC_RESP_TIMEOUT_ERR`).
    pub fn is_silence(&self) -> bool {
        matches!(self.status(), 12 | 20)
    }

    /// Returns the time of a record after the queue pair's first one, in words.
    pub fn time(&self, at: u64) -> String {
        let first = self.qp.records.first().map_or(at, |record| record.at);
        format!("{} after the queue pair's creation", duration(at.saturating_sub(first)))
    }

    /// Returns the packets from the peer before the failure.
    pub fn heard(&self) -> impl Iterator<Item = (u64, PacketInfo)> {
        self.qp.received().filter(|(at, _)| *at <= self.failure.at)
    }

    /// Whether all packets that the queue pair received are in the record.
    pub fn has_all_heard(&self) -> bool {
        self.process.reaches_back(Section::Traffic, self.qp.start())
    }

    /// Returns the process's records up to the failure.
    pub fn process_records(&self) -> impl DoubleEndedIterator<Item = &'a Record> {
        let until = self.failure.at;
        self.process.records.iter().filter(move |record| record.at <= until)
    }

    /// Returns the queue pair's records up to the failure.
    pub fn own_records(&self) -> impl DoubleEndedIterator<Item = &'a Record> {
        let until = self.failure.at;
        self.qp.records.iter().filter(move |record| record.at <= until)
    }

    /// Returns the peer's address as the kernel saw it when the retries were used up, and whether the program polled the
    /// completion so soon that the answer is of that time.
    pub fn reachability(&self) -> Option<(Reachability, bool)> {
        self.qp.records.iter().find_map(|record| match record.event {
            Event::Reachability(seen) => Some((seen, record.at.saturating_sub(self.failure.at) <= PROBED_WITHIN)),
            _ => None,
        })
    }

    /// Returns the errors with which the kernel refused packets of this queue pair.
    pub fn refused(&self) -> Option<SendErrors> {
        self.send_errors(counters::REFUSED)
    }

    /// Returns the errors of this queue pair's connected socket: the kernel's answer to earlier packets.
    pub fn socket_errors(&self) -> Option<SendErrors> {
        self.send_errors(counters::SOCKET_ERRORS)
    }

    /// Errors before the request without an answer say nothing of it: the peer answered after them.
    fn send_errors(&self, counter: u8) -> Option<SendErrors> {
        let since = match self.unanswered {
            Some(unanswered) => unanswered.first_sent,
            None => self.heard().last().map_or(self.qp.start(), |(at, _)| at),
        };
        let of_own = self.process_records().filter(|record| record.qpn == self.qp.id.qpn && record.at >= since);
        let troubles: Vec<LinkTrouble> = of_own
            .filter_map(|record| match record.event {
                Event::Link(trouble) if trouble.counter == counter && trouble.errno != 0 => Some(trouble),
                _ => None,
            })
            .collect();
        let errno = troubles.last()?.errno;
        let same = troubles.iter().filter(|trouble| trouble.errno == errno);
        let count = same.fold(0_u64, |sum, trouble| sum.saturating_add(trouble.amount));
        let is_every_attempt = self.unanswered.is_some_and(|unanswered| count >= unanswered.attempts as u64);
        Some(SendErrors { errno, count, is_every_attempt })
    }

    /// Returns whether the fabric's path to the peer was ever open, as far as the daemon said.
    pub fn fabric_path(&self) -> Option<bool> {
        let opened = self.own_records().filter_map(|record| match record.event {
            Event::FabricPath { open } => Some(open),
            _ => None,
        });
        opened.fold(None, |ever, open| Some(open || ever == Some(true)))
    }

    /// Returns how long the queue pair waits for an acknowledgement by its attributes; `None` for ever.
    pub fn timeout(&self) -> Option<u64> {
        (self.attributes.timeout > 0).then(|| 4096_u64 << u32::from(self.attributes.timeout).min(31))
    }

    /// Whether the queue pair exchanges data with its peer through memory, so that no packets are recorded.
    pub fn has_no_packets(&self) -> bool {
        self.unanswered.is_none() && self.qp.sent().next().is_none()
    }

    /// Whether its port is one of an InfiniBand fabric.
    pub fn on_fabric(&self) -> bool {
        self.address.is_some_and(|address| address.dlid != 0)
    }
}

impl SendErrors {
    /// Returns how sure a conclusion from the error number is.
    pub fn certainty(&self) -> Certainty {
        if self.is_every_attempt { Certainty::Certain } else { Certainty::Likely }
    }
}

/// Whether a packet is an answer, which is never answered itself.
pub fn is_answer(packet: &PacketInfo) -> bool {
    Opcode(packet.opcode).info().is_some_and(|info| info.kind.is_response())
}

/// Whether an answer acknowledges the PSN that it carries, or only the ones before.
pub fn acknowledges(packet: &PacketInfo) -> bool {
    packet.syndrome.is_none_or(|byte| matches!(Syndrome::from_byte(byte), Syndrome::Ack(_)))
}

/// Whether a PSN comes after another one.
pub fn is_after(psn: u32, other: u32) -> bool {
    let distance = Psn::new(psn).value().wrapping_sub(other) & 0xff_ffff;
    distance != 0 && distance < 1 << 23
}

/// Returns the newest PSN that the peer acknowledged.
pub fn last_acknowledged(received: impl Iterator<Item = (u64, PacketInfo)>) -> Option<u32> {
    let positive = received.map(|(_, packet)| packet).filter(|packet| is_answer(packet) && acknowledges(packet));
    positive.map(|packet| packet.psn).fold(None, |newest, psn| match newest {
        Some(newest) if !is_after(psn, newest) => Some(newest),
        _ => Some(psn),
    })
}

/// Returns the first request that the peer had not acknowledged by this time.
fn unanswered(qp: &QpStory, until: u64) -> Option<Unanswered> {
    let acknowledged = last_acknowledged(qp.received().filter(|(at, _)| *at <= until));
    let is_open =
        |packet: &PacketInfo| !is_answer(packet) && acknowledged.is_none_or(|newest| is_after(packet.psn, newest));
    let requests: Vec<_> = qp.sent().filter(|(at, packet)| *at <= until && is_open(packet)).collect();
    let (_, mut first) = requests.first().copied()?;
    for (_, packet) in &requests {
        if is_after(first.psn, packet.psn) {
            first = *packet;
        }
    }
    let times: Vec<u64> = requests.iter().filter(|(_, packet)| packet.psn == first.psn).map(|(at, _)| *at).collect();
    Some(Unanswered {
        packet: first,
        first_sent: times.first().copied()?,
        last_sent: times.last().copied()?,
        attempts: times.len(),
    })
}

/// Returns a duration in words.
pub fn duration(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{ns} ns"),
        10_000..10_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::story::stories;
    use crate::testing::*;

    #[test]
    fn the_first_request_after_the_last_acknowledgement_is_unanswered() {
        const WRAPPED: u32 = 0;
        let mut events = vec![
            (2 * MS, Event::Sent(packet(0xff_ffff))),
            (2 * MS, Event::Sent(packet(WRAPPED))),
            (3 * MS, Event::Received(answer(0xff_ffff, 0x1f), weft_record::Fate::Delivered)),
        ];
        events.extend(unanswered_of(WRAPPED));
        let recordings = [recording(1, &own(&events))];
        let all = stories(&recordings);
        let case = Case::new(&all[0], &all, &recordings).unwrap();
        let found = case.unanswered.unwrap();
        assert_eq!((found.packet.psn, found.first_sent, found.attempts), (WRAPPED, 2 * MS, 9));
        assert!(case.is_silence() && case.timeout() == Some(67_108_864));
        assert_eq!(case.heard().count(), 1);
    }

    fn unanswered_of(psn: u32) -> Vec<(u64, Event)> {
        crate::testing::unanswered(psn)
    }

    #[test]
    fn flushed_work_is_no_failure() {
        let recordings = [recording(1, &own(&[completion(MS, WR_FLUSH_ERR), completion(2 * MS, 0)]))];
        assert_eq!(Failure::of(&stories(&recordings)[0]), None);
    }
}
