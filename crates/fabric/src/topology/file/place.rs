//! Values of a file, with their places for error messages.

use toml::Spanned;

use crate::topology::{Error, Result, Speed, Width};

/// Location of errors: the file's text, to count lines in.
#[derive(Clone, Copy)]
pub(super) struct Place<'a>(pub(super) &'a str);

impl Place<'_> {
    /// Returns the line of a byte.
    pub(super) fn line(self, at: usize) -> u32 {
        let before = self.0.as_bytes().get(..at.min(self.0.len())).unwrap_or_default();
        before.iter().filter(|byte| **byte == b'\n').count() as u32 + 1
    }

    pub(super) fn of<T>(self, value: &Spanned<T>) -> u32 {
        self.line(value.span().start)
    }

    /// Creates an error in a value.
    pub(super) fn error<T>(self, value: &Spanned<T>, what: impl Into<String>, mend: impl Into<String>) -> Error {
        Error::at(self.of(value), what, mend)
    }

    /// Adds the line of a value to an error without one.
    pub(super) fn at<T, R>(self, value: &Spanned<T>, result: Result<R>) -> Result<R> {
        result.map_err(|error| if error.line == 0 { Error { line: self.of(value), ..error } } else { error })
    }
}

pub(super) fn width(place: Place<'_>, text: &Spanned<String>) -> Result<Width> {
    let bad = || place.error(text, format!("{:?} is no width", text.get_ref()), "widths are 1x 2x 4x 8x 12x");
    Width::parse(text.get_ref()).ok_or_else(bad)
}

pub(super) fn speed(place: Place<'_>, text: &Spanned<String>) -> Result<Speed> {
    let mend = "speeds are SDR DDR QDR FDR10 FDR EDR HDR NDR XDR";
    let bad = || place.error(text, format!("{:?} is no speed", text.get_ref()), mend);
    Speed::parse(text.get_ref()).ok_or_else(bad)
}
