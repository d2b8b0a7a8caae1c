//! One queue pair's records.

use std::collections::BTreeMap;

use crate::recording::Recording;
use weft_record::counters;
use weft_record::{Address, Attributes, Event, Fate, Operation, PacketInfo, PathKind, Record, RequestInfo};

/// Identifies a connection of a queue pair among recordings.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct QpId {
    /// Index of the recording.
    pub recording: usize,
    /// Its number.
    pub qpn: u32,
    /// How many connections of the process had the number before: of other queue pairs, or of this one before a RESET.
    pub reuse: u32,
}

/// A queue pair from its creation, or its RESET, to the next, and its records by time.
#[derive(Clone, PartialEq, Debug)]
pub struct QpStory {
    /// Which queue pair.
    pub id: QpId,
    /// `IBV_QPT_*`, if its creation is recorded.
    pub qp_type: Option<u8>,
    /// Index of its device in the process, if its creation is recorded.
    pub device: Option<u32>,
    /// Path of its packets.
    pub path: PathKind,
    /// Its last state.
    pub state: u8,
    /// Its records.
    pub records: Vec<Record>,
    attributes: Vec<(u64, Attributes)>,
    addresses: Vec<(u64, Address)>,
    /// Whether its last change of state was to RESET: the next one begins another connection.
    is_reset: bool,
}

/// Returns the queue pairs of all recordings, by recording and number.
pub fn stories(recordings: &[Recording]) -> Vec<QpStory> {
    let mut all = Vec::new();
    for (index, recording) in recordings.iter().enumerate() {
        let mut numbers: BTreeMap<u32, Vec<QpStory>> = BTreeMap::new();
        for record in recording.records.iter().filter(|record| is_own(record)) {
            let known = numbers.entry(record.qpn).or_default();
            if known.last().is_none_or(|story| story.ends_before(record)) {
                let id = QpId { recording: index, qpn: record.qpn, reuse: known.len() as u32 };
                known.push(QpStory::after(known.last(), id, record));
            }
            if let Some(story) = of_record(known, record) {
                story.take(*record);
            }
        }
        all.extend(numbers.into_values().flatten());
    }
    all.sort_by_key(|story: &QpStory| story.id);
    all
}

/// Whether a record is about a queue pair of the process: a packet that was dropped may name one that never existed.
fn is_own(record: &Record) -> bool {
    record.qpn != 0 && !matches!(record.event, Event::Received(_, Fate::UnknownQpn) | Event::Link(_))
}

/// Returns the story that a record belongs to: the last one, or for a completion that the program polled late the one in
/// which it was made.
fn of_record<'a>(known: &'a mut [QpStory], record: &Record) -> Option<&'a mut QpStory> {
    let last = known.len().checked_sub(1)?;
    let nth = match record.event {
        Event::Completed(wc) => known.iter().rposition(|story| story.start() <= wc.made_at).unwrap_or(last),
        _ => last,
    };
    known.get_mut(nth)
}

impl QpStory {
    /// Begins the story of a number that `before` had; of a queue pair that was reset the type, the device and the
    /// addresses stay.
    fn after(before: Option<&QpStory>, id: QpId, first: &Record) -> QpStory {
        let same = before.filter(|_| !matches!(first.event, Event::Created { .. }));
        let latest = |changes: &[(u64, Address)]| changes.last().map(|(_, address)| (first.at, *address));
        QpStory {
            id,
            qp_type: same.and_then(|story| story.qp_type),
            device: same.and_then(|story| story.device),
            path: PathKind::Wire,
            state: 0,
            records: Vec::new(),
            attributes: Vec::new(),
            addresses: same.and_then(|story| latest(&story.addresses)).into_iter().collect(),
            is_reset: false,
        }
    }

    /// Whether a record begins another story.
    fn ends_before(&self, record: &Record) -> bool {
        match record.event {
            Event::Created { .. } => true,
            Event::State { to, .. } => self.is_reset && to != RESET,
            _ => false,
        }
    }

    fn take(&mut self, record: Record) {
        match record.event {
            Event::Created { qp_type, device } => (self.qp_type, self.device) = (Some(qp_type), Some(device)),
            // The last state change leaves the path behind.
            Event::State { to, path, .. } => {
                self.state = to;
                self.is_reset = to == RESET;
                if to == RTR || to == RTS {
                    self.path = path;
                }
            }
            Event::Attributes(attributes) => self.attributes.push((record.at, attributes)),
            Event::Address(address) => self.addresses.push((record.at, address)),
            _ => {}
        }
        self.records.push(record);
    }

    /// Returns its attributes at a time; those that it got next if it had none yet.
    pub fn attributes_at(&self, at: u64) -> Attributes {
        as_of(&self.attributes, at).unwrap_or_default()
    }

    /// Returns the addresses of its path at a time; those that it got next if it had none yet.
    pub fn address_at(&self, at: u64) -> Option<Address> {
        as_of(&self.addresses, at)
    }

    /// Returns the time of its first record.
    pub fn start(&self) -> u64 {
        self.records.first().map_or(0, |record| record.at)
    }

    /// Returns when it was destroyed or reset, if it was.
    pub fn end(&self) -> Option<u64> {
        let is_end = |event: &Event| matches!(event, Event::Destroyed | Event::State { to: RESET, .. });
        self.records.iter().find(|record| is_end(&record.event)).map(|record| record.at)
    }

    /// Returns the packets that it sent.
    pub fn sent(&self) -> impl Iterator<Item = (u64, PacketInfo)> {
        self.records.iter().filter_map(|record| match record.event {
            Event::Sent(packet) => Some((record.at, packet)),
            _ => None,
        })
    }

    /// Returns the packets that it received.
    pub fn received(&self) -> impl Iterator<Item = (u64, PacketInfo)> {
        self.records.iter().filter_map(|record| match record.event {
            Event::Received(packet, Fate::Delivered) => Some((record.at, packet)),
            _ => None,
        })
    }

    /// Returns the sum of a counter.
    pub fn count(&self, name: &str) -> u64 {
        let wanted = counters::of_queue_pair(name);
        let amounts = self.records.iter().filter_map(|record| match record.event {
            Event::Counted { counter, amount } if Some(counter) == wanted => Some(amount),
            _ => None,
        });
        amounts.fold(0, u64::saturating_add)
    }

    /// Returns the number of work requests posted: sends and receives.
    pub fn posted(&self) -> (u64, u64) {
        self.records.iter().fold((0, 0), |(all_sends, all_recvs), record| match record.event {
            Event::Posted { sends, recvs } => {
                (all_sends.saturating_add(sends.into()), all_recvs.saturating_add(recvs.into()))
            }
            Event::Request(RequestInfo { operation: Operation::RECEIVE, .. }) => (all_sends, all_recvs + 1),
            Event::Request(_) => (all_sends + 1, all_recvs),
            _ => (all_sends, all_recvs),
        })
    }
}

/// Returns the last value that was set by a time, or the first one.
fn as_of<T: Copy>(changes: &[(u64, T)], at: u64) -> Option<T> {
    let set = changes.iter().rev().find(|(since, _)| *since <= at);
    set.or(changes.first()).map(|(_, value)| *value)
}

/// `IBV_QPS_RESET`.
const RESET: u8 = 0;
/// `IBV_QPS_RTR`.
const RTR: u8 = 2;
/// `IBV_QPS_RTS`.
const RTS: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{HERE, THERE, completion, packet, recording, roce_v2};

    #[test]
    fn a_number_that_is_used_again_is_another_queue_pair() {
        let created = |at| Record { at, qpn: 5, event: Event::Created { qp_type: 2, device: 0 } };
        let stray = Record { at: 3, qpn: 6, event: Event::Received(packet(1), Fate::UnknownQpn) };
        let destroyed = Record { at: 2, qpn: 5, event: Event::Destroyed };
        let posted = Record { at: 5, qpn: 5, event: Event::Posted { sends: 2, recvs: 1 } };
        let all = stories(&[recording(1, &[created(1), destroyed, stray, created(4), posted])]);
        let ids: Vec<_> = all.iter().map(|story| (story.id.qpn, story.id.reuse, story.records.len())).collect();
        assert_eq!(ids, [(5, 0, 2), (5, 1, 2)]);
        assert_eq!((all[0].end(), all[1].posted()), (Some(2), (2, 1)));
    }

    #[test]
    fn a_reset_begins_another_connection() {
        let record = |at, event| Record { at, qpn: 5, event };
        let state = |at, from, to| record(at, Event::State { from, to, path: PathKind::Wire });
        let with = |at, dest_qpn| record(at, Event::Attributes(Attributes { dest_qpn, ..Attributes::default() }));
        let address = roce_v2(HERE, THERE);
        let (_, failed) = completion(4, 12);
        let records = [
            record(1, Event::Created { qp_type: 2, device: 3 }),
            state(2, 0, 1),
            with(3, 7),
            record(3, Event::Address(address)),
            state(5, 6, RESET),
            state(8, RESET, 1),
            with(9, 8),
            record(10, failed),
            state(11, 1, RESET),
            record(12, Event::Destroyed),
        ];
        let all = stories(&[recording(1, &records)]);
        let [first, second] = &all[..] else { panic!("{all:?}") };
        assert_eq!((first.id.reuse, second.id.reuse, second.qp_type, second.device), (0, 1, Some(2), Some(3)));
        assert_eq!((first.attributes_at(100).dest_qpn, second.attributes_at(100).dest_qpn), (7, 8));
        assert_eq!((second.attributes_at(0).dest_qpn, second.address_at(100)), (8, Some(address)));
        assert_eq!((first.end(), second.end()), (Some(5), Some(11)));
        assert_eq!(first.records.last().map(|record| record.at), Some(10), "polled after the RESET");
    }

    #[test]
    fn attributes_are_those_of_their_time() {
        let changes = [(3, 'a'), (5, 'b')];
        assert_eq!([0, 3, 4, 5, 9].map(|at| as_of(&changes, at).unwrap()), ['a', 'a', 'a', 'b', 'b']);
        assert_eq!(as_of::<char>(&[], 4), None);
    }
}
