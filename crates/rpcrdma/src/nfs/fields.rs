//! Fields of arguments and results, as far as the tables of NFSv3 and NFSv4 need them to reach the eligible data.

use std::ops::Range;

use crate::limits::{MESSAGE_MAX_BYTES, PATH_MAX_BYTES};
use crate::wire::xdr::{XdrReader, pad_len};

/// Field of an argument or of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Field {
    /// Fixed bytes.
    Fixed(usize),
    /// Variable-length opaque data, or a string.
    Opaque,
    /// `bitmap4`.
    Bitmap,
    /// `post_op_attr` of NFSv3: attributes of a fixed size that may be absent.
    PostOpAttr,
    /// `sattr3` of NFSv3.
    SetAttr3,
    /// `createtype4` of NFSv4; the text of a symbolic link is eligible.
    CreateType4,
    /// Eligible data.
    Data,
    /// Argument: the most bytes that the eligible result will have.
    ResultLen,
    /// No bytes: the eligible result is a path.
    ResultPath,
    /// Argument: the most bytes of a result that is not eligible, such as a directory's entries.
    ReplyLen,
}

const FATTR3_LEN: usize = 84;

/// Eligible arguments, and properties of the results.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Arguments {
    pub(super) data: Vec<Range<usize>>,
    pub(super) results: Vec<u32>,
    /// Sum of the lengths in [`Field::ReplyLen`].
    pub(super) reply_len: usize,
}

impl Arguments {
    /// Reads an argument's fields. `None`: they are malformed.
    pub(super) fn read(&mut self, xdr: &mut XdrReader<'_>, fields: &[Field]) -> Option<()> {
        fields.iter().try_for_each(|field| match field {
            Field::Data => {
                let len = xdr.len(MESSAGE_MAX_BYTES)?;
                let at = xdr.at();
                xdr.skip(len + pad_len(len))?;
                self.data.push(at..at + len);
                Some(())
            }
            Field::CreateType4 => match xdr.u32()? {
                LINK => self.read(xdr, &[Field::Data]),
                BLOCK_DEVICE | CHARACTER_DEVICE => xdr.skip(8),
                _ => Some(()),
            },
            Field::ResultLen => {
                self.results.push(xdr.u32()?);
                Some(())
            }
            Field::ResultPath => {
                self.results.push(PATH_MAX_BYTES);
                Some(())
            }
            Field::ReplyLen => {
                self.reply_len = self.reply_len.saturating_add(xdr.u32()? as usize);
                Some(())
            }
            _ => skip(xdr, *field),
        })
    }
}

/// `nfs_ftype4` (RFC 7530 §2.1) of the kinds with arguments of their own.
const BLOCK_DEVICE: u32 = 3;
const CHARACTER_DEVICE: u32 = 4;
const LINK: u32 = 5;

/// Eligible data of a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Item {
    /// Offset in the message at hand, where the data is or would be.
    pub(super) at: usize,
    pub(super) len: usize,
}

/// Eligible results.
#[derive(Debug)]
pub(super) struct Results<'a> {
    pub(super) items: Vec<Item>,
    /// Bytes written to each chunk: data of an item that has some is not in the message.
    written: &'a [usize],
}

impl<'a> Results<'a> {
    pub(super) fn new(written: &'a [usize]) -> Results<'a> {
        Results { items: Vec::new(), written }
    }

    /// Reads a result's fields. `None`: they are malformed, or disagree with the chunks.
    pub(super) fn read(&mut self, xdr: &mut XdrReader<'_>, fields: &[Field]) -> Option<()> {
        fields.iter().try_for_each(|field| match field {
            Field::Data => self.read_data(xdr),
            _ => skip(xdr, *field),
        })
    }

    fn read_data(&mut self, xdr: &mut XdrReader<'_>) -> Option<()> {
        let len = xdr.len(MESSAGE_MAX_BYTES)?;
        let at = xdr.at();
        match self.written.get(self.items.len()) {
            None | Some(0) => xdr.skip(len + pad_len(len))?,
            Some(written) if *written == len => {}
            Some(_) => return None,
        }
        self.items.push(Item { at, len });
        Some(())
    }
}

/// Skips a field that no chunk carries.
fn skip(xdr: &mut XdrReader<'_>, field: Field) -> Option<()> {
    match field {
        Field::Fixed(len) => xdr.skip(len),
        Field::Opaque => xdr.opaque(MESSAGE_MAX_BYTES),
        Field::Bitmap => {
            let words = xdr.len(BITMAP_WORDS_MAX)?;
            xdr.skip(4 * words)
        }
        Field::PostOpAttr => {
            let present = xdr.bool()?;
            xdr.skip(if present { FATTR3_LEN } else { 0 })
        }
        Field::SetAttr3 => skip_set_attr3(xdr),
        _ => None,
    }
}

/// `bitmap4` grows with each minor version: three words in 4.2.
const BITMAP_WORDS_MAX: usize = 8;

/// `sattr3` (RFC 1813 §2.6): mode, uid, gid and size that may be absent; two times, which the client may give.
fn skip_set_attr3(xdr: &mut XdrReader<'_>) -> Option<()> {
    const TO_CLIENT_TIME: u32 = 2;
    for len in [4, 4, 4, 8] {
        let present = xdr.bool()?;
        xdr.skip(if present { len } else { 0 })?;
    }
    for _ in 0..2 {
        let given = xdr.u32()? == TO_CLIENT_TIME;
        xdr.skip(if given { 8 } else { 0 })?;
    }
    Some(())
}
