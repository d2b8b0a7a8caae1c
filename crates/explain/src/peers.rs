//! The other side of a queue pair, if it was recorded.

use crate::finding::Certainty;
use crate::recording::Recording;
use crate::story::QpStory;
use weft_record::layout::Section;
use weft_record::{Address, Attributes, Event, Fate, PacketInfo};
use weft_verbs::Gid;

/// A queue pair of the other side. Its times are converted to the monotonic clock of the side that failed.
#[derive(Clone, Copy, Debug)]
pub struct Peer<'a> {
    /// Its records.
    pub story: &'a QpStory,
    /// Its process.
    pub process: &'a Recording,
    /// Its attributes at the time of the failure.
    pub attributes: Attributes,
    /// The addresses of its path at that time.
    pub address: Option<Address>,
    /// The process that failed.
    own: &'a Recording,
    /// The number that the failed queue pair sends to.
    wanted: u32,
    /// The address that it sends from.
    sender: Option<Gid>,
}

/// A queue pair, as it was at a time, that looks for its peer.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    /// Its records.
    pub story: &'a QpStory,
    /// Its process.
    pub process: &'a Recording,
    /// The time.
    pub at: u64,
    /// Its attributes at that time.
    pub attributes: Attributes,
    /// The addresses of its path at that time.
    pub address: Option<Address>,
    /// All queue pairs.
    pub stories: &'a [QpStory],
    /// All processes.
    pub recordings: &'a [Recording],
}

impl<'a> Search<'a> {
    /// Returns the queue pair that this one sends to: the one of its number and address that exists at the same time.
    pub fn named(&self) -> Option<Peer<'a>> {
        let wanted = self.attributes.dest_qpn;
        self.pick(|peer| peer.story.id.qpn == wanted && sends_from(peer.address, self.address))
    }

    /// Returns the queue pair that takes this one for its peer, although this one sends elsewhere: to another number of the
    /// same address, or to the same number of another address.
    pub fn claimant(&self) -> Option<Peer<'a>> {
        self.pick(|peer| {
            let sends_here = peer.attributes.dest_qpn == self.story.id.qpn && goes_to(peer.address, self.address);
            let same_number = peer.story.id.qpn == self.attributes.dest_qpn;
            sends_here && same_number != sends_from(peer.address, self.address)
        })
    }

    /// Whether a process had the number that this queue pair sends to, at the same time and under any address.
    pub fn had_number(&self, process: usize) -> bool {
        let wanted = self.attributes.dest_qpn;
        self.coexisting().any(|peer| peer.story.id.recording == process && peer.story.id.qpn == wanted)
    }

    /// Returns the best of the queue pairs that `is_wanted` admits: one that sends back comes before others.
    fn pick(&self, is_wanted: impl Fn(&Peer<'_>) -> bool) -> Option<Peer<'a>> {
        let candidates = self.coexisting().filter(|peer| is_wanted(peer));
        candidates.max_by_key(|peer| peer.attributes.dest_qpn == self.story.id.qpn)
    }

    /// Returns the other queue pairs that existed at some time of this one's, as far as the clocks tell.
    fn coexisting(&self) -> impl Iterator<Item = Peer<'a>> {
        let others = self.stories.iter().filter(move |story| story.id != self.story.id);
        let peers = others.filter_map(move |story| Some(self.peer(story, self.recordings.get(story.id.recording)?)));
        peers.filter(move |peer| {
            let started = peer.story.start() <= self.at;
            let ended = peer.story.end().is_some_and(|end| end < self.story.start());
            !peer.shares_clock() || started && !ended
        })
    }

    fn peer(&self, story: &'a QpStory, process: &'a Recording) -> Peer<'a> {
        let at = process.time_of(self.process, self.at);
        Peer {
            story,
            process,
            attributes: story.attributes_at(at),
            address: story.address_at(at),
            own: self.process,
            wanted: self.attributes.dest_qpn,
            sender: self.address.filter(|to| to.is_global).map(|to| to.sgid),
        }
    }
}

/// Whether a queue pair has the address that another one sends to. LIDs of a queue pair's own port are not recorded.
fn sends_from(theirs: Option<Address>, ours: Option<Address>) -> bool {
    match (theirs, ours) {
        (Some(theirs), Some(ours)) => !ours.is_global || theirs.sgid == ours.dgid,
        _ => false,
    }
}

fn goes_to(theirs: Option<Address>, ours: Option<Address>) -> bool {
    match (theirs, ours) {
        (Some(theirs), Some(ours)) => !theirs.is_global || theirs.dgid == ours.sgid,
        _ => false,
    }
}

impl<'a> Peer<'a> {
    /// Returns the packets of the failed queue pair that its process received, each with its time.
    pub fn arrivals(&self) -> impl Iterator<Item = (u64, PacketInfo, Fate)> + use<'a> {
        let Peer { wanted, sender, process, own, .. } = *self;
        process.records.iter().filter_map(move |record| match record.event {
            Event::Received(packet, fate)
                if packet.dest_qpn == wanted && sender.is_none_or(|sender| packet.peer == sender) =>
            {
                Some((own.time_of(process, record.at), packet, fate))
            }
            _ => None,
        })
    }

    /// Converts a time of its process.
    pub fn time(&self, at: u64) -> u64 {
        self.own.time_of(self.process, at)
    }

    /// Whether its times are exact.
    pub fn shares_clock(&self) -> bool {
        self.own.shares_clock(self.process)
    }

    /// Returns how sure a conclusion from the order of events of both sides is.
    pub fn certainty(&self) -> Certainty {
        if self.shares_clock() { Certainty::Certain } else { Certainty::Likely }
    }

    /// Whether everything that its process received since a time is in the record.
    pub fn has_arrivals_since(&self, at: u64) -> bool {
        let at = self.process.time_of(self.own, at);
        [Section::Traffic, Section::Trouble].into_iter().all(|section| self.process.reaches_back(section, at))
    }

    /// Returns the time of the last record of its process.
    pub fn last_sign(&self) -> u64 {
        self.time(self.process.records.last().map_or(self.process.started, |last| last.at))
    }

    /// Describes it.
    pub fn describe(&self) -> String {
        let Recording { pid, host, .. } = self.process;
        format!("queue pair 0x{:06x} of process {pid} on {host}", self.story.id.qpn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::story::stories;
    use crate::testing::*;
    use weft_record::Record;

    fn peer_of(recordings: &[Recording]) -> Option<u32> {
        let all = stories(recordings);
        let own = all.iter().find(|story| story.id.qpn == OWN).unwrap();
        let search = Search {
            story: own,
            process: &recordings[0],
            at: 500,
            attributes: own.attributes_at(500),
            address: own.address_at(500),
            stories: &all,
            recordings,
        };
        search.named().map(|peer| peer.process.pid)
    }

    fn from(start: u64, records: Vec<Record>) -> Vec<Record> {
        records.into_iter().map(|record| Record { at: record.at + start, ..record }).collect()
    }

    #[test]
    fn a_peer_exists_at_the_same_time() {
        let own = recording(1, &from(100, own(&[])));
        let destroyed = recording(2, &other(&[(50, Event::Destroyed)]));
        assert_eq!(peer_of(&[own.clone(), destroyed.clone()]), None, "it was destroyed before");
        let later = recording(3, &from(900, other(&[])));
        assert_eq!(peer_of(&[own.clone(), later]), None, "it was created later");
        let elsewhere = Recording { boot: 99, ..destroyed.clone() };
        assert_eq!(peer_of(&[own.clone(), elsewhere]), Some(2), "another clock proves nothing");
        let same_time = recording(4, &from(100, other(&[(150, Event::Destroyed)])));
        assert_eq!(peer_of(&[own, destroyed, same_time]), Some(4));
    }
}
