//! A piece of a line, with its line and column.

/// A piece of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    whole: &'a str,
    start: usize,
    end: usize,
    line: u32,
    /// Characters before it, counted while pieces are cut off, since a line may have millions of pieces.
    column: u32,
}

impl<'a> Piece<'a> {
    /// Returns a whole line.
    pub(super) fn of(line: u32, whole: &'a str) -> Piece<'a> {
        Piece { whole, start: 0, end: whole.len(), line, column: 0 }
    }

    /// Returns the text without surrounding blanks.
    pub(super) fn text(&self) -> &'a str {
        self.raw().trim()
    }

    /// Returns the line and column of the first character.
    pub(super) fn at(&self) -> (u32, u32) {
        let raw = self.raw();
        let blanks = raw.len() - raw.trim_start().len();
        (self.line, self.column.saturating_add(letters(raw.get(..blanks))).saturating_add(1))
    }

    /// Splits at the first occurrence of a character.
    pub(super) fn cut(self, letter: char) -> (Piece<'a>, Option<Piece<'a>>) {
        match self.raw().find(letter) {
            Some(at) => {
                let (end, start) = (self.start + at, self.start + at + letter.len_utf8());
                let column = self.column.saturating_add(letters(self.whole.get(self.start..start)));
                (Piece { end, ..self }, Some(Piece { start, column, ..self }))
            }
            None => (self, None),
        }
    }

    /// Yields the pieces between occurrences of a character.
    pub(super) fn split(self, letter: char) -> impl Iterator<Item = Piece<'a>> {
        let mut rest = Some(self);
        std::iter::from_fn(move || {
            let (first, behind) = rest?.cut(letter);
            rest = behind;
            Some(first)
        })
    }

    /// Returns the span from the start of this piece to the end of another one on the same line.
    pub(super) fn through(self, last: Piece<'a>) -> Piece<'a> {
        Piece { end: last.end, ..self }
    }

    fn raw(&self) -> &'a str {
        self.whole.get(self.start..self.end).unwrap_or("")
    }
}

fn letters(text: Option<&str>) -> u32 {
    u32::try_from(text.unwrap_or("").chars().count()).unwrap_or(u32::MAX)
}

#[test]
fn pieces_know_their_columns() {
    let piece = Piece::of(7, "a = b,  cd ,e");
    let found: Vec<_> = piece.split(',').map(|piece| (piece.text(), piece.at())).collect();
    assert_eq!(found, [("a = b", (7, 1)), ("cd", (7, 9)), ("e", (7, 13))]);
    let (name, value) = piece.cut('=');
    assert_eq!((name.text(), value.map(|value| value.at())), ("a", Some((7, 5))));
    let behind = Piece::of(1, "äö , ü").cut(',').1;
    assert_eq!(behind.map(|piece| (piece.text(), piece.at())), Some(("ü", (1, 6))));
}
