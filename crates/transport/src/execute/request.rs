//! A piece of a request as its target receives it: a packet of the wire, or a frame from a process of this host. They
//! differ in how long a piece may be and how its payload reaches memory; [`super::Executor`] does the rest.

use weft_verbs::op::Operands;
use weft_verbs::{Op, PdId, RemoteTarget, Sge};

use crate::Env;

use super::refusal::Refusal;

/// The memory that a request names, and its parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteRange {
    /// Address and key.
    pub at: RemoteTarget,
    /// Bytes.
    pub length: u64,
}

/// Parameters of a request with a response of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteAccess {
    pub op: Op,
    pub target: RemoteRange,
    pub operands: Operands,
    /// Placement type bits and selectivity level of a FLUSH.
    pub placement: u8,
    pub level: u8,
}

/// A piece of a request. Implementations are inlined: there is one executor for each.
pub(crate) trait RequestPart {
    /// Returns whether it is a piece of a SEND.
    fn is_send(&self) -> bool;

    /// Returns whether it is a piece of a WRITE.
    fn is_write(&self) -> bool;

    /// Returns whether the message begins with it.
    fn is_first(&self) -> bool;

    /// Returns whether the message ends with it.
    fn is_last(&self) -> bool;

    /// Returns the bytes of the message that it brings.
    fn bytes(&self) -> u64;

    /// Returns whether it may bring so many bytes at its place of the message.
    fn has_good_length(&self, mtu: u32) -> bool;

    /// Returns whether the bytes of a WRITE are in memory already.
    fn is_in_place(&self) -> bool {
        false
    }

    /// Returns whether the key is checked for the whole WRITE before its first piece is executed.
    fn opens_range(&self) -> bool;

    /// Returns the number of the SRQ that it names (XRC).
    fn srqn(&self) -> Option<u32>;

    /// Returns whether the requester asks for a solicited event.
    fn is_solicited(&self) -> bool;

    /// Returns its immediate data, as a completion holds it.
    fn imm(&self) -> Option<u32>;

    /// Returns the key that it invalidates.
    fn invalidates(&self) -> Option<u32>;

    /// Returns the memory that the first piece of a WRITE names.
    fn target(&self) -> Option<RemoteRange>;

    /// Stores its payload at `offset` of the message that a list receives.
    fn scatter<E: Env>(&self, pd: PdId, sges: &[Sge], offset: u64, env: &mut E) -> Result<(), Refusal>;

    /// Stores its payload, `len` bytes of it, at a host address.
    fn store<E: Env>(&self, addr: u64, len: u64, env: &mut E);

    /// Returns the parameters of a request with a response of its own; `None` if it is malformed.
    fn remote_access<E: Env>(&self, env: &mut E) -> Option<RemoteAccess>;
}
