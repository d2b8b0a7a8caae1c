//! NFSv3 (RFC 1813; RFC 8267): one call, one procedure.

use super::fields::{Arguments, Field, Results};
use crate::wire::xdr::XdrReader;

/// A file handle, like a name, is opaque data.
const HANDLE: Field = Field::Opaque;
const NAME: Field = Field::Opaque;

/// Procedures with fields that matter: number, arguments, results after the status.
#[rustfmt::skip]
const TABLE: &[(u32, &[Field], &[Field])] = &[
    // READLINK
    (5,  &[HANDLE, Field::ResultPath],                               &[Field::PostOpAttr, Field::Data]),
    // READ: offset, count; count, eof
    (6,  &[HANDLE, Field::Fixed(8), Field::ResultLen],               &[Field::PostOpAttr, Field::Fixed(8), Field::Data]),
    // WRITE: offset, count, stable
    (7,  &[HANDLE, Field::Fixed(16), Field::Data],                   &[]),
    // SYMLINK
    (10, &[HANDLE, NAME, Field::SetAttr3, Field::Data],              &[]),
    // READDIR: cookie, verifier
    (16, &[HANDLE, Field::Fixed(16), Field::ReplyLen],               &[]),
    // READDIRPLUS: cookie, verifier, bytes of names
    (17, &[HANDLE, Field::Fixed(20), Field::ReplyLen],               &[]),
];

const PROCEDURE_LAST: u32 = 21;
/// Longest result without data: two attributes before and after (RENAME), a handle and attributes.
const RESULT_MAX_BYTES: usize = 512;

fn fields(procedure: u32) -> (&'static [Field], &'static [Field]) {
    let row = TABLE.iter().find(|(number, ..)| *number == procedure);
    row.map_or((&[], &[]), |(_, arguments, results)| (arguments, results))
}

/// Reads the arguments. Returns the longest result without eligible data, in bytes.
pub(super) fn read_arguments(procedure: u32, xdr: &mut XdrReader<'_>, found: &mut Arguments) -> Option<usize> {
    if procedure > PROCEDURE_LAST {
        return None;
    }
    found.read(xdr, fields(procedure).0)?;
    found.reply_len.checked_add(RESULT_MAX_BYTES)
}

/// Reads the results.
pub(super) fn read_results(procedure: u32, xdr: &mut XdrReader<'_>, found: &mut Results<'_>) -> Option<()> {
    const NFS3_OK: u32 = 0;
    if xdr.u32()? != NFS3_OK {
        return None;
    }
    found.read(xdr, fields(procedure).1)
}
