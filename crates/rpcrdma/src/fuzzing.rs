//! Fuzz targets: bytes of a peer.

use crate::nfs::CallInfo;
use crate::wire::{Header, PrivateData};
use crate::{
    CallId, OfferedMemory, RegisteredMemory, Registration, RegistrationFailed, Requester, RequesterConfig, Responder,
    ResponderAction, ResponderConfig,
};

const END: PrivateData = PrivateData { remote_invalidation: true, send_bytes: 4096, receive_bytes: 4096 };
const MEMORY_MAX: usize = 64 * 1024;

/// Cuts the input into messages: a length byte in units of four, and the bytes.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (len, rest) = bytes.split_first()?;
        let (message, rest) = rest.split_at(rest.len().min(usize::from(*len) * 4));
        bytes = rest;
        Some(message)
    })
}

/// Reads any bytes as a header, and as private data; each is written again.
pub fn header(bytes: &[u8]) {
    if let Ok((header, len)) = Header::parse(bytes) {
        assert_eq!(header.to_bytes(), bytes[..len]);
    }
    let end = PrivateData::parse(bytes);
    assert_eq!(PrivateData::parse(&end.to_bytes()), end);
}

/// Looks for eligible data in any call, and in any reply to it.
pub fn nfs(bytes: &[u8]) {
    let mut messages = messages(bytes);
    let (call, reply) = (messages.next().unwrap_or_default(), messages.next().unwrap_or_default());
    let info = CallInfo::parse(call);
    assert!(info.eligible.arguments.iter().all(|range| call.get(range.clone()).is_some()));
    let results = info.results_of(reply);
    assert!(results.iter().all(|range| reply.get(range.clone()).is_some()));
    // A reply without its results becomes whole again.
    let rest = crate::operation::without(&results, reply.len());
    let reduced: Vec<u8> = rest.into_iter().flat_map(|range| &reply[range]).copied().collect();
    let data: Vec<&[u8]> = results.iter().map(|range| &reply[range.clone()]).collect();
    assert_eq!(info.restore(&reduced, &data).map(|whole| whole.len()), Some(reply.len()));
}

/// Feeds any messages to a responder; its READs complete, and calls get replies.
pub fn responder(bytes: &[u8]) {
    let config =
        ResponderConfig { local: END, credits: 4, message_max_bytes: MEMORY_MAX / 2, memory_max_bytes: MEMORY_MAX };
    let mut responder = Responder::new(config, END);
    let mut reading: Vec<(CallId, usize)> = Vec::new();
    let mut whole = Vec::new();
    for message in messages(bytes) {
        if responder.handle_receive(message).is_err() {
            return;
        }
        while let Some(action) = responder.poll() {
            match action {
                ResponderAction::Assemble(id, assembly) => {
                    assembly.place_inline(&mut vec![0; assembly.message_len()]);
                    reading.push((id, assembly.reads().len()));
                }
                ResponderAction::Execute(id) => whole.push(id),
                _ => {}
            }
        }
        assert!(responder.unanswered() <= 4 && responder.memory_used() <= MEMORY_MAX);
        if message.len() % 8 == 0 {
            reading.drain(..).for_each(|(id, reads)| (0..reads).for_each(|_| responder.read_completed(id)));
        }
        if let Some(id) = whole.pop() {
            let plan = responder.reply(id, message.len(), &[]).expect("a whole call");
            assert!(plan.writes.iter().all(|write| write.source.end <= message.len()));
        }
    }
}

/// Keys of a requester's memory: valid or not.
#[derive(Default)]
struct Keys(Vec<bool>);

impl Registration for Keys {
    fn register(&mut self, _: u32, _: OfferedMemory) -> Result<RegisteredMemory, RegistrationFailed> {
        self.0.push(true);
        Ok(RegisteredMemory { handle: self.0.len() as u32 - 1, address: 4096 })
    }

    fn invalidate(&mut self, handle: u32) {
        assert!(std::mem::take(&mut self.0[handle as usize]), "a key becomes invalid once");
    }
}

/// Answers a requester's calls by any messages; the first byte of each names the key that it invalidates.
pub fn requester(bytes: &[u8]) {
    let config = RequesterConfig { local: END, peer: END, credits: 4, reply_max_bytes: MEMORY_MAX };
    let (mut requester, mut keys) = (Requester::new(config), Keys::default());
    for (xid, message) in messages(bytes).enumerate() {
        let call = [(xid as u32).to_be_bytes(), [0; 4]].concat();
        let _ = requester.call(&call, &CallInfo::parse(&call).eligible, &mut keys);
        let invalidated = message.first().map(|key| u32::from(key % 8));
        let invalidated = invalidated.filter(|key| keys.0.get(*key as usize) == Some(&true));
        if let Some(key) = invalidated {
            keys.0[key as usize] = false;
        }
        if requester.handle_receive(message, invalidated, &mut keys).is_err() {
            break;
        }
    }
    requester.abort(&mut keys);
    assert!(!keys.0.contains(&true), "no key outlives the connection");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    /// Bytes that are mostly small words, as headers are.
    fn script() -> impl Strategy<Value = Vec<u8>> {
        let word = prop_oneof![8 => 0..5_u32, 1 => any::<u32>()].prop_map(|word| word.to_be_bytes().to_vec());
        let message = proptest::collection::vec(word, 0..40).prop_map(|words| {
            let len = words.len() as u8;
            [vec![len], words.concat()].concat()
        });
        proptest::collection::vec(message, 0..8).prop_map(|messages| messages.concat())
    }

    proptest! {
        #[test]
        fn hostile_bytes_break_nothing(bytes in script()) {
            super::header(bytes.get(1..).unwrap_or_default());
            super::nfs(&bytes);
            super::responder(&bytes);
            super::requester(&bytes);
        }
    }
}
