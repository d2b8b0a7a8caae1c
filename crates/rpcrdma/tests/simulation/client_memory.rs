//! The client's memory as its adapter guards it: keys, their bounds and their rights.

use std::collections::BTreeMap;

use weft_rpcrdma::wire::Segment;
use weft_rpcrdma::{OfferedMemory, RegisteredMemory, Registration, RegistrationFailed};

use crate::rng::Rng;

struct Region {
    xid: u32,
    memory: OfferedMemory,
    address: u64,
    bytes: Vec<u8>,
}

/// Access that the adapter refuses.
#[derive(Debug)]
pub struct AccessRefused;

/// The client's memory.
pub struct ClientMemory {
    rng: Rng,
    regions: BTreeMap<u32, Region>,
    /// Messages of calls under way.
    pub messages: BTreeMap<u32, Vec<u8>>,
    /// Memory whose key became invalid, by call.
    returned: BTreeMap<u32, Vec<(OfferedMemory, Vec<u8>)>>,
}

impl ClientMemory {
    pub fn new(seed: u64) -> ClientMemory {
        ClientMemory {
            rng: Rng::new(seed ^ 0x5eed),
            regions: BTreeMap::new(),
            messages: BTreeMap::new(),
            returned: BTreeMap::new(),
        }
    }

    /// Returns the number of valid keys.
    pub fn valid_keys(&self) -> usize {
        self.regions.len()
    }

    /// Whether a call has valid keys.
    pub fn has_keys(&self, xid: u32) -> bool {
        self.regions.values().any(|region| region.xid == xid)
    }

    /// Serves an RDMA READ.
    pub fn read(&self, segment: Segment) -> Result<Vec<u8>, AccessRefused> {
        let region = self.regions.get(&segment.handle).ok_or(AccessRefused)?;
        let is_readable = matches!(region.memory, OfferedMemory::Call(_));
        let range = range(region, segment).filter(|_| is_readable).ok_or(AccessRefused)?;
        region.bytes.get(range).map(<[u8]>::to_vec).ok_or(AccessRefused)
    }

    /// Serves an RDMA WRITE.
    pub fn write(&mut self, segment: Segment, data: &[u8]) -> Result<(), AccessRefused> {
        let region = self.regions.get_mut(&segment.handle).ok_or(AccessRefused)?;
        let is_writable = !matches!(region.memory, OfferedMemory::Call(_));
        let range = range(region, segment).filter(|_| is_writable).ok_or(AccessRefused)?;
        region.bytes.get_mut(range).ok_or(AccessRefused)?.copy_from_slice(data);
        Ok(())
    }

    /// Serves the invalidation of a SEND.
    pub fn invalidate_remotely(&mut self, key: u32) -> Result<(), AccessRefused> {
        let region = self.regions.remove(&key).ok_or(AccessRefused)?;
        self.returned.entry(region.xid).or_default().push((region.memory, region.bytes));
        Ok(())
    }

    /// Takes a call's memory for results and the reply.
    pub fn take(&mut self, xid: u32) -> Vec<(OfferedMemory, Vec<u8>)> {
        self.returned.remove(&xid).unwrap_or_default()
    }
}

fn range(region: &Region, segment: Segment) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(segment.offset.checked_sub(region.address)?).ok()?;
    Some(start..start.checked_add(segment.length as usize)?)
}

impl Registration for ClientMemory {
    fn register(&mut self, xid: u32, memory: OfferedMemory) -> Result<RegisteredMemory, RegistrationFailed> {
        if self.rng.once_in(40) {
            return Err(RegistrationFailed);
        }
        let bytes = match &memory {
            OfferedMemory::Call(range) => self.messages[&xid][range.clone()].to_vec(),
            OfferedMemory::Result { len, .. } | OfferedMemory::Reply { len } => vec![0xaa; *len],
        };
        let (handle, address) = (self.rng.number() as u32, self.rng.number() >> 8);
        let before = self.regions.insert(handle, Region { xid, memory, address, bytes });
        assert!(before.is_none(), "keys are unique");
        Ok(RegisteredMemory { handle, address })
    }

    fn invalidate(&mut self, handle: u32) {
        self.invalidate_remotely(handle).expect("a valid key, and only once");
    }
}
