//! Text form of option values: numbers as C writes them, TRUE and FALSE, words, paths.

use super::text::{clip, number};

/// The word for an absent text.
pub const NONE: &str = "(null)";

/// A type of option value.
pub trait Value {
    /// Parses a value; an error says why the text is wrong and leaves the old value.
    fn update(&mut self, text: &str) -> Result<(), String>;

    /// Returns the value as text: most kinds in one line, per-service-level values in several.
    fn lines(&self) -> Vec<String>;
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl Value for $type {
            fn update(&mut self, text: &str) -> Result<(), String> {
                let value = number(text)?;
                *self = <$type>::try_from(value).map_err(|_| format!("{} is above {}", clip(text), <$type>::MAX))?;
                Ok(())
            }

            fn lines(&self) -> Vec<String> {
                vec![self.to_string()]
            }
        }
    )*};
}

numbers! { u8 u16 u32 }

impl Value for u64 {
    fn update(&mut self, text: &str) -> Result<(), String> {
        *self = number(text)?;
        Ok(())
    }

    fn lines(&self) -> Vec<String> {
        vec![format!("{self:#018x}")]
    }
}

impl Value for i32 {
    fn update(&mut self, text: &str) -> Result<(), String> {
        let (minus, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let value = i32::try_from(number(digits)?).map_err(|_| format!("{} is out of range", clip(text)))?;
        *self = if minus { -value } else { value };
        Ok(())
    }

    fn lines(&self) -> Vec<String> {
        vec![self.to_string()]
    }
}

impl Value for bool {
    /// Any text but TRUE counts as FALSE, as in OpenSM, but a wrong word is also an error.
    fn update(&mut self, text: &str) -> Result<(), String> {
        *self = text == "TRUE";
        if *self || text == "FALSE" {
            return Ok(());
        }
        Err(format!("{} is neither TRUE nor FALSE and counts as FALSE", clip(text)))
    }

    fn lines(&self) -> Vec<String> {
        vec![if *self { "TRUE" } else { "FALSE" }.to_owned()]
    }
}

impl Value for Option<String> {
    fn update(&mut self, text: &str) -> Result<(), String> {
        *self = (text != NONE && !text.is_empty()).then(|| text.to_owned());
        Ok(())
    }

    fn lines(&self) -> Vec<String> {
        vec![self.as_deref().unwrap_or(NONE).to_owned()]
    }
}

/// Directions in which switches drop packets of partitions that the attached host is not in (`part_enforce`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum PartEnforce {
    /// Coming from the host and going to it.
    #[default]
    Both,
    /// Coming from the host.
    In,
    /// Going to the host.
    Out,
    /// Nowhere.
    Off,
}

/// Clients that may reach the console (`console`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Console {
    /// No client.
    #[default]
    Off,
    /// The user at the terminal that started the manager.
    Local,
    /// Programs on the same host.
    Loopback,
    /// Any host.
    Socket,
}

macro_rules! words {
    ($type:ident { $($word:literal => $variant:ident),+ $(,)? }) => {
        impl Value for $type {
            fn update(&mut self, text: &str) -> Result<(), String> {
                *self = match text {
                    $($word => $type::$variant,)+
                    _ => return Err(format!("{} is none of {}", clip(text), [$($word),+].join(", "))),
                };
                Ok(())
            }

            fn lines(&self) -> Vec<String> {
                vec![match self { $($type::$variant => $word,)+ }.to_owned()]
            }
        }
    };
}

words! { PartEnforce { "both" => Both, "in" => In, "out" => Out, "off" => Off } }
words! { Console { "off" => Off, "local" => Local, "loopback" => Loopback, "socket" => Socket } }

/// A number for each service level, set one at a time: `option SL value`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct BySl(pub [u16; 16]);

impl Value for BySl {
    fn update(&mut self, text: &str) -> Result<(), String> {
        let (sl, value) = text.split_once([' ', '\t']).ok_or("the service level must stand before the value")?;
        let entry = self.0.get_mut(usize::try_from(number(sl)?).unwrap_or(usize::MAX));
        let entry = entry.ok_or_else(|| format!("no service level {}", clip(sl)))?;
        entry.update(value.trim())
    }

    fn lines(&self) -> Vec<String> {
        let set = self.0.iter().enumerate().filter(|(sl, value)| *sl == 0 || **value != 0);
        set.map(|(sl, value)| format!("{sl} {value}")).collect()
    }
}

/// A bit for each port of a switch, the highest first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PortMask(pub [u64; 4]);

impl Value for PortMask {
    fn update(&mut self, text: &str) -> Result<(), String> {
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
        if digits.is_empty() || digits.len() > 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(format!("{} is not a hexadecimal number of up to 64 digits", clip(text)));
        }
        let padded = format!("{digits:0>64}");
        for (word, at) in self.0.iter_mut().zip([0, 16, 32, 48]) {
            *word = u64::from_str_radix(padded.get(at..at + 16).unwrap_or("0"), 16).unwrap_or(0);
        }
        Ok(())
    }

    fn lines(&self) -> Vec<String> {
        let [a, b, c, d] = self.0;
        vec![format!("0x{a:016x}{b:016x}{c:016x}{d:016x}")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: Value + Default>(text: &str) -> Result<T, String> {
        let mut value = T::default();
        value.update(text).map(|()| value)
    }

    #[test]
    fn values_are_read_as_they_are_written() {
        assert_eq!(read::<u8>("0x12"), Ok(18));
        assert_eq!(read::<u64>("0x0002c9030a000001"), Ok(0x0002_c903_0a00_0001));
        assert_eq!(read::<u8>("256").unwrap_err(), "256 is above 255");
        assert_eq!(read::<i32>("-1"), Ok(-1));
        assert_eq!(read::<Option<String>>("(null)"), Ok(None));
        assert_eq!(read::<PartEnforce>("in"), Ok(PartEnforce::In));
        assert_eq!(read::<Console>("telnet").unwrap_err(), "telnet is none of off, local, loopback, socket");
        assert_eq!(read::<PortMask>("0x1f").map(|mask| mask.0), Ok([0, 0, 0, 31]));
        assert!(read::<bool>("yes").is_err());
    }

    #[test]
    fn what_is_set_by_service_level_is_set_one_by_one() {
        let mut value = BySl::default();
        assert_eq!(value.update("3 17"), Ok(()));
        assert_eq!(value.lines(), ["0 0", "3 17"]);
        assert!(value.update("16 1").is_err() && value.update("5").is_err());
    }
}
