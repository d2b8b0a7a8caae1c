//! A piece of a line that knows where it stands.

/// A piece of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    whole: &'a str,
    start: usize,
    end: usize,
    line: u32,
}

impl<'a> Piece<'a> {
    /// A whole line.
    pub(super) fn of(line: u32, whole: &'a str) -> Piece<'a> {
        Piece { whole, start: 0, end: whole.len(), line }
    }

    /// Its text, without blanks around.
    pub(super) fn text(&self) -> &'a str {
        self.raw().trim()
    }

    /// Line and column of its first letter.
    pub(super) fn at(&self) -> (u32, u32) {
        let raw = self.raw();
        let blanks = raw.len() - raw.trim_start().len();
        let before = self.whole.get(..self.start + blanks).unwrap_or("");
        (self.line, u32::try_from(before.chars().count()).unwrap_or(u32::MAX - 1) + 1)
    }

    /// The piece before the first of a letter, and the one behind.
    pub(super) fn cut(self, letter: char) -> (Piece<'a>, Option<Piece<'a>>) {
        match self.raw().find(letter) {
            Some(at) => {
                let (end, start) = (self.start + at, self.start + at + letter.len_utf8());
                (Piece { end, ..self }, Some(Piece { start, ..self }))
            }
            None => (self, None),
        }
    }

    /// The pieces between letters.
    pub(super) fn split(self, letter: char) -> impl Iterator<Item = Piece<'a>> {
        let mut rest = Some(self);
        std::iter::from_fn(move || {
            let (first, behind) = rest?.cut(letter);
            rest = behind;
            Some(first)
        })
    }

    /// From the beginning of this piece to the end of another of the same line.
    pub(super) fn through(self, last: Piece<'a>) -> Piece<'a> {
        Piece { end: last.end, ..self }
    }

    fn raw(&self) -> &'a str {
        self.whole.get(self.start..self.end).unwrap_or("")
    }
}

#[test]
fn pieces_know_their_columns() {
    let piece = Piece::of(7, "a = b,  cd ,e");
    let found: Vec<_> = piece.split(',').map(|piece| (piece.text(), piece.at())).collect();
    assert_eq!(found, [("a = b", (7, 1)), ("cd", (7, 9)), ("e", (7, 13))]);
    let (name, value) = piece.cut('=');
    assert_eq!((name.text(), value.map(|value| value.at())), ("a", Some((7, 5))));
}
