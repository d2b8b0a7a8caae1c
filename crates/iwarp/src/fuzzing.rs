//! Fuzz targets: bytes of a peer. See [`weft_wire::fuzzing`].

use weft_verbs::Instant;
use weft_wire::fuzzing::Script;

use crate::{FpduReader, Negotiation, Offer, StreamParams};

/// Reads any bytes as a stream, in pieces of any size, with and without CRCs and markers.
pub fn stream(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let flags = script.byte();
    let params = StreamParams { crc: flags & 1 != 0, markers_in: flags & 2 != 0, ..StreamParams::default() };
    let mut reader = FpduReader::new(&params);
    while !script.is_over() {
        let len = usize::from(script.byte()) + 1;
        let mut piece = script.bytes(len);
        loop {
            let before = piece.len();
            match reader.next(&mut piece) {
                Ok(None) => break,
                Ok(Some(_)) => assert!(piece.len() < before || before == 0, "an event takes bytes"),
                Err(fault) => {
                    let _ = (fault.term_error(), reader.header_bytes());
                    return;
                }
            }
        }
        assert!(piece.is_empty() && reader.direct_len() <= reader.payload_left());
    }
}

/// Negotiates with any bytes, in both roles.
pub fn negotiation(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let offer = Offer { crc: script.byte() & 1 != 0, ..Offer::default() };
    let sides = [Negotiation::initiator(Instant(0), offer, b"private"), Ok(Negotiation::responder(Instant(0), offer))];
    for mut side in sides.into_iter().flatten() {
        let mut rest = script;
        while !rest.is_over() {
            let len = usize::from(rest.byte()) + 1;
            let piece = rest.bytes(len);
            assert!(side.handle_bytes(Instant(1), piece) <= piece.len());
            while side.poll_event().is_some() {}
            if rest.byte() & 7 == 0 {
                let _ = side.accept(Instant(2), 3, 4, b"yes");
            }
        }
        side.handle_timeout(Instant(u64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use weft_wire::fuzzing::random_scripts;

    #[test]
    fn random_bytes_break_nothing() {
        random_scripts(super::stream, 3, 3000, 300);
        random_scripts(super::negotiation, 5, 3000, 100);
    }
}
