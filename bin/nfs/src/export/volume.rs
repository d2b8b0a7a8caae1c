//! FSSTAT, FSINFO and PATHCONF: properties of the file system.

use super::attributes;
use super::exported::Export;
use super::message::Circumstances;
use super::outcome::{Outcome, argument};
use crate::limits::TRANSFER_MAX;
use crate::protocol::rpc::HANDLE_MAX;
use crate::protocol::xdr::{Reader, Writer};

/// Multiple of which transfers are fast.
const TRANSFER_MULTIPLE: u32 = 4096;
/// Preferred size of a reply about a directory, in bytes.
const DIRECTORY_PREFERRED: u32 = 64 << 10;
/// Hard links and symbolic links exist, all files are alike, and times can be set.
const PROPERTIES: u32 = 1 | 2 | 8 | 16;
const LINKS_MAX: u32 = 32_000;
const NAME_MAX: u32 = 255;

/// FSSTAT.
pub fn fsstat(export: &Export, _: &mut Circumstances<'_>, xdr: &mut Reader<'_>, out: &mut Writer) -> Outcome {
    let found = export.tree.find(argument(xdr.opaque(HANDLE_MAX))?)?;
    let volume = rustix::fs::fstatvfs(&found.path)?;
    attributes::write_post_op(out, Ok(&found.stat), export.tree.id());
    for blocks in [volume.f_blocks, volume.f_bfree, volume.f_bavail] {
        out.u64(blocks.saturating_mul(volume.f_frsize));
    }
    [volume.f_files, volume.f_ffree, volume.f_favail].into_iter().for_each(|files| out.u64(files));
    // These may change at any time.
    out.u32(0);
    Ok(())
}

/// FSINFO.
pub fn fsinfo(export: &Export, _: &mut Circumstances<'_>, xdr: &mut Reader<'_>, out: &mut Writer) -> Outcome {
    let found = export.tree.find(argument(xdr.opaque(HANDLE_MAX))?)?;
    attributes::write_post_op(out, Ok(&found.stat), export.tree.id());
    // READ, then WRITE: the most, the preferred, the multiple.
    out.words(&[TRANSFER_MAX, TRANSFER_MAX, TRANSFER_MULTIPLE, TRANSFER_MAX, TRANSFER_MAX, TRANSFER_MULTIPLE]);
    out.u32(DIRECTORY_PREFERRED);
    out.u64(i64::MAX as u64);
    // Resolution of times: a nanosecond.
    out.words(&[0, 1, PROPERTIES]);
    Ok(())
}

/// PATHCONF.
pub fn pathconf(export: &Export, _: &mut Circumstances<'_>, xdr: &mut Reader<'_>, out: &mut Writer) -> Outcome {
    let found = export.tree.find(argument(xdr.opaque(HANDLE_MAX))?)?;
    attributes::write_post_op(out, Ok(&found.stat), export.tree.id());
    out.words(&[LINKS_MAX, NAME_MAX]);
    // Long names are refused, only root gives files away, case matters and is kept.
    [true, true, false, true].into_iter().for_each(|property| out.bool(property));
    Ok(())
}
