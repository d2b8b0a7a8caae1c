//! NFSv4, minor versions 0 to 2 (RFC 7530, 8881, 7862; RFC 8267): a COMPOUND of operations. Eligible data is found up
//! to the first operation that is not in the table.

use super::fields::{Arguments, Field, Results};
use crate::limits::COMPOUND_OPERATIONS_MAX;
use crate::wire::xdr::XdrReader;

/// Procedure number of COMPOUND.
pub(super) const COMPOUND: u32 = 1;
const MINOR_VERSION_MAX: u32 = 2;

const ATTRIBUTES: &[Field] = &[Field::Bitmap, Field::Opaque];
const STATE_ID: Field = Field::Fixed(16);
const CHANGE_INFO: Field = Field::Fixed(20);
const NAME: Field = Field::Opaque;

/// Number, arguments, results after a status of NFS4_OK.
type Operation = (u32, &'static [Field], &'static [Field]);

#[rustfmt::skip]
const TABLE: &[Operation] = &[
    // ACCESS
    (3,  &[Field::Fixed(4)],                                       &[Field::Fixed(8)]),
    // CLOSE
    (4,  &[Field::Fixed(4), STATE_ID],                             &[STATE_ID]),
    // COMMIT: offset, count; verifier
    (5,  &[Field::Fixed(12)],                                      &[Field::Fixed(8)]),
    // CREATE
    (6,  &[Field::CreateType4, NAME, Field::Bitmap, Field::Opaque], &[CHANGE_INFO, Field::Bitmap]),
    // DELEGRETURN
    (8,  &[STATE_ID],                                              &[]),
    // GETATTR
    (9,  &[Field::Bitmap],                                         ATTRIBUTES),
    // GETFH
    (10, &[],                                                      &[Field::Opaque]),
    // LINK
    (11, &[NAME],                                                  &[CHANGE_INFO]),
    // LOOKUP, LOOKUPP
    (15, &[NAME],                                                  &[]),
    (16, &[],                                                      &[]),
    // NVERIFY
    (17, ATTRIBUTES,                                               &[]),
    // PUTFH, PUTPUBFH, PUTROOTFH
    (22, &[Field::Opaque],                                         &[]),
    (23, &[],                                                      &[]),
    (24, &[],                                                      &[]),
    // READ: offset, count; eof
    (25, &[STATE_ID, Field::Fixed(8), Field::ResultLen],           &[Field::Fixed(4), Field::Data]),
    // READLINK
    (27, &[Field::ResultPath],                                     &[Field::Data]),
    // REMOVE
    (28, &[NAME],                                                  &[CHANGE_INFO]),
    // RENAME
    (29, &[NAME, NAME],                                            &[CHANGE_INFO, CHANGE_INFO]),
    // RENEW
    (30, &[Field::Fixed(8)],                                       &[]),
    // RESTOREFH, SAVEFH
    (31, &[],                                                      &[]),
    (32, &[],                                                      &[]),
    // SETATTR
    (34, &[STATE_ID, Field::Bitmap, Field::Opaque],                &[Field::Bitmap]),
    // VERIFY
    (37, ATTRIBUTES,                                               &[]),
    // WRITE: offset, stable; count, committed, verifier
    (38, &[STATE_ID, Field::Fixed(12), Field::Data],               &[Field::Fixed(16)]),
    // SEQUENCE: session, four words; session, five words
    (53, &[Field::Fixed(32)],                                      &[Field::Fixed(36)]),
];

fn operation(number: u32) -> Option<&'static Operation> {
    TABLE.iter().find(|(of, ..)| *of == number)
}

/// Reads the arguments of all operations.
pub(super) fn read_arguments(xdr: &mut XdrReader<'_>, found: &mut Arguments) -> Option<()> {
    // The tag.
    xdr.opaque(usize::MAX)?;
    if xdr.u32()? > MINOR_VERSION_MAX {
        return None;
    }
    let mut rest = Some(xdr.u32()?.min(COMPOUND_OPERATIONS_MAX));
    while let Some(left) = rest.filter(|left| *left > 0) {
        // An argument in an operation that ends early is not eligible: the server would refuse it.
        let before = found.clone();
        rest = read_argument(xdr, found).map(|()| left - 1);
        if rest.is_none() {
            *found = before;
        }
    }
    Some(())
}

fn read_argument(xdr: &mut XdrReader<'_>, found: &mut Arguments) -> Option<()> {
    let (_, arguments, _) = operation(xdr.u32()?)?;
    found.read(xdr, arguments)
}

/// Reads the results of all operations. `None`: the rest cannot be read, or an operation failed, which is the last one.
pub(super) fn read_results(xdr: &mut XdrReader<'_>, found: &mut Results<'_>) -> Option<()> {
    const NFS4_OK: u32 = 0;
    let _status = xdr.u32()?;
    xdr.opaque(usize::MAX)?;
    for _ in 0..xdr.u32()?.min(COMPOUND_OPERATIONS_MAX) {
        let (_, _, results) = operation(xdr.u32()?)?;
        if xdr.u32()? != NFS4_OK {
            return None;
        }
        found.read(xdr, results)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_each_result_is_announced_by_its_arguments() {
        assert!(TABLE.is_sorted_by_key(|(number, ..)| *number));
        for (number, arguments, results) in TABLE {
            let announced = arguments.iter().any(|field| matches!(field, Field::ResultLen | Field::ResultPath));
            assert_eq!(results.contains(&Field::Data), announced, "operation {number}");
        }
    }
}
