//! Error texts as C's strerror has them: `Permission denied`, without the "(os error 13)" that Rust appends.

use std::io;

/// The text of an error.
pub fn text(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((bare, _)) => bare.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_left_out() {
        assert_eq!(text(&io::Error::from_raw_os_error(libc::EEXIST)), "File exists");
        assert_eq!(text(&io::Error::other("odd")), "odd");
    }
}
