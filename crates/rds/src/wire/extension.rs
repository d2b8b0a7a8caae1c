//! Extensions of a header (`h_exthdr`): a type byte, then as many bytes as the type has.

/// Extensions of a header, as bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Extensions(pub [u8; Extensions::BYTES]);

/// One extension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extension {
    /// Version of the protocol; RDMA connections negotiate it by private data instead (`RDS_EXTHDR_VERSION`).
    Version(u32),
    /// Key of the memory that an RDMA operation before this message used (`RDS_EXTHDR_RDMA`).
    Rdma {
        /// The key.
        key: u32,
    },
    /// Memory that the peer may use for an RDMA operation (`RDS_EXTHDR_RDMA_DEST`).
    RdmaDestination {
        /// The key.
        key: u32,
        /// Offset in the memory, in bytes.
        offset: u32,
    },
    /// Connections between the same addresses that the sender can have side by side (`RDS_EXTHDR_NPATHS`).
    Paths(u16),
    /// Incarnation of the sender (`RDS_EXTHDR_GEN_NUM`).
    Generation(u32),
}

impl Extensions {
    /// Bytes of a header for them (`RDS_HEADER_EXT_SPACE`).
    pub const BYTES: usize = 16;

    /// Returns a header's room with one extension; Linux writes no more than one.
    pub fn with(extension: Extension) -> Extensions {
        let (kind, first, second) = match extension {
            Extension::Version(version) => (1, version.to_be_bytes().to_vec(), None),
            Extension::Rdma { key } => (2, key.to_be_bytes().to_vec(), None),
            Extension::RdmaDestination { key, offset } => (3, key.to_be_bytes().to_vec(), Some(offset)),
            Extension::Paths(paths) => (5, paths.to_be_bytes().to_vec(), None),
            Extension::Generation(generation) => (6, generation.to_be_bytes().to_vec(), None),
        };
        let second = second.map(u32::to_be_bytes);
        let bytes = std::iter::once(kind).chain(first).chain(second.into_iter().flatten());
        let mut room = [0; Extensions::BYTES];
        for (to, from) in room.iter_mut().zip(bytes) {
            *to = from;
        }
        Extensions(room)
    }

    /// Returns them in their order, up to the end or to a type that is unknown.
    pub fn iter(&self) -> impl Iterator<Item = Extension> + '_ {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || {
            let (extension, after) = take(rest)?;
            rest = after;
            Some(extension)
        })
    }
}

fn take(bytes: &[u8]) -> Option<(Extension, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let word = |rest: &[u8]| rest.first_chunk().map(|word| u32::from_be_bytes(*word));
    Some(match kind {
        1 => (Extension::Version(word(rest)?), rest.get(4..)?),
        2 => (Extension::Rdma { key: word(rest)? }, rest.get(4..)?),
        3 => (Extension::RdmaDestination { key: word(rest)?, offset: word(rest.get(4..)?)? }, rest.get(8..)?),
        5 => (Extension::Paths(u16::from_be_bytes(*rest.first_chunk()?)), rest.get(2..)?),
        6 => (Extension::Generation(word(rest)?), rest.get(4..)?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_follow_each_other() {
        let mut bytes = [0; Extensions::BYTES];
        bytes[..9].copy_from_slice(&[3, 0, 0, 0, 9, 0, 0, 1, 0]);
        bytes[9..12].copy_from_slice(&[5, 0, 8]);
        let read: Vec<_> = Extensions(bytes).iter().collect();
        assert_eq!(read, [Extension::RdmaDestination { key: 9, offset: 256 }, Extension::Paths(8)]);
    }

    #[test]
    fn an_extension_survives_its_bytes() {
        let destination = Extension::RdmaDestination { key: 0x0102_0304, offset: 0x0506 };
        assert_eq!(Extensions::with(destination).0[..10], [3, 1, 2, 3, 4, 0, 0, 5, 6, 0]);
        let others =
            [Extension::Version(7), Extension::Rdma { key: 9 }, Extension::Paths(8), Extension::Generation(1 << 30)];
        for extension in others.into_iter().chain([destination]) {
            assert!(Extensions::with(extension).iter().eq([extension]));
        }
    }

    #[test]
    fn a_cut_or_unknown_extension_ends_the_list() {
        let mut bytes = [0; Extensions::BYTES];
        bytes[0] = 77;
        assert_eq!(Extensions(bytes).iter().count(), 0);
        bytes[0] = 6;
        bytes[5] = 6;
        bytes[10] = 3;
        assert_eq!(Extensions(bytes).iter().count(), 2);
    }
}
