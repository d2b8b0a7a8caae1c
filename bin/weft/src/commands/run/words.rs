//! Words of a command line that is put together.

use std::ffi::OsString;

/// Words of a command line.
#[derive(Default)]
pub struct Words(pub Vec<OsString>);

impl Words {
    /// Adds a flag that is set.
    pub fn flag(&mut self, flag: &str, is_set: bool) {
        self.0.extend(is_set.then(|| flag.into()));
    }

    /// Adds an option with each of these values.
    pub fn options<'a, T: Clone + Into<OsString> + 'a>(
        &mut self,
        option: &str,
        values: impl IntoIterator<Item = &'a T>,
    ) {
        for value in values {
            let value: OsString = value.clone().into();
            // A value that begins like an option must not be taken for one.
            if value.as_encoded_bytes().starts_with(b"-") {
                let mut word = OsString::from(option);
                word.push("=");
                word.push(value);
                self.0.push(word);
            } else {
                self.0.extend([option.into(), value]);
            }
        }
    }
}
