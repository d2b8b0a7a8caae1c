//! A segment whose bytes are in their receive, as the executor sees it.

use weft_verbs::{PdId, RemoteTarget, Sge};

use crate::Env;
use crate::execute::{Refusal, RemoteAccess, RemoteRange, RequestPart};

/// A segment of a SEND, or Immediate Data, which ends a WRITE.
#[derive(Clone, Copy, Debug)]
pub(super) enum Delivered {
    Send { first: bool, last: bool, bytes: u32, solicited: bool, invalidates: Option<u32> },
    Immediate { imm: u32, written: u32, solicited: bool },
}

impl RequestPart for Delivered {
    fn is_send(&self) -> bool {
        matches!(self, Delivered::Send { .. })
    }

    fn is_write(&self) -> bool {
        !self.is_send()
    }

    fn is_first(&self) -> bool {
        matches!(self, Delivered::Send { first: true, .. } | Delivered::Immediate { .. })
    }

    fn is_last(&self) -> bool {
        matches!(self, Delivered::Send { last: true, .. } | Delivered::Immediate { .. })
    }

    fn bytes(&self) -> u64 {
        match *self {
            Delivered::Send { bytes, .. } => bytes.into(),
            Delivered::Immediate { .. } => 0,
        }
    }

    fn has_good_length(&self, _mtu: u32) -> bool {
        true
    }

    fn is_in_place(&self) -> bool {
        !self.is_send()
    }

    fn opens_range(&self) -> bool {
        false
    }

    fn srqn(&self) -> Option<u32> {
        None
    }

    fn is_solicited(&self) -> bool {
        match *self {
            Delivered::Send { solicited, .. } | Delivered::Immediate { solicited, .. } => solicited,
        }
    }

    fn imm(&self) -> Option<u32> {
        match *self {
            Delivered::Immediate { imm, .. } => Some(imm),
            Delivered::Send { .. } => None,
        }
    }

    fn invalidates(&self) -> Option<u32> {
        match *self {
            Delivered::Send { invalidates, .. } => invalidates,
            Delivered::Immediate { .. } => None,
        }
    }

    /// The WRITE's segments have named their memory; only its length is left to report.
    fn target(&self) -> Option<RemoteRange> {
        match *self {
            Delivered::Immediate { written, .. } => {
                Some(RemoteRange { at: RemoteTarget { addr: 0, rkey: 0 }, length: written.into() })
            }
            Delivered::Send { .. } => None,
        }
    }

    fn scatter<E: Env>(&self, _: PdId, _: &[Sge], _: u64, _: &mut E) -> Result<(), Refusal> {
        Ok(())
    }

    fn store<E: Env>(&self, _: u64, _: u64, _: &mut E) {}

    fn remote_access<E: Env>(&self, _: &mut E) -> Option<RemoteAccess> {
        None
    }
}
