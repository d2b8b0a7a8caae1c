//! Questions of one port to the subnet administration: each is repeated until it is answered or its time is over. Answers
//! are one datagram long; tables, which need more, are for agents that speak RMPP.

use std::collections::BTreeMap;

use weft_verbs::{Duration, Instant};
use weft_wire::mad::sa::{ComponentMask, SaMad};
use weft_wire::mad::{Attribute, Class, Mad, Method, Status};

use crate::{Due, Retry};

/// Questions under way at once.
const QUESTIONS_MAX: usize = 4096;

/// Repeats within the time that a question may take.
const RETRIES: u8 = 3;

/// Why a question was not answered with a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SaError {
    /// Nobody answers.
    TimedOut,
    /// The administration refuses, or has nothing that fits.
    Refused(Status),
}

/// The questions of a port; each has a `T` that its answer comes back with.
#[derive(Debug)]
pub struct SaClient<T> {
    /// Upper half of all transaction ids: not predictable, so that strangers cannot answer.
    tid_base: u64,
    last: u32,
    pending: BTreeMap<u64, Pending<T>>,
}

#[derive(Debug)]
struct Pending<T> {
    token: T,
    mad: Mad,
    retry: Retry,
}

impl<T> SaClient<T> {
    /// One without questions. `seed` must not be predictable.
    pub fn new(seed: u64) -> SaClient<T> {
        SaClient { tid_base: seed & !u64::from(u32::MAX), last: seed as u32, pending: BTreeMap::new() }
    }

    /// Asks, for so long at most; gives the datagram to send, or the token back if too much is under way.
    pub fn ask<A: Attribute>(
        &mut self,
        now: Instant,
        within: Duration,
        token: T,
        method: Method,
        (mask, record): (ComponentMask, &A),
    ) -> Result<Mad, T> {
        if self.pending.len() >= QUESTIONS_MAX {
            return Err(token);
        }
        self.last = self.last.wrapping_add(1);
        let tid = self.tid_base | u64::from(self.last);
        let mad = SaMad::request(method, tid, mask, record).to_mad();
        let retry = Retry::start(now, within / (u32::from(RETRIES) + 1), RETRIES);
        self.pending.insert(tid, Pending { token, mad, retry });
        Ok(mad)
    }

    /// Forgets questions.
    pub fn forget(&mut self, which: impl Fn(&T) -> bool) {
        self.pending.retain(|_, pending| !which(&pending.token));
    }

    /// A datagram came from the administration's port: the question that it answers, and the answer.
    pub fn handle_mad(&mut self, mad: &Mad) -> Option<(T, Result<SaMad, SaError>)> {
        let answer = *SaMad::ref_from_mad(mad);
        let header = &answer.header;
        if header.class() != Class::SUBN_ADM || !header.method().is_response() {
            return None;
        }
        let asked = self.pending.get(&header.tid()).map(|pending| pending.mad.header.attr_id())?;
        if asked != header.attr_id() {
            return None;
        }
        let pending = self.pending.remove(&header.tid())?;
        let result = match header.status() {
            Status(0) => Ok(answer),
            status => Err(SaError::Refused(status)),
        };
        Some((pending.token, result))
    }

    /// When [`SaClient::poll_due`] has something.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.pending.values().map(|pending| pending.retry.deadline()).min()
    }

    /// What is due: a datagram to send again, or a question that nobody answered. To be called until there is nothing.
    pub fn poll_due(&mut self, now: Instant) -> Option<Result<Mad, T>> {
        let tid = self.pending.iter().find(|(_, pending)| pending.retry.deadline() <= now).map(|(tid, _)| *tid)?;
        let pending = self.pending.get_mut(&tid)?;
        match pending.retry.poll(now) {
            Due::GiveUp => self.pending.remove(&tid).map(|pending| Err(pending.token)),
            _ => Some(Ok(pending.mad)),
        }
    }

    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
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
        assert!(client.handle_mad(&first.to_mad()).is_none(), "a question is no answer");
        let (token, answer) = client.handle_mad(&answered(second, Status(0))).unwrap();
        assert_eq!((token, answer.unwrap().record::<PathRecord>().map(|path| path.dlid)), (2, Some(7)));
        assert!(client.handle_mad(&answered(second, Status(0))).is_none(), "once is enough");
        let refused = client.handle_mad(&answered(first, Status::SA_NO_RECORDS));
        assert!(matches!(refused, Some((1, Err(SaError::Refused(Status::SA_NO_RECORDS))))));
        assert!(client.is_empty() && client.poll_timeout().is_none());
    }

    #[test]
    fn a_stranger_answers_nothing() {
        let mut client = client();
        let mut mad = ask(&mut client, 1);
        let tid = mad.header.tid();
        mad.header.set_tid(tid ^ 1 << 40);
        assert!(client.handle_mad(&answered(mad, Status(0))).is_none());
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
        };
        assert_eq!((token, sent), (5, 5));
        assert_eq!(now, Instant(0) + SECOND);
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
