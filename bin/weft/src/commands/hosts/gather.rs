//! Output of programs that run at the same time, line by line, each with the name of its host before it.

use std::io::{self, BufRead, BufReader, Read};

/// Longest line that stays whole; a longer one is divided.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Reads lines until the end of `from` and hands each to `print`, with `prefix` before it and a line feed at its end.
pub fn lines(from: impl Read, prefix: &str, mut print: impl FnMut(&[u8])) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        line.extend_from_slice(prefix.as_bytes());
        match read_line(&mut from, &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                if line.last() != Some(&b'\n') {
                    line.push(b'\n');
                }
                print(&line);
            }
        }
    }
}

fn read_line(from: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    from.take(LINE_BYTES_MAX).read_until(b'\n', line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(text: &[u8]) -> Vec<String> {
        let mut all = Vec::new();
        lines(text, "node1: ", |line| all.push(String::from_utf8_lossy(line).into_owned()));
        all
    }

    #[test]
    fn lines_have_a_prefix_and_an_end() {
        assert_eq!(gathered(b"a\n\nb"), ["node1: a\n", "node1: \n", "node1: b\n"]);
        assert!(gathered(b"").is_empty());
    }

    #[test]
    fn a_line_without_end_is_divided() {
        let long = vec![b'x'; LINE_BYTES_MAX as usize + 1];
        let all = gathered(&long);
        assert_eq!(all.len(), 2);
        assert_eq!(all[1], "node1: x\n");
    }
}
