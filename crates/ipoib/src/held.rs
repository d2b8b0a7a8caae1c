//! Frames that wait for an address, a path, a membership or a connection.

use std::collections::VecDeque;

use crate::frame::Frame;
use crate::limits::{HELD_BYTES_MAX, HELD_MAX};

/// The latest frames, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    frames: VecDeque<Frame>,
    bytes: usize,
}

impl Held {
    /// Keeps a frame; the oldest ones make room for it.
    pub fn push(&mut self, frame: Frame) {
        self.bytes += frame.bytes().len();
        self.frames.push_back(frame);
        while self.frames.len() > HELD_MAX || (self.bytes > HELD_BYTES_MAX && self.frames.len() > 1) {
            self.bytes -= self.frames.pop_front().map_or(0, |frame| frame.bytes().len());
        }
    }

    /// Takes all frames.
    pub fn take(&mut self) -> VecDeque<Frame> {
        self.bytes = 0;
        std::mem::take(&mut self.frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_make_room_by_number_and_by_bytes() {
        let mut held = Held::default();
        (0..2 * HELD_MAX).for_each(|number| held.push(vec![number as u8].into()));
        assert_eq!((held.frames.len(), held.frames[0].bytes()[0] as usize), (HELD_MAX, HELD_MAX));
        (0..9).for_each(|_| held.push(vec![0; 65_524].into()));
        assert_eq!(held.take().len(), HELD_BYTES_MAX / 65_524);
        assert!(held.take().is_empty() && held.bytes == 0);
    }
}
