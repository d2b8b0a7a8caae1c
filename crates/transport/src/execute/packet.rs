//! A packet of a request.

use weft_verbs::op::Operands;
use weft_verbs::{Op, PdId, RemoteTarget, Sge};
use weft_wire::Packet;
use weft_wire::opcode::Place;

use crate::word::WORD_BYTES;
use crate::{Env, Memory, segment};

use super::refusal::{Refusal, local_fault};
use super::request::{RemoteAccess, RemoteRange, RequestPart};

impl RequestPart for Packet<'_> {
    #[inline]
    fn is_send(&self) -> bool {
        self.info.kind.is_send()
    }

    #[inline]
    fn is_write(&self) -> bool {
        self.info.kind.is_write()
    }

    #[inline]
    fn is_first(&self) -> bool {
        matches!(self.info.place, Place::First | Place::Only)
    }

    #[inline]
    fn is_last(&self) -> bool {
        matches!(self.info.place, Place::Last | Place::Only)
    }

    #[inline]
    fn bytes(&self) -> u64 {
        self.payload.len() as u64
    }

    /// See IBA 9.7.4.1.6.
    #[inline]
    fn has_good_length(&self, mtu: u32) -> bool {
        let (len, mtu) = (self.payload.len(), mtu as usize);
        match self.info.place {
            Place::First | Place::Middle => len == mtu,
            Place::Last => len != 0 && len <= mtu,
            Place::Only => len <= mtu,
        }
    }

    /// The range of a WRITE of one packet is checked when that is stored.
    #[inline]
    fn opens_range(&self) -> bool {
        self.info.place == Place::First
    }

    #[inline]
    fn srqn(&self) -> Option<u32> {
        self.ext.xrceth.map(|xrceth| xrceth.value())
    }

    #[inline]
    fn is_solicited(&self) -> bool {
        self.bth.solicited()
    }

    #[inline]
    fn imm(&self) -> Option<u32> {
        self.ext.imm.map(|imm| imm.value().to_be())
    }

    #[inline]
    fn invalidates(&self) -> Option<u32> {
        self.ext.ieth.map(|ieth| ieth.value())
    }

    #[inline]
    fn target(&self) -> Option<RemoteRange> {
        let reth = self.ext.reth?;
        let at = RemoteTarget { addr: reth.va(), rkey: reth.rkey() };
        Some(RemoteRange { at, length: u64::from(reth.dma_len()) })
    }

    #[inline]
    fn scatter<E: Env>(&self, pd: PdId, sges: &[Sge], offset: u64, env: &mut E) -> Result<(), Refusal> {
        segment::scatter(env, pd, sges, offset, self.payload).map_err(local_fault)
    }

    #[inline]
    fn store<E: Env>(&self, addr: u64, _len: u64, env: &mut E) {
        env.memory().write(addr, self.payload);
    }

    fn remote_access<E: Env>(&self, _env: &mut E) -> Option<RemoteAccess> {
        let op = Op::of_packet(self.info.kind)?;
        let (target, mut operands) = match self.ext.atomic {
            Some(atomic) => {
                let at = RemoteTarget { addr: atomic.va(), rkey: atomic.rkey() };
                let operands = Operands { compare: atomic.compare(), value: atomic.swap_add() };
                (RemoteRange { at, length: WORD_BYTES }, operands)
            }
            None => (self.target()?, Operands::default()),
        };
        if self.info.payload {
            operands.value = u64::from_ne_bytes(self.payload.try_into().ok()?);
            if target.length != WORD_BYTES {
                return None;
            }
        }
        let (placement, level) = self.ext.feth.map_or((0, 0), |feth| (feth.placement(), feth.level()));
        Some(RemoteAccess { op, target, operands, placement, level })
    }
}
