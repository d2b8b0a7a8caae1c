//! Requests and completions of a replay.

use std::collections::BTreeSet;

use weft_explain::{QpStory, Recording, names};
use weft_record::layout::Section;
use weft_record::{Attributes, Capacity, CompletionInfo, Event, Operation, RequestInfo};

use crate::origin::{self, Connection, Ending};
use crate::refusal::{LENGTH_MAX, Refusal};

/// `IBV_QPT_RC`.
const RC: u8 = 2;
/// `IBV_QPT_UC`.
const UC: u8 = 3;
/// `IBV_WC_WR_FLUSH_ERR`.
const WR_FLUSH_ERR: u8 = 5;
/// `IBV_WC_RECV`: the bit of completions of receives.
const WC_RECV: u8 = 0x80;
/// `IBV_WC_WITH_IMM`.
const WC_WITH_IMM: u8 = 2;

/// One of the two queues of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Queue {
    /// The send queue.
    Send,
    /// The receive queue.
    Receive,
}

impl Queue {
    /// Both.
    pub const ALL: [Queue; 2] = [Queue::Send, Queue::Receive];

    /// Returns the queue of an operation.
    pub fn of(operation: Operation) -> Queue {
        if operation == Operation::RECEIVE { Queue::Receive } else { Queue::Send }
    }
}

/// Memory of the new peer, in place of the recorded peer's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteMemory {
    /// Address that stands for the lowest one that the program used.
    pub addr: u64,
    /// Its R_Key.
    pub rkey: u32,
}

/// A request to post.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Nanoseconds after the connection; 0 for a receive that was posted before it.
    pub at: u64,
    /// The request, with the new peer's memory.
    pub request: RequestInfo,
    /// Completions of each queue that the program had polled before.
    pub after: [usize; 2],
}

/// A completion that the program polled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expected {
    /// Nanoseconds after the connection.
    pub at: u64,
    /// `IBV_WC_*` status.
    pub status: u8,
    /// `IBV_WC_*` opcode.
    pub opcode: u8,
    /// Byte count.
    pub bytes: u32,
    /// Immediate data.
    pub imm: Option<u32>,
}

/// The replay of a queue pair.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Whether the queue pair is reliable: RC, else UC.
    pub is_reliable: bool,
    /// Its capacity.
    pub capacity: Capacity,
    /// Its attributes when it could carry requests.
    pub attributes: Attributes,
    /// The way in which the program connected it.
    pub connection: Connection,
    /// The side that ended the connection.
    pub ending: Ending,
    /// All requests in their order.
    pub steps: Vec<Step>,
    /// Number of the first ones, receives, that were posted before the connection.
    pub early: usize,
    /// The completions of each queue, in their order.
    pub expected: [Vec<Expected>; 2],
}

impl Plan {
    /// Chooses the queue pair: the one with the number, or the only one with requests.
    ///
    /// # Errors
    /// There is none, or there are several.
    pub fn choose(stories: &[QpStory], qpn: Option<u32>) -> Result<&QpStory, Refusal> {
        let posts = |story: &&QpStory| story.posted() != (0, 0) && qpn.is_none_or(|qpn| qpn == story.id.qpn);
        let found: Vec<&QpStory> = stories.iter().filter(posts).collect();
        match (&found[..], qpn) {
            ([only], _) => Ok(only),
            ([], Some(qpn)) => Err(Refusal::NoSuchQueuePair(qpn)),
            ([], None) => Err(Refusal::Empty),
            ([first, ..], Some(_)) => Ok(first),
            (many, None) => {
                let name = |story: &&QpStory| {
                    format!("0x{:06x} ({})", story.id.qpn, names::qp_type(story.qp_type.unwrap_or_default()))
                };
                Err(Refusal::Several(many.iter().map(name).collect::<Vec<_>>().join(", ")))
            }
        }
    }

    /// Makes the plan of a queue pair. `remote` stands for the recorded peer's memory.
    ///
    /// # Errors
    /// Its replay is not well defined.
    pub fn new(story: &QpStory, recording: &Recording, remote: Option<RemoteMemory>) -> Result<Plan, Refusal> {
        check_complete(story, recording)?;
        let (is_reliable, capacity) = check_kind(story)?;
        let connected = origin::connected_at(story).ok_or(Refusal::NotConnected)?;
        check_peer(story)?;
        let mut requests = requests(story);
        requests.iter().try_for_each(|(_, request)| check_request(request))?;
        place(&mut requests, remote)?;
        let ended = origin::ended_at(story).unwrap_or(u64::MAX);
        let polled = completions(story, ended);
        let mut plan = Plan {
            is_reliable,
            capacity,
            attributes: story.attributes_at(connected),
            connection: origin::connection(story, recording),
            ending: origin::ending(story),
            steps: Vec::new(),
            early: requests.iter().take_while(|(at, _)| *at < connected).count(),
            expected: [Vec::new(), Vec::new()],
        };
        for (at, request) in requests.into_iter().filter(|(at, _)| *at < ended) {
            let after = Queue::ALL.map(|queue| polled[queue as usize].iter().filter(|wc| wc.0 <= at).count());
            plan.steps.push(Step { at: at.saturating_sub(connected), request, after });
        }
        for queue in Queue::ALL {
            let of = |(at, wc): &(u64, CompletionInfo)| expected(at.saturating_sub(connected), wc);
            plan.expected[queue as usize] = polled[queue as usize].iter().map(of).collect();
        }
        Ok(plan)
    }

    /// Returns the number of bytes of the longest request of a queue.
    pub fn length_max(&self, queue: Queue) -> u32 {
        let of_queue = self.steps.iter().filter(|step| Queue::of(step.request.operation) == queue);
        of_queue.map(|step| step.request.length).max().unwrap_or(0)
    }

    /// Whether a successful request makes a completion.
    pub fn is_signaled(&self, request: &RequestInfo) -> bool {
        request.operation == Operation::RECEIVE || self.capacity.signals_all || request.flags & SIGNALED != 0
    }
}

/// `IBV_SEND_SIGNALED`.
const SIGNALED: u8 = 2;

/// Refuses a record that does not have all of the queue pair.
fn check_complete(story: &QpStory, recording: &Recording) -> Result<(), Refusal> {
    let is_lost = |section: &Section| !recording.reaches_back(*section, story.start());
    let lost = [Section::Story, Section::Traffic].into_iter().filter(is_lost);
    match lost.map(|section| recording.overwritten[section.index()]).sum() {
        0 => Ok(()),
        lost => Err(Refusal::BeginningLost(lost)),
    }
}

fn check_kind(story: &QpStory) -> Result<(bool, Capacity), Refusal> {
    let is_reliable = match story.qp_type {
        Some(RC) => true,
        Some(UC) => false,
        other => return Err(Refusal::Service(names::qp_type(other.unwrap_or_default()))),
    };
    let capacity = story.records.iter().find_map(|record| match record.event {
        Event::Capacity(capacity) => Some(capacity),
        _ => None,
    });
    let capacity = capacity.ok_or(Refusal::OldRecord)?;
    if capacity.has_srq { Err(Refusal::SharedReceives) } else { Ok((is_reliable, capacity)) }
}

/// Refuses a connection whose peer used memory of the program.
fn check_peer(story: &QpStory) -> Result<(), Refusal> {
    let is_access = |operation: &Operation| {
        !matches!(*operation, Operation::SEND | Operation::SEND_WITH_IMM | Operation::SEND_WITH_INV)
    };
    let requests = story.received().filter(|(_, packet)| !names::is_response(packet.opcode));
    match requests.filter_map(|(_, packet)| names::operation_of_packet(packet.opcode)).find(is_access) {
        Some(operation) => Err(Refusal::PeerAccess(names::operation(operation).into_owned())),
        None => Ok(()),
    }
}

fn requests(story: &QpStory) -> Vec<(u64, RequestInfo)> {
    let requests = story.records.iter().filter_map(|record| match record.event {
        Event::Request(request) => Some((record.at, request)),
        _ => None,
    });
    requests.collect()
}

fn check_request(request: &RequestInfo) -> Result<(), Refusal> {
    if request.length > LENGTH_MAX {
        return Err(Refusal::TooLong(request.length));
    }
    match request.operation {
        Operation::SEND
        | Operation::SEND_WITH_IMM
        | Operation::RDMA_WRITE
        | Operation::RDMA_WRITE_WITH_IMM
        | Operation::RDMA_READ
        | Operation::ATOMIC_CMP_AND_SWP
        | Operation::ATOMIC_FETCH_AND_ADD
        | Operation::RECEIVE => Ok(()),
        other => Err(Refusal::Operation(other)),
    }
}

/// Whether an operation names memory of the peer.
fn is_remote(operation: Operation) -> bool {
    !matches!(operation, Operation::SEND | Operation::SEND_WITH_IMM | Operation::RECEIVE)
}

/// Puts the new peer's memory in place of the recorded peer's: the lowest address becomes the new one, and distances stay.
fn place(requests: &mut [(u64, RequestInfo)], remote: Option<RemoteMemory>) -> Result<(), Refusal> {
    let used = || requests.iter().map(|(_, request)| request).filter(|request| is_remote(request.operation));
    let Some(first) = used().next() else { return Ok(()) };
    let Some(remote) = remote else { return Err(Refusal::RemoteMemory(first.operation)) };
    let regions: BTreeSet<u32> = used().map(|request| request.rkey).collect();
    if regions.len() > 1 {
        return Err(Refusal::SeveralRegions(regions.len()));
    }
    let lowest = used().map(|request| request.remote_addr).min().unwrap_or(0);
    for (_, request) in requests.iter_mut().filter(|(_, request)| is_remote(request.operation)) {
        request.remote_addr = remote.addr.wrapping_add(request.remote_addr - lowest);
        request.rkey = remote.rkey;
    }
    Ok(())
}

/// Returns the completions of each queue that belong to the traffic: requests that an orderly end flushed do not.
fn completions(story: &QpStory, ended: u64) -> [Vec<(u64, CompletionInfo)>; 2] {
    let mut queues = [Vec::new(), Vec::new()];
    for record in &story.records {
        let Event::Completed(wc) = record.event else { continue };
        if wc.status == WR_FLUSH_ERR && record.at >= ended {
            continue;
        }
        let queue = if wc.opcode & WC_RECV != 0 { Queue::Receive } else { Queue::Send };
        queues[queue as usize].push((record.at, wc));
    }
    queues
}

fn expected(at: u64, wc: &CompletionInfo) -> Expected {
    let imm = (wc.flags & WC_WITH_IMM != 0).then_some(wc.imm);
    Expected { at, status: wc.status, opcode: wc.opcode, bytes: wc.bytes, imm }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Script, packet, request};
    use weft_explain::stories;
    use weft_record::{Fate, Record};

    fn planned(script: &Script, remote: Option<RemoteMemory>) -> Result<Plan, Refusal> {
        let recordings = [script.recording()];
        let all = stories(&recordings);
        Plan::new(Plan::choose(&all, None)?, &recordings[0], remote)
    }

    #[test]
    fn a_request_waits_for_the_completions_that_were_polled_before_it() {
        let script = Script::connected()
            .posted(50, request(Operation::RECEIVE, 64))
            .posted(110, request(Operation::SEND, 64))
            .completed(120, 0, 0, 0)
            .completed(130, 0x80, 0, 32)
            .posted(140, request(Operation::RECEIVE, 64))
            .posted(150, request(Operation::SEND, 8));
        let plan = planned(&script, None).unwrap();
        let steps: Vec<_> = plan.steps.iter().map(|step| (step.at, step.request.length, step.after)).collect();
        assert_eq!(steps, [(0, 64, [0, 0]), (10, 64, [0, 0]), (40, 64, [1, 1]), (50, 8, [1, 1])]);
        assert_eq!((plan.early, plan.is_reliable, plan.attributes.mtu), (1, true, 1024));
        assert_eq!((plan.length_max(Queue::Send), plan.length_max(Queue::Receive)), (64, 64));
        let received = Expected { at: 30, status: 0, opcode: 0x80, bytes: 32, imm: None };
        assert_eq!(plan.expected[Queue::Receive as usize], [received]);
    }

    #[test]
    fn requests_that_an_orderly_end_flushed_are_no_traffic() {
        let script = Script::connected()
            .posted(50, request(Operation::RECEIVE, 64))
            .with(200, crate::testing::state(3, 6))
            .posted(210, request(Operation::RECEIVE, 64))
            .completed(220, 0x80, 5, 0);
        let plan = planned(&script, None).unwrap();
        assert_eq!((plan.steps.len(), plan.expected), (1, [Vec::new(), Vec::new()]));
    }

    #[test]
    fn memory_of_the_peer_is_replaced() {
        let write = |addr| RequestInfo { remote_addr: addr, rkey: 7, ..request(Operation::RDMA_WRITE, 8) };
        let script = Script::connected().posted(110, write(0x2010)).posted(111, write(0x2000));
        assert_eq!(planned(&script, None), Err(Refusal::RemoteMemory(Operation::RDMA_WRITE)));
        let remote = Some(RemoteMemory { addr: 0x9000, rkey: 5 });
        let plan = planned(&script, remote).unwrap();
        let placed: Vec<_> = plan.steps.iter().map(|step| (step.request.remote_addr, step.request.rkey)).collect();
        assert_eq!(placed, [(0x9010, 5), (0x9000, 5)]);
        let other = RequestInfo { rkey: 8, ..write(0) };
        assert_eq!(planned(&script.posted(112, other), remote), Err(Refusal::SeveralRegions(2)));
    }

    #[test]
    fn a_replay_that_is_not_defined_is_refused() {
        let sends = || Script::connected().posted(110, request(Operation::SEND, 8));
        let refusal = |script: Script| planned(&script, None).unwrap_err();
        assert_eq!(refusal(Script::connected()), Refusal::Empty);
        assert_eq!(
            refusal(sends().posted(120, request(Operation::LOCAL_INV, 0))),
            Refusal::Operation(Operation::LOCAL_INV)
        );
        assert_eq!(refusal(sends().posted(120, request(Operation::SEND, 1 << 31))), Refusal::TooLong(1 << 31));
        assert_eq!(refusal(sends().of_type(4)), Refusal::Service("UD"));
        assert_eq!(refusal(sends().with_srq()), Refusal::SharedReceives);
        let read = Event::Received(packet(0x0c), Fate::Delivered);
        assert_eq!(refusal(sends().with(115, read)), Refusal::PeerAccess("IBV_WR_RDMA_READ".to_owned()));
        let answer = Event::Received(packet(0x10), Fate::Delivered);
        assert!(planned(&sends().with(115, answer), None).is_ok(), "an answer is no request");
        let mut old = sends();
        old.records.retain(|record| !matches!(record.event, Event::Capacity(_)));
        assert_eq!(refusal(old), Refusal::OldRecord);
        let mut early = sends();
        early.records.retain(|record| !matches!(record.event, Event::State { to: 3, .. }));
        assert_eq!(refusal(early), Refusal::NotConnected);
        let other = Record { at: 1, qpn: 9, event: Event::Request(request(Operation::SEND, 8)) };
        let mut several = sends();
        several.records.push(other);
        assert_eq!(refusal(several), Refusal::Several("0x000009 (QP), 0x000011 (RC)".to_owned()));
        let mut recordings = [sends().recording()];
        recordings[0].overwritten = [0, 0, 5];
        recordings[0].reaches_back_to = [None, None, Some(105)];
        let all = stories(&recordings);
        assert_eq!(Plan::new(&all[0], &recordings[0], None), Err(Refusal::BeginningLost(5)));
        assert_eq!(Plan::choose(&all, Some(5)).unwrap_err(), Refusal::NoSuchQueuePair(5));
    }
}
