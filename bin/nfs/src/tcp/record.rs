//! Records out of a byte stream.

/// Bit of a fragment's header that marks the record's last one.
const LAST_FRAGMENT: u32 = 1 << 31;

/// Returns the header of a record that is one fragment.
pub fn record_mark(len: usize) -> [u8; 4] {
    // Records are shorter than `MESSAGE_MAX_BYTES`.
    (LAST_FRAGMENT | len as u32).to_be_bytes()
}

/// Bytes of a fragment's header.
const MARK: usize = 4;

/// Collects the fragments of records. Memory grows with the bytes received, up to the longest record.
#[derive(Debug)]
pub struct RecordReader {
    max: usize,
    mark: [u8; MARK],
    /// Bytes of the header that are here.
    marked: usize,
    /// Bytes of the fragment that are missing.
    missing: usize,
    is_last: bool,
    record: Vec<u8>,
}

/// A record longer than the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLong;

impl RecordReader {
    /// Creates a reader of records of at most `max` bytes.
    pub fn new(max: usize) -> RecordReader {
        RecordReader { max, mark: [0; MARK], marked: 0, missing: 0, is_last: false, record: Vec::new() }
    }

    /// Takes bytes of the stream, and passes on each record that is complete.
    pub fn push(&mut self, mut bytes: &[u8], mut on_record: impl FnMut(Vec<u8>)) -> Result<(), TooLong> {
        while !bytes.is_empty() {
            if self.marked < MARK {
                let (head, rest) = bytes.split_at(bytes.len().min(MARK - self.marked));
                for byte in head {
                    if let Some(place) = self.mark.get_mut(self.marked) {
                        *place = *byte;
                    }
                    self.marked += 1;
                }
                bytes = rest;
                if self.marked == MARK {
                    self.begin()?;
                }
            } else {
                let (part, rest) = bytes.split_at(bytes.len().min(self.missing));
                self.record.extend_from_slice(part);
                self.missing -= part.len();
                bytes = rest;
            }
            if self.marked == MARK && self.missing == 0 {
                self.marked = 0;
                if self.is_last {
                    on_record(std::mem::take(&mut self.record));
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<(), TooLong> {
        let mark = u32::from_be_bytes(self.mark);
        self.is_last = mark & LAST_FRAGMENT != 0;
        self.missing = (mark & !LAST_FRAGMENT) as usize;
        if self.missing > self.max - self.record.len() { Err(TooLong) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(bytes: &[u8], step: usize) -> Result<Vec<Vec<u8>>, TooLong> {
        let (mut reader, mut found) = (RecordReader::new(8), Vec::new());
        bytes.chunks(step).try_for_each(|part| reader.push(part, |record| found.push(record)))?;
        Ok(found)
    }

    #[test]
    fn records_survive_any_cut_of_the_stream() {
        let fragments = [0, 0, 0, 2, b'a', b'b', 0x80, 0, 0, 1, b'c'];
        let stream = [&fragments[..], &record_mark(0), &record_mark(8), b"12345678"].concat();
        for step in 1..stream.len() {
            assert_eq!(records(&stream, step), Ok(vec![b"abc".to_vec(), vec![], b"12345678".to_vec()]), "{step}");
        }
    }

    #[test]
    fn a_record_above_the_limit_is_refused_at_its_header() {
        assert_eq!(records(&record_mark(9), 4), Err(TooLong));
        assert_eq!(records(&[0, 0, 0, 5, 1, 2, 3, 4, 5, 0x80, 0, 0, 4], 3), Err(TooLong));
    }
}
