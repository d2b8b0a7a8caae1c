//! The build that a library or a command comes from, as an ELF note in each of Weft's libraries: `weft doctor` reads it
//! without loading the library.

use crate::PROTOCOL_VERSION;

/// Owner of the note.
pub const BUILD_NOTE_NAME: &[u8] = b"Weft";

/// Bytes of the version's text; shorter versions end with zeros.
const VERSION_BYTES: usize = 20;

/// Release and protocol of a build.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Build {
    /// Release, such as `0.1.0`.
    pub version: String,
    /// Version of the protocol with the daemon.
    pub protocol: u32,
}

impl Build {
    /// The build of the running code.
    pub fn own() -> Build {
        Build { version: env!("CARGO_PKG_VERSION").to_owned(), protocol: PROTOCOL_VERSION }
    }

    /// Reads the content of a note; `None` if it is malformed.
    pub fn from_note(content: &[u8]) -> Option<Build> {
        let (protocol, version) = content.split_first_chunk()?;
        let version = version.split(|byte| *byte == 0).next().unwrap_or_default();
        let version = std::str::from_utf8(version).ok()?.to_owned();
        Some(Build { version, protocol: u32::from_ne_bytes(*protocol) })
    }
}

/// The note as it lies in a library's `.note.weft` section (System V gABI, chapter 5).
#[derive(Debug)]
#[repr(C, align(4))]
pub struct BuildNote {
    name_bytes: u32,
    content_bytes: u32,
    kind: u32,
    name: [u8; 8],
    protocol: u32,
    version: [u8; VERSION_BYTES],
}

impl BuildNote {
    /// The note of this build.
    pub const OWN: BuildNote = BuildNote {
        name_bytes: BUILD_NOTE_NAME.len() as u32 + 1,
        content_bytes: (size_of::<u32>() + VERSION_BYTES) as u32,
        kind: 1,
        name: padded(BUILD_NOTE_NAME),
        protocol: PROTOCOL_VERSION,
        version: padded(env!("CARGO_PKG_VERSION").as_bytes()),
    };
}

const fn padded<const N: usize>(text: &[u8]) -> [u8; N] {
    assert!(text.len() < N, "the text and a zero fit");
    let mut out = [0; N];
    let mut at = 0;
    while at < text.len() {
        out[at] = text[at];
        at += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_names_this_build() {
        let note = BuildNote::OWN;
        let content = [&note.protocol.to_ne_bytes()[..], &note.version].concat();
        assert_eq!(content.len(), note.content_bytes as usize);
        assert_eq!(Build::from_note(&content), Some(Build::own()));
        assert_eq!(Build::from_note(&content[..3]), None);
        assert_eq!(size_of::<BuildNote>(), 12 + 8 + 24);
    }
}
