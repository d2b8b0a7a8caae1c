//! Many outstanding requests through one open port, so that a tool queries a fabric of thousands of nodes in seconds.

use std::collections::HashMap;
use std::io;

use super::address::PortId;
use super::fields::perf::port_counters;
use super::mad::{self, GET, MAD_LEN, Request};
use super::pma;
use super::port::{MadError, Port, REDIRECTS_MAX, first_256, redirect};

/// Number of retries when no answer comes.
const RETRIES: i32 = 3;

/// A Get of subnet management or performance management.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// The destination node.
    pub to: PortId,
    /// Management class.
    pub class: u8,
    /// Attribute.
    pub attribute: u16,
    /// Attribute modifier.
    pub modifier: u32,
    /// PortSelect of performance management.
    pub port_select: u8,
}

impl Question {
    /// A Get of subnet management.
    pub fn smp(to: PortId, attribute: u16, modifier: u32) -> Question {
        let class = if to.is_directed() { mad::CLASS_SUBN_DIRECTED } else { mad::CLASS_SUBN_LID };
        Question { to, class, attribute, modifier, port_select: 0 }
    }

    /// A Get of performance management for a port of the node with this LID.
    pub fn pma(lid: u16, attribute: u16, port_select: u8) -> Question {
        Question { to: PortId::lid(lid), class: mad::CLASS_PERF, attribute, modifier: 0, port_select }
    }
}

/// The caller of [`Port::ask_all`]: supplies requests and takes the answers.
pub trait Asker {
    /// The caller's key that matches an answer to its request.
    type About;

    /// Returns the next request; `None` if there is none at the moment, as an answer may lead to another request.
    fn next(&mut self) -> Option<(Question, Self::About)>;

    /// Takes the answer to a request: the attribute's bytes and the rest of the MAD.
    fn on_answer(&mut self, about: Self::About, answer: Result<&[u8], MadError>);
}

struct UnderWay<T> {
    question: Question,
    about: T,
    redirects: u32,
}

impl Port {
    /// Sends all of `asker`'s requests, `in_flight` at a time, and returns once each has its answer or has failed. The
    /// library retries requests without an answer.
    ///
    /// # Errors
    /// The port can receive no more.
    pub fn ask_all<A: Asker>(&mut self, asker: &mut A, in_flight: usize) -> io::Result<()> {
        let mut under_way: HashMap<u32, UnderWay<A::About>> = HashMap::new();
        loop {
            while under_way.len() < in_flight.max(1) {
                let Some((question, about)) = asker.next() else { break };
                let asked = UnderWay { question, about, redirects: 0 };
                self.put(asker, &mut under_way, asked);
            }
            if under_way.is_empty() {
                return Ok(());
            }
            let packet = self.recv(-1)?;
            // A duplicate answer has no outstanding request.
            let Some(mut asked) = under_way.remove(&mad::tid(packet.mad())) else { continue };
            let answer = first_256(packet.mad());
            let status = mad::status(&answer, asked.question.class);
            match (packet.status(), status) {
                (0, 0) => asker.on_answer(asked.about, Ok(&answer[mad::DATA_AT..])),
                (0, mad::STATUS_REDIRECT)
                    if asked.redirects < REDIRECTS_MAX && redirect(&mut asked.question.to, &answer, false) =>
                {
                    asked.redirects += 1;
                    self.put(asker, &mut under_way, asked);
                }
                (0, status) => asker.on_answer(asked.about, Err(MadError { status, errno: libc::EIO })),
                (errno, _) => asker.on_answer(asked.about, Err(MadError { status: 0, errno })),
            }
        }
    }

    fn put<A: Asker>(
        &mut self,
        asker: &mut A,
        under_way: &mut HashMap<u32, UnderWay<A::About>>,
        asked: UnderWay<A::About>,
    ) {
        match self.send_question(&asked.question) {
            Ok(tid) => drop(under_way.insert(tid, asked)),
            Err(error) => asker.on_answer(asked.about, Err(error)),
        }
    }

    fn send_question(&mut self, question: &Question) -> Result<u32, MadError> {
        let Question { to, class, attribute, modifier, port_select } = *question;
        let mut data = [0; pma::DATA_LEN];
        port_counters::PORT_SELECT.set(&mut data, port_select.into());
        let data: &[u8] = if class == mad::CLASS_PERF { &data } else { &[] };
        let request =
            Request { class, method: GET, attribute, modifier, m_key: self.m_key, data, ..Request::default() };
        let mut packet = self.packet(&request, &to)?;
        debug_assert_eq!(packet.mad().len(), MAD_LEN);
        let wait = i32::try_from(self.timeout_ms()).unwrap_or(i32::MAX);
        self.send_with_retries(class, &mut packet, wait, RETRIES).map_err(|error| MadError::of(&error))?;
        Ok(mad::tid(packet.mad()))
    }
}
