//! The ring files of all processes of a run in one compressed file: a magic number, then a zlib stream of entries, each
//! with what was seen of the process's end, a length, and the bytes of a ring file.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use crate::recording::{Killed, Life, ReadError, Recording};
use weft_record::layout::{self, Section};

/// First bytes of the file.
pub const MAGIC: &[u8; 8] = b"WEFTRECZ";
/// Maximum number of bytes of a ring file.
const ENTRY_BYTES_MAX: u64 = layout::file_bytes(&Section::CAPACITIES) as u64;
/// Maximum number of ring files in one archive.
const ENTRIES_MAX: u64 = 1024;
/// Maximum number of bytes of all ring files: a small archive may inflate to a thousand times its size.
const TOTAL_BYTES_MAX: u64 = 2 << 30;

/// The ring files that one archive has room for. Writer and reader have the same limits, so that every archive can be read.
#[derive(Debug, Default)]
struct Room {
    entries: u64,
    bytes: u64,
}

impl Room {
    /// Takes the room of a ring file; false if there is none.
    fn take(&mut self, length: u64) -> bool {
        let bytes = self.bytes.saturating_add(length);
        let fits = length <= ENTRY_BYTES_MAX && self.entries < ENTRIES_MAX && bytes <= TOTAL_BYTES_MAX;
        if fits {
            (self.entries, self.bytes) = (self.entries + 1, bytes);
        }
        fits
    }
}

/// Writer of an archive.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: ZlibEncoder<W>,
    room: Room,
}

impl<W: Write> Writer<W> {
    /// Begins an archive.
    ///
    /// # Errors
    /// The output's.
    pub fn new(mut out: W) -> io::Result<Writer<W>> {
        out.write_all(MAGIC)?;
        Ok(Writer { out: ZlibEncoder::new(out, Compression::fast()), room: Room::default() })
    }

    /// Adds the ring file of a process, and what was seen of its end. Returns false if the archive has no room for it.
    ///
    /// # Errors
    /// The output's.
    pub fn add(&mut self, ring: &[u8], life: Life, killed: Option<Killed>) -> io::Result<bool> {
        if !self.room.take(ring.len() as u64) {
            return Ok(false);
        }
        let killed = killed.unwrap_or(Killed { at: 0, signal: 0 });
        self.out.write_all(&[life as u8, killed.signal])?;
        self.out.write_all(&killed.at.to_le_bytes())?;
        self.out.write_all(&(ring.len() as u64).to_le_bytes())?;
        self.out.write_all(ring)?;
        Ok(true)
    }

    /// Ends the archive, and returns the output.
    ///
    /// # Errors
    /// The output's.
    pub fn finish(self) -> io::Result<W> {
        self.out.finish()
    }
}

/// Readable parts of a file.
#[derive(Debug, Default)]
pub struct Contents {
    /// The processes' records.
    pub recordings: Vec<Recording>,
    /// Reasons why there are no more.
    pub damage: Vec<ReadError>,
}

/// Reads a file of either kind: an archive, or the ring file of one process. Of a damaged archive it returns the ring files
/// that can be read.
///
/// # Errors
/// It is neither, or nothing of it can be read.
pub fn read(bytes: &[u8]) -> Result<Contents, ReadError> {
    let Some(compressed) = bytes.strip_prefix(MAGIC) else {
        return Recording::parse(bytes).map(|recording| Contents { recordings: vec![recording], damage: Vec::new() });
    };
    let mut contents = Contents::default();
    if let Err(error) = read_entries(ZlibDecoder::new(compressed), &mut contents) {
        contents.damage.push(error);
    }
    match contents.damage.first() {
        Some(error) if contents.recordings.is_empty() => Err(error.clone()),
        _ => Ok(contents),
    }
}

fn read_entries(mut stream: impl Read, contents: &mut Contents) -> Result<(), ReadError> {
    let damaged = |error: io::Error| ReadError::Compression(error.to_string());
    let mut room = Room::default();
    loop {
        let mut life = [0];
        if stream.read(&mut life).map_err(damaged)? == 0 {
            return Ok(());
        }
        let mut signal = [0];
        stream.read_exact(&mut signal).map_err(damaged)?;
        let mut number = || -> Result<u64, ReadError> {
            let mut bytes = [0; 8];
            stream.read_exact(&mut bytes).map_err(damaged)?;
            Ok(u64::from_le_bytes(bytes))
        };
        let (at, length) = (number()?, number()?);
        if !room.take(length) {
            return Err(ReadError::TooLong);
        }
        // Grows with the bytes that come, not with the length that the file claims.
        let mut ring = Vec::new();
        (&mut stream).take(length).read_to_end(&mut ring).map_err(damaged)?;
        match Recording::parse(&ring) {
            Ok(mut recording) => {
                recording.life = life_of(life[0]);
                recording.killed = (signal != [0]).then_some(Killed { at, signal: signal[0] });
                contents.recordings.push(recording);
            }
            // The next one begins behind it.
            Err(error) => contents.damage.push(error),
        }
    }
}

fn life_of(code: u8) -> Life {
    [Life::Ended, Life::Running].into_iter().find(|life| *life as u8 == code).unwrap_or(Life::Unknown)
}

/// Whether bytes begin as a ring file.
pub fn is_ring(bytes: &[u8]) -> bool {
    bytes.starts_with(&layout::MAGIC.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn archive(rings: &[Vec<u8>]) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new()).unwrap();
        for ring in rings {
            assert!(writer.add(ring, Life::Ended, None).unwrap());
        }
        writer.finish().unwrap()
    }

    #[test]
    fn an_archive_holds_its_processes() {
        let (one, two) = (testing::ring_file(1, &[]), testing::ring_file(2, &[]));
        let mut writer = Writer::new(Vec::new()).unwrap();
        let killed = Some(Killed { at: 7, signal: 9 });
        assert!(writer.add(&one, Life::Ended, killed).unwrap() && writer.add(&two, Life::Running, None).unwrap());
        let bytes = writer.finish().unwrap();
        assert!(bytes.len() < one.len() / 10, "{} bytes", bytes.len());
        let read = read(&bytes).unwrap();
        let seen: Vec<_> =
            read.recordings.iter().map(|recording| (recording.pid, recording.life, recording.killed)).collect();
        assert_eq!(seen, [(1, Life::Ended, killed), (2, Life::Running, None)]);
        assert_eq!(read.damage, []);
        assert_eq!(super::read(&one).unwrap().recordings.len(), 1, "a ring file alone");
        assert_eq!(super::read(b"#!/bin/sh").unwrap_err(), ReadError::NoRecord);
    }

    #[test]
    fn what_can_be_read_of_a_damaged_archive_is() {
        let [one, two] = [1, 2].map(|pid| testing::ring_file(pid, &[]));
        let read_of = |rings: &[Vec<u8>]| read(&archive(rings));
        let contents = read_of(&[one.clone(), b"no ring".to_vec(), two.clone()]).unwrap();
        let pids: Vec<_> = contents.recordings.iter().map(|recording| recording.pid).collect();
        assert_eq!((pids, contents.damage), (vec![1, 2], vec![ReadError::NoRecord]));
        assert_eq!(read_of(&[b"no ring".to_vec()]).unwrap_err(), ReadError::NoRecord);
        // Noise does not compress, so that half of the file has the first ring whole.
        let noise: Vec<u8> =
            (0..one.len() as u64).map(|nth| (nth.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
        let bytes = archive(&[one.clone(), noise]);
        let contents = read(&bytes[..bytes.len() / 2]).unwrap();
        assert_eq!(contents.recordings.len(), 1);
        assert!(!contents.damage.is_empty());
    }

    #[test]
    fn writers_and_readers_have_the_same_limits() {
        let mut room = Room::default();
        assert!(!room.take(ENTRY_BYTES_MAX + 1) && !room.take(u64::MAX) && room.take(ENTRY_BYTES_MAX));
        let large = std::iter::repeat_with(|| Room::take(&mut room, ENTRY_BYTES_MAX)).take_while(|fits| *fits).count();
        assert_eq!(large as u64 + 1, TOTAL_BYTES_MAX / ENTRY_BYTES_MAX);
        let mut writer = Writer::new(Vec::new()).unwrap();
        assert!((0..ENTRIES_MAX).all(|_| writer.add(&[], Life::Unknown, None).unwrap()));
        assert!(!writer.add(&[], Life::Unknown, None).unwrap(), "one too many");
        let contents = read_entries_of(&writer.finish().unwrap());
        assert_eq!(
            (contents.damage.len() as u64, contents.recordings.len()),
            (ENTRIES_MAX, 0),
            "each of them was read"
        );
    }

    fn read_entries_of(archive: &[u8]) -> Contents {
        let mut contents = Contents::default();
        read_entries(ZlibDecoder::new(&archive[MAGIC.len()..]), &mut contents).unwrap();
        contents
    }
}
