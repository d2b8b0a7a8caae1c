//! Operations on eight bytes: their execution, and their operands in a frame.

use weft_verbs::Op;
use weft_verbs::op::Operands;

/// An atomic operation on eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomicOp {
    /// Store `swap` if the value is `compare`.
    CompareSwap {
        /// The expected value.
        compare: u64,
        /// The new value.
        swap: u64,
    },
    /// Add.
    FetchAdd(u64),
    /// Store eight bytes, in memory order.
    Store([u8; 8]),
}

impl AtomicOp {
    /// Composes an operation on eight bytes; `None` for an operation of another kind.
    #[inline]
    pub fn of(op: Op, Operands { compare, value }: Operands) -> Option<AtomicOp> {
        Some(match op {
            Op::CompareSwap => AtomicOp::CompareSwap { compare, swap: value },
            Op::FetchAdd => AtomicOp::FetchAdd(value),
            Op::AtomicWrite => AtomicOp::Store(value.to_ne_bytes()),
            _ => return None,
        })
    }
}

/// Bytes of a value that is accessed atomically.
pub(crate) const WORD_BYTES: u64 = 8;

/// Most bytes of operands in a frame.
pub(crate) const OPERANDS_MAX: usize = 16;

/// Returns the bytes of operands in a frame of an operation: the value, after the expected one if the operation
/// compares.
fn operand_bytes(op: Op) -> usize {
    match AtomicOp::of(op, Operands::default()) {
        Some(AtomicOp::CompareSwap { .. }) => 16,
        Some(_) => 8,
        None => 0,
    }
}

/// Writes the operands of a frame.
pub(crate) fn operands(op: Op, Operands { compare, value }: Operands, out: &mut [u8; OPERANDS_MAX]) -> &[u8] {
    let bytes = operand_bytes(op);
    let first = if bytes == OPERANDS_MAX { compare } else { value };
    out[..8].copy_from_slice(&first.to_ne_bytes());
    out[8..].copy_from_slice(&value.to_ne_bytes());
    &out[..bytes]
}

/// Reads the operands of a frame of `len` bytes; `None` if the operation has operands of another length.
pub(crate) fn read_operands(op: Op, bytes: &[u8; OPERANDS_MAX], len: u32) -> Option<Operands> {
    let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
    match operand_bytes(op) {
        0 => Some(Operands::default()),
        wanted if wanted != len as usize => None,
        OPERANDS_MAX => Some(Operands { compare: word(0), value: word(8) }),
        _ => Some(Operands { compare: 0, value: word(0) }),
    }
}
