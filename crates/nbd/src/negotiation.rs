//! Negotiation (fixed newstyle): options of the client, until it chooses an export.

use zerocopy::IntoBytes;

use crate::export::Export;
use crate::limits::{NAME_LEN_MAX, OPTION_BYTES_MAX};
use crate::wire::{
    ANSWER_MAGIC, AnswerHeader, FIXED_NEWSTYLE, Greeting, MAGIC, NO_ZEROES, OPTION_MAGIC, answer, info, option,
};

/// Zeros after the answer to EXPORT_NAME, unless the client does without.
const EXPORT_NAME_ZEROES: usize = 124;

/// Effect of an option.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Chosen {
    /// The negotiation goes on.
    Nothing,
    /// The client uses this export from now on.
    Export(usize),
    /// The connection ends.
    End,
}

/// Returns the server's first bytes.
pub fn greeting() -> Vec<u8> {
    let greeting =
        Greeting { magic: MAGIC.into(), option_magic: OPTION_MAGIC.into(), flags: (FIXED_NEWSTYLE | NO_ZEROES).into() };
    greeting.as_bytes().to_vec()
}

/// Returns the answer to an option whose data is too long to be read.
pub fn too_big(option: u32) -> Vec<u8> {
    answered(option, answer::ERROR_TOO_BIG, b"the option has too much data")
}

/// Handles an option, and appends the answer.
pub fn handle(option: u32, data: &[u8], exports: &[Export], has_zeroes: bool, out: &mut Vec<u8>) -> Chosen {
    match option {
        option::EXPORT_NAME => return export_name(data, exports, has_zeroes, out),
        option::ABORT => {
            out.extend(answered(option, answer::ACK, &[]));
            return Chosen::End;
        }
        option::LIST if data.is_empty() => {
            for export in exports {
                let name = export.name.as_bytes();
                let entry = [&(name.len() as u32).to_be_bytes()[..], name, export.description.as_bytes()].concat();
                out.extend(answered(option, answer::SERVER, &entry));
            }
            out.extend(answered(option, answer::ACK, &[]));
        }
        option::LIST => out.extend(answered(option, answer::ERROR_INVALID, b"LIST has no data")),
        option::INFO | option::GO => return information(option, data, exports, out),
        _ => out.extend(answered(option, answer::ERROR_UNSUPPORTED, &[])),
    }
    Chosen::Nothing
}

/// Finds an export; the empty name is the first one's.
fn find(name: &[u8], exports: &[Export]) -> Option<usize> {
    if name.is_empty() && !exports.is_empty() {
        return Some(0);
    }
    exports.iter().position(|export| export.name.as_bytes() == name)
}

/// The old way to choose: there is no answer to a wrong name but the end.
fn export_name(name: &[u8], exports: &[Export], has_zeroes: bool, out: &mut Vec<u8>) -> Chosen {
    let Some((index, export)) = find(name, exports).and_then(|index| Some((index, exports.get(index)?))) else {
        return Chosen::End;
    };
    out.extend(export.bytes.to_be_bytes());
    out.extend(export.flags().to_be_bytes());
    if has_zeroes {
        out.extend([0; EXPORT_NAME_ZEROES]);
    }
    Chosen::Export(index)
}

/// Describes an export (INFO), and chooses it (GO).
fn information(option: u32, data: &[u8], exports: &[Export], out: &mut Vec<u8>) -> Chosen {
    let Some((name, wanted)) = split(data) else {
        out.extend(answered(option, answer::ERROR_INVALID, b"malformed data"));
        return Chosen::Nothing;
    };
    let Some((index, export)) = find(name, exports).and_then(|index| Some((index, exports.get(index)?))) else {
        out.extend(answered(option, answer::ERROR_UNKNOWN, b"no such export; list them, or leave the name empty"));
        return Chosen::Nothing;
    };
    let mut tell = |kind: u16, data: &[u8]| {
        out.extend(answered(option, answer::INFO, &[&kind.to_be_bytes()[..], data].concat()));
    };
    tell(info::EXPORT, &[&export.bytes.to_be_bytes()[..], &export.flags().to_be_bytes()].concat());
    let sizes: Vec<u8> = export.block_sizes().into_iter().flat_map(u32::to_be_bytes).collect();
    // Requests that are no multiple of a block fail: all clients are told.
    tell(info::BLOCK_SIZE, &sizes);
    if wanted.contains(&info::NAME) {
        tell(info::NAME, export.name.as_bytes());
    }
    if wanted.contains(&info::DESCRIPTION) && !export.description.is_empty() {
        tell(info::DESCRIPTION, export.description.as_bytes());
    }
    out.extend(answered(option, answer::ACK, &[]));
    if option == option::GO { Chosen::Export(index) } else { Chosen::Nothing }
}

/// Splits the data of INFO and GO into the name, and the information that the client wants.
fn split(data: &[u8]) -> Option<(&[u8], Vec<u16>)> {
    let (length, rest) = data.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok().filter(|length| *length <= NAME_LEN_MAX)?;
    let (name, rest) = rest.split_at_checked(length)?;
    let (count, rest) = rest.split_first_chunk::<2>()?;
    let wanted: Vec<u16> = rest.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
    (rest.len() == usize::from(u16::from_be_bytes(*count)) * 2).then_some((name, wanted))
}

fn answered(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let header = AnswerHeader {
        magic: ANSWER_MAGIC.into(),
        option: option.into(),
        kind: kind.into(),
        length: (data.len() as u32).into(),
    };
    [header.as_bytes(), data].concat()
}

const _: () = assert!(OPTION_BYTES_MAX as usize > NAME_LEN_MAX);
