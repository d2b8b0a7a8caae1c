//! Keys from the bytes that a terminal sends: letters in UTF-8, control characters, and the escape sequences of xterm,
//! the Linux console and tmux. Bytes of a pasted text are keys, too; unknown sequences are dropped.

/// A key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    /// A letter, or another printable character.
    Char(char),
    /// A letter with the Control key.
    Control(char),
    /// F1 to F12.
    Function(u8),
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// Arrow left.
    Left,
    /// Arrow right.
    Right,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// Home.
    Home,
    /// End.
    End,
    /// Enter.
    Enter,
    /// Escape.
    Escape,
    /// Backspace.
    Backspace,
    /// Tab.
    Tab,
    /// Tab with the Shift key.
    BackTab,
}

/// Returns the keys in the bytes of one read. Terminals send a sequence at once, so that a lone ESC is the Escape key.
pub fn keys(bytes: &[u8]) -> Vec<Key> {
    let (mut keys, mut rest) = (Vec::new(), bytes);
    while let Some((first, tail)) = rest.split_first() {
        let (key, used) = match first {
            0x1b => escape(tail),
            b'\r' | b'\n' => (Some(Key::Enter), 0),
            b'\t' => (Some(Key::Tab), 0),
            0x7f | 0x08 => (Some(Key::Backspace), 0),
            0 => (None, 0),
            1..=26 => (Some(Key::Control((b'a' + first - 1).into())), 0),
            0..0x20 => (None, 0),
            _ => character(rest),
        };
        keys.extend(key);
        rest = tail.get(used..).unwrap_or_default();
    }
    keys
}

/// Takes a character; the second value counts bytes behind the first one.
fn character(bytes: &[u8]) -> (Option<Key>, usize) {
    let length = (1..=bytes.len().min(4)).find_map(|length| {
        let c = std::str::from_utf8(&bytes[..length]).ok()?.chars().next()?;
        Some((c, length))
    });
    match length {
        Some((c, length)) if !c.is_control() => (Some(Key::Char(c)), length - 1),
        Some((_, length)) => (None, length - 1),
        None => (None, 0),
    }
}

/// Takes an escape sequence behind its ESC.
fn escape(bytes: &[u8]) -> (Option<Key>, usize) {
    match bytes {
        [] => (Some(Key::Escape), 0),
        // The Linux console's F1 to F5.
        [b'[', b'[', letter @ b'A'..=b'E', ..] => (Some(Key::Function(letter - b'A' + 1)), 3),
        [b'[', sequence @ ..] => {
            let Some(end) = sequence.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
                return (None, bytes.len());
            };
            (control_sequence(&sequence[..end], sequence[end]), end + 2)
        }
        [b'O', letter, ..] => (application_key(*letter), 2),
        // Escape, and keys that came soon after it.
        [0x1b, ..] => (Some(Key::Escape), 0),
        // A letter with the Alt key.
        _ => (None, 1),
    }
}

/// A key of a sequence ESC [ PARAMETERS END.
fn control_sequence(parameters: &[u8], end: u8) -> Option<Key> {
    let first = parameters.split(|byte| *byte == b';').next().unwrap_or_default();
    match end {
        b'Z' => Some(Key::BackTab),
        b'~' => {
            let number: u8 = std::str::from_utf8(first).ok()?.parse().ok()?;
            match number {
                1 | 7 => Some(Key::Home),
                4 | 8 => Some(Key::End),
                5 => Some(Key::PageUp),
                6 => Some(Key::PageDown),
                11..=15 => Some(Key::Function(number - 10)),
                17..=21 => Some(Key::Function(number - 11)),
                23 | 24 => Some(Key::Function(number - 12)),
                _ => None,
            }
        }
        letter => application_key(letter),
    }
}

/// A key by the letter that ends its sequence.
fn application_key(letter: u8) -> Option<Key> {
    match letter {
        b'A' => Some(Key::Up),
        b'B' => Some(Key::Down),
        b'C' => Some(Key::Right),
        b'D' => Some(Key::Left),
        b'H' => Some(Key::Home),
        b'F' => Some(Key::End),
        b'P'..=b'S' => Some(Key::Function(letter - b'P' + 1)),
        b'M' => Some(Key::Enter),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_keys() {
        for (bytes, expected) in [
            (&b"q"[..], vec![Key::Char('q')]),
            (b"\x1b", vec![Key::Escape]),
            (b"\x1b[A\x1bOB\x1b[1;5C\x1b[D", vec![Key::Up, Key::Down, Key::Right, Key::Left]),
            (b"\x1bOP\x1b[12~\x1b[[C\x1b[15~", vec![1, 2, 3, 5].into_iter().map(Key::Function).collect()),
            (b"\x1b[17~\x1b[21~\x1b[24~", vec![6, 10, 12].into_iter().map(Key::Function).collect()),
            (b"\x1b[5~\x1b[6~\x1b[H\x1b[4~", vec![Key::PageUp, Key::PageDown, Key::Home, Key::End]),
            (b"\x03\x1a\x0c\x15", vec!['c', 'z', 'l', 'u'].into_iter().map(Key::Control).collect()),
            (b"\r\t\x1b[Z\x7f\x08", vec![Key::Enter, Key::Tab, Key::BackTab, Key::Backspace, Key::Backspace]),
            ("aé→".as_bytes(), vec![Key::Char('a'), Key::Char('é'), Key::Char('→')]),
            (b"\x1b[99~x\x1b[200~y", vec![Key::Char('x'), Key::Char('y')]),
            (b"\x1b\x1b[A", vec![Key::Escape, Key::Up]),
            (b"\x1bx\xff\x00\x1d1", vec![Key::Char('1')]),
            (b"\x1b[1;", vec![]),
        ] {
            assert_eq!(keys(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn no_bytes_panic() {
        let mut random = 1u64;
        for length in 0..40 {
            for _ in 0..500 {
                let bytes: Vec<u8> = (0..length)
                    .map(|_| {
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        [0x1b, b'[', b'O', b'1', b';', b'~', (random >> 40) as u8, 0xc3][(random >> 33) as usize % 8]
                    })
                    .collect();
                keys(&bytes);
            }
        }
    }
}
