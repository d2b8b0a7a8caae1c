//! Protocol between the host and the agent in a guest, over a byte stream (a virtio serial port).
//!
//! A frame is a head of nine bytes and a body. The head has the number of a command, little-endian; the kind of frame;
//! and the length of the body, little-endian. Commands run side by side, each under its own number.

use std::io::{self, Read, Write};

/// Maximum body length; a longer one means a broken stream.
pub const BODY_MAX: usize = 1 << 20;

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Guest to host: the agent is ready.
    Ready,
    /// Host to guest: start a command; the body has its words, each ended by a zero byte.
    Start,
    /// Host to guest: send the signal whose number is in the body to the command's process group.
    Signal,
    /// Guest to host: output of the command.
    Output,
    /// Guest to host: the command ended; the body has its wait status, little-endian.
    Ended,
}

impl Kind {
    const ALL: [Kind; 5] = [Kind::Ready, Kind::Start, Kind::Signal, Kind::Output, Kind::Ended];
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Number of its command.
    pub id: u32,
    /// Its kind.
    pub kind: Kind,
    /// Its body.
    pub body: Vec<u8>,
}

impl Frame {
    /// Creates a frame from these parts.
    pub fn new(id: u32, kind: Kind, body: impl Into<Vec<u8>>) -> Frame {
        Frame { id, kind, body: body.into() }
    }

    /// Creates a frame that starts `words`.
    pub fn start(id: u32, words: &[&str]) -> Frame {
        let body = words.iter().flat_map(|word| word.bytes().chain([0])).collect::<Vec<_>>();
        Frame::new(id, Kind::Start, body)
    }

    /// Returns the words of a frame that starts a command.
    pub fn words(&self) -> Vec<String> {
        let body = self.body.strip_suffix(&[0]).unwrap_or(&self.body);
        body.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    }

    /// Returns the number in the body: a signal or a wait status.
    pub fn number(&self) -> Option<i32> {
        self.body.first_chunk().map(|bytes| i32::from_le_bytes(*bytes))
    }

    /// Writes the frame with a single call.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(9 + self.body.len());
        bytes.extend(self.id.to_le_bytes());
        bytes.push(self.kind as u8);
        bytes.extend((self.body.len() as u32).to_le_bytes());
        bytes.extend(&self.body);
        to.write_all(&bytes)?;
        to.flush()
    }

    /// Reads the next frame; `None` at the end of the stream.
    pub fn read(from: &mut impl Read) -> io::Result<Option<Frame>> {
        let mut head = [0; 9];
        match from.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        let [a, b, c, d, kind, len @ ..] = head;
        let broken = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        let kind = Kind::ALL.into_iter().find(|k| *k as u8 == kind).ok_or_else(|| broken(format!("kind {kind}")))?;
        let len = u32::from_le_bytes(len) as usize;
        if len > BODY_MAX {
            return Err(broken(format!("a body of {len} bytes")));
        }
        let mut body = vec![0; len];
        from.read_exact(&mut body)?;
        Ok(Some(Frame { id: u32::from_le_bytes([a, b, c, d]), kind, body }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let frames = [
            Frame::start(7, &["sh", "-c", "echo 'two words'", ""]),
            Frame::new(7, Kind::Output, b"\0\xff".to_vec()),
            Frame::new(u32::MAX, Kind::Ended, 256_i32.to_le_bytes()),
        ];
        let mut stream = Vec::new();
        frames.iter().for_each(|frame| frame.write(&mut stream).expect("memory takes all"));
        let mut from = stream.as_slice();
        for frame in &frames {
            assert_eq!(Frame::read(&mut from).expect("whole").as_ref(), Some(frame));
        }
        assert_eq!(Frame::read(&mut from).expect("the end"), None);
        assert_eq!(frames[0].words(), ["sh", "-c", "echo 'two words'", ""]);
        assert_eq!(frames[2].number(), Some(256));
    }

    #[test]
    fn a_broken_stream_is_no_frame() {
        assert!(Frame::read(&mut [0, 0, 0, 0, 9, 0, 0, 0, 0].as_slice()).is_err());
        assert!(Frame::read(&mut [0, 0, 0, 0, 3, 255, 255, 255, 255].as_slice()).is_err());
        assert!(Frame::read(&mut [0, 0, 0, 0, 3, 4, 0, 0, 0, 1].as_slice()).is_err());
    }
}
