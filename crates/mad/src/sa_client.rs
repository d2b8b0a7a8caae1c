//! SA client: queries of one port to subnet administration. Each is repeated until it is answered or times out.
//! Responses are single datagrams; tables, which need more, are for agents that use RMPP. A [`Port`] with one agent
//! does the work; this module matches responses to queries.

use std::collections::BTreeMap;

use weft_verbs::{Duration, Instant};
use weft_wire::mad::sa::{ComponentMask, SaMad};
use weft_wire::mad::{AttrId, Attribute, Mad, MadHeader, Method, Status};
use zerocopy::{FromBytes, IntoBytes};

use crate::{AgentId, AgentSpec, Peer, Port, Send};

/// Queries in flight at once.
const QUESTIONS_MAX: usize = 4096;

/// Repeats within the timeout of a query.
const RETRIES: u32 = 5;

/// Reason why a query was not answered with a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SaError {
    /// No response arrived in time.
    TimedOut,
    /// SA refused the query, or no record matched.
    Refused(Status),
}

/// SA's port, wherever it is: datagrams from elsewhere do not get here.
#[derive(Clone, Copy, Debug)]
struct Administration;

impl Peer for Administration {
    fn same_end(&self, _: &Administration) -> bool {
        true
    }
}

/// Pending queries of a port, each with a `T` that is returned with its answer.
#[derive(Debug)]
pub struct SaClient<T> {
    port: Port<Administration>,
    /// Its number is the upper half of all transaction IDs. It is unpredictable, so that strangers cannot forge
    /// responses.
    agent: AgentId,
    last: u32,
    /// Queries by the lower half of their transaction IDs.
    asked: BTreeMap<u32, (AttrId, T)>,
}

impl<T> SaClient<T> {
    /// Creates a client without queries. `seed` must not be predictable.
    pub fn new(seed: u64) -> SaClient<T> {
        let mut port = Port::numbered_from((seed >> 32) as u32);
        // Registering a port's first agent cannot fail.
        let agent = port.register(AgentSpec::default()).unwrap_or(AgentId(0));
        SaClient { port, agent, last: seed as u32, asked: BTreeMap::new() }
    }

    /// Starts a query with this timeout. Returns the datagram to send, or the token if too many queries are in flight.
    pub fn ask<A: Attribute>(
        &mut self,
        now: Instant,
        within: Duration,
        token: T,
        method: Method,
        (mask, record): (ComponentMask, &A),
    ) -> Result<Mad, T> {
        if self.asked.len() >= QUESTIONS_MAX {
            return Err(token);
        }
        self.last = self.last.wrapping_add(1);
        let mad = SaMad::request(method, self.last.into(), mask, record).to_mad();
        let (attribute, timeout) = (mad.header.attr_id(), within / (RETRIES + 1));
        let (agent, bytes) = (self.agent, mad.as_bytes().to_vec());
        let send = Send { agent, peer: Administration, bytes, timeout, retries: RETRIES };
        if self.port.send(now, send).is_err() {
            return Err(token);
        }
        let Some((_, mad)) = self.port.poll_transmit() else { return Err(token) };
        self.asked.insert(self.last, (attribute, token));
        Ok(mad)
    }

    /// Drops queries.
    pub fn forget(&mut self, which: impl Fn(&T) -> bool) {
        self.asked.retain(|_, (_, token)| !which(token));
    }

    /// Handles a datagram from SA's port: returns the query that it answers, and the answer. Queries that get BUSY, or
    /// go to a port that no longer runs SA, are repeated: another SA takes over.
    pub fn handle_mad(&mut self, now: Instant, mad: &Mad) -> Option<(T, Result<SaMad, SaError>)> {
        let header = &mad.header;
        let tid = header.tid() as u32;
        let again = matches!(header.status(), Status::BUSY | Status::BAD_METHOD_ATTRIBUTE);
        let fits = |(attribute, _): &(AttrId, T)| *attribute == header.attr_id() && !again;
        if !self.asked.get(&tid).is_some_and(fits) || !self.port.handle(now, Administration, mad) {
            return None;
        }
        self.port.poll_delivery()?;
        let (_, token) = self.asked.remove(&tid)?;
        let result = match header.status() {
            Status(0) => Ok(*SaMad::ref_from_mad(mad)),
            status => Err(SaError::Refused(status)),
        };
        Some((token, result))
    }

    /// Returns when [`SaClient::poll_due`] must run next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.port.poll_timeout()
    }

    /// Returns the next due action: a datagram to send again, or a query that timed out. Call it until it returns
    /// `None`.
    pub fn poll_due(&mut self, now: Instant) -> Option<Result<Mad, T>> {
        self.port.handle_timeout(now);
        while let Some((_, mad)) = self.port.poll_transmit() {
            // Dropped queries are not repeated.
            if self.asked.contains_key(&(mad.header.tid() as u32)) {
                return Some(Ok(mad));
            }
        }
        while let Some(given_up) = self.port.poll_delivery() {
            let tid = MadHeader::ref_from_prefix(&given_up.bytes).map_or(0, |(header, _)| header.tid() as u32);
            if let Some((_, token)) = self.asked.remove(&tid) {
                return Some(Err(token));
            }
        }
        None
    }

    /// Returns whether no query is in flight.
    pub fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_wire::mad::sa::PathRecord;

    const SECOND: Duration = Duration::from_secs(1);

    fn client() -> SaClient<u32> {
        SaClient::new(0x1234_5678_9abc_def0)
    }

    fn ask(client: &mut SaClient<u32>, token: u32) -> SaMad {
        let record = PathRecord { dlid: 7, ..PathRecord::default() };
        let mad = client.ask(Instant(0), SECOND, token, Method::GET, (PathRecord::DLID, &record)).unwrap();
        SaMad::from_mad(mad)
    }

    fn answered(mut mad: SaMad, status: Status) -> Mad {
        mad.header.set_method(Method::GET_RESP);
        mad.header.set_status(status);
        mad.to_mad()
    }

    #[test]
    fn an_answer_finds_its_question() {
        let mut client = client();
        let (first, second) = (ask(&mut client, 1), ask(&mut client, 2));
        assert_ne!(first.header.tid(), second.header.tid());
        assert!(client.handle_mad(Instant(0), &first.to_mad()).is_none(), "a question is no answer");
        let (token, answer) = client.handle_mad(Instant(0), &answered(second, Status(0))).unwrap();
        assert_eq!((token, answer.unwrap().record::<PathRecord>().map(|path| path.dlid)), (2, Some(7)));
        assert!(client.handle_mad(Instant(0), &answered(second, Status(0))).is_none(), "once is enough");
        let refused = client.handle_mad(Instant(0), &answered(first, Status::SA_NO_RECORDS));
        assert!(matches!(refused, Some((1, Err(SaError::Refused(Status::SA_NO_RECORDS))))));
        assert!(client.is_empty() && client.poll_timeout().is_none());
    }

    #[test]
    fn where_the_administration_is_gone_its_successor_is_asked() {
        let mut client = client();
        let mad = ask(&mut client, 1);
        for status in [Status::BAD_METHOD_ATTRIBUTE, Status::BUSY] {
            assert!(client.handle_mad(Instant(0), &answered(mad, status)).is_none());
        }
        let due = client.poll_timeout().expect("it is repeated");
        assert_eq!(client.poll_due(due).map(|due| due.map(|again| again.header.tid())), Some(Ok(mad.header.tid())));
        assert!(client.handle_mad(due, &answered(mad, Status(0))).is_some_and(|(_, answer)| answer.is_ok()));
    }

    #[test]
    fn a_stranger_answers_nothing() {
        let mut client = client();
        let mut mad = ask(&mut client, 1);
        let tid = mad.header.tid();
        mad.header.set_tid(tid ^ 1 << 40);
        assert!(client.handle_mad(Instant(0), &answered(mad, Status(0))).is_none());
        assert!(!client.is_empty());
    }

    #[test]
    fn it_is_repeated_and_given_up_in_time() {
        let mut client = client();
        ask(&mut client, 5);
        let mut sent = 0;
        let (token, now) = loop {
            let now = client.poll_timeout().unwrap();
            match client.poll_due(now).unwrap() {
                Ok(_) => sent += 1,
                Err(token) => break (token, now),
            }
            assert!(client.poll_due(now).is_none());
        };
        assert_eq!((token, sent), (5, RETRIES));
        assert_eq!(
            now,
            Instant(0) + SECOND / (RETRIES + 1) * (RETRIES + 1),
            "the whole time, but for what cannot be shared"
        );
        assert!(client.is_empty() && client.poll_due(now).is_none());
    }

    #[test]
    fn who_asks_too_much_gets_the_question_back() {
        let mut client = client();
        let record = PathRecord::default();
        for token in 0..QUESTIONS_MAX as u32 {
            ask(&mut client, token);
        }
        let full = client.ask(Instant(0), SECOND, 9, Method::GET, (ComponentMask::NONE, &record));
        assert_eq!(full.map(drop), Err(9));
        client.forget(|token| *token < 10);
        assert!(client.ask(Instant(0), SECOND, 9, Method::GET, (ComponentMask::NONE, &record)).is_ok());
    }
}
