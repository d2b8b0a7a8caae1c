//! Requests of an open port that wait for their answers. The kernel refuses a second request with the transaction ID of
//! a waiting one, and the program expects that error from the sending call, so this check runs in the program.

use std::collections::BTreeSet;

use zerocopy::FromBytes;

use crate::umad::UmadHead;

/// Limit of tracked requests; beyond it duplicates pass unnoticed.
const REQUESTS_MAX: usize = 1 << 17;

/// Bytes of a datagram's common header (IBA 13.4.2).
const HEADER_BYTES: usize = 24;
const RESPONSE: u8 = 0x80;
const TRAP_REPRESS: u8 = 0x07;
const CLASS_BM: u8 = 0x05;
/// Response bit in the attribute modifier of the baseboard management class.
const BM_RESPONSE: u8 = 1;

/// Agent, class and the program's own part of the transaction ID.
type Key = (u32, u8, [u8; 4]);

/// The waiting requests of a port.
#[derive(Debug, Default)]
pub struct Waiting(BTreeSet<Key>);

struct Header {
    class: u8,
    response: bool,
    tid: [u8; 4],
}

fn header(mad: &[u8]) -> Option<Header> {
    let bytes: &[u8; HEADER_BYTES] = mad.first_chunk()?;
    let (class, method) = (bytes[1], bytes[3]);
    let response =
        method & RESPONSE != 0 || method == TRAP_REPRESS || (class == CLASS_BM && bytes[23] & BM_RESPONSE != 0);
    Some(Header { class, response, tid: [bytes[12], bytes[13], bytes[14], bytes[15]] })
}

impl Waiting {
    /// Adds a request of this agent; returns false if one with the same transaction ID waits already. Answers do not
    /// wait.
    #[must_use]
    pub fn insert(&mut self, agent: u32, mad: &[u8]) -> bool {
        match header(mad) {
            Some(header) if !header.response && self.0.len() < REQUESTS_MAX => {
                self.0.insert((agent, header.class, header.tid))
            }
            _ => true,
        }
    }

    /// Removes a request that was not sent.
    pub fn forget(&mut self, agent: u32, mad: &[u8]) {
        if let Some(header) = header(mad).filter(|header| !header.response) {
            self.0.remove(&(agent, header.class, header.tid));
        }
    }

    /// Removes the request of a received datagram (head included): its answer, or the request itself returned
    /// unanswered.
    pub fn on_received(&mut self, message: &[u8]) {
        let Ok((head, mad)) = UmadHead::read_from_prefix(message) else { return };
        if let Some(header) = header(mad).filter(|header| header.response || head.status != 0) {
            self.0.remove(&(head.agent, header.class, header.tid));
        }
    }

    /// Removes all requests of an agent that is gone.
    pub fn forget_agent(&mut self, agent: u32) {
        self.0.retain(|(other, ..)| *other != agent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::IntoBytes;

    fn mad(method: u8, tid: u8) -> [u8; 256] {
        let mut mad = [0; 256];
        (mad[0], mad[1], mad[3], mad[15]) = (1, 0x81, method, tid);
        mad
    }

    fn message(agent: u32, status: u32, mad: &[u8]) -> Vec<u8> {
        [UmadHead { agent, status, ..UmadHead::default() }.as_bytes(), mad].concat()
    }

    #[test]
    fn a_transaction_id_is_free_when_its_answer_came_or_nobody_gave_one() {
        let mut waiting = Waiting::default();
        assert!(waiting.insert(0, &mad(1, 7)) && !waiting.insert(0, &mad(1, 7)));
        assert!(waiting.insert(0, &mad(1, 8)) && waiting.insert(1, &mad(1, 7)));
        assert!(waiting.insert(0, &mad(0x81, 7)), "an answer does not wait");
        waiting.on_received(&message(0, 0, &mad(1, 7)));
        assert!(!waiting.insert(0, &mad(1, 7)), "somebody else's request has the same number");
        waiting.on_received(&message(0, 0, &mad(0x81, 7)));
        assert!(waiting.insert(0, &mad(1, 7)));
        waiting.on_received(&message(0, 110, &mad(1, 7)[..24]));
        assert!(waiting.insert(0, &mad(1, 7)));
        waiting.forget(0, &mad(1, 7));
        assert!(waiting.insert(0, &mad(1, 7)));
        waiting.forget_agent(0);
        assert!(waiting.insert(0, &mad(1, 8)) && !waiting.insert(1, &mad(1, 7)));
        assert!(waiting.insert(0, &[1; 10]), "too short for a header");
        waiting.on_received(&[1; 70]);
    }
}
