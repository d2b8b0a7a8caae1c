//! The administrator's defaults: one number in each file under `/etc/rdma/rsocket`.

use std::path::Path;

use super::connect_data::supported;
use super::outbound::SEND_LOW_WATER;

/// Directory of the files.
pub const DIRECTORY: &str = "/etc/rdma/rsocket";
/// Maximum number of bytes read from a file.
const FILE_BYTES_MAX: usize = 64;

/// Defaults of every rsocket in the process, which its own options override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Receive buffer, in bytes.
    pub mem_default: u32,
    /// Send buffer, in bytes.
    pub wmem_default: u32,
    /// Send queue, in work requests.
    pub sqsize_default: u16,
    /// Receive queue, in work requests.
    pub rqsize_default: u16,
    /// Maximum inline data in bytes.
    pub inline_default: u16,
    /// Maximum number of buffers that a peer may map.
    pub iomap_size: u16,
    /// Time that a call polls for completions before it sleeps.
    pub polling_time_us: u32,
    /// Maximum sleep of `rpoll` before it checks again, if the administrator sets one; it is not needed, as every
    /// awaited change wakes it.
    pub wake_up_interval_ms: Option<u32>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            mem_default: 1 << 17,
            wmem_default: 1 << 17,
            sqsize_default: 384,
            rqsize_default: 384,
            inline_default: 64,
            iomap_size: 0,
            polling_time_us: 10,
            wake_up_interval_ms: None,
        }
    }
}

impl Config {
    /// Reads the files of `directory`; a file that is missing or contains no number leaves its default.
    pub fn read(directory: &Path) -> Config {
        Config::from_numbers(|name| number(&directory.join(name)))
    }

    fn from_numbers(number: impl Fn(&str) -> Option<u64>) -> Config {
        let word = |name: &str, default: u32| number(name).map_or(default, |n| n.min(u32::MAX.into()) as u32);
        let short = |name: &str, default: u16| number(name).map_or(default, |n| n.min(u16::MAX.into()) as u16);
        let default = Config::default();
        let wmem = word("wmem_default", default.wmem_default);
        Config {
            mem_default: word("mem_default", default.mem_default).max(2),
            wmem_default: if wmem < SEND_LOW_WATER { SEND_LOW_WATER * 2 } else { wmem },
            sqsize_default: short("sqsize_default", default.sqsize_default),
            rqsize_default: short("rqsize_default", default.rqsize_default),
            inline_default: short("inline_default", default.inline_default),
            iomap_size: supported(short("iomap_size", default.iomap_size)),
            polling_time_us: word("polling_time", default.polling_time_us),
            wake_up_interval_ms: number("wake_up_interval").map(|n| n.clamp(1, u32::MAX.into()) as u32),
        }
    }
}

/// Reads the number at the start of a file.
fn number(path: &Path) -> Option<u64> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(FILE_BYTES_MAX as u64).read_to_string(&mut text).ok()?;
    let digits: String = text.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_directory_leaves_the_defaults() {
        assert_eq!(Config::read(Path::new("/nonexistent")), Config::default());
    }

    #[test]
    fn files_set_what_they_name() {
        let directory = std::env::temp_dir().join(format!("weft-rsocket-config-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        for (name, text) in [("mem_default", " 262144\n"), ("sqsize_default", "32 # few"), ("rqsize_default", "many")] {
            std::fs::write(directory.join(name), text).unwrap();
        }
        let config = Config::read(&directory);
        std::fs::remove_dir_all(&directory).unwrap();
        let expected = Config { mem_default: 262_144, sqsize_default: 32, ..Config::default() };
        assert_eq!(config, expected);
    }

    #[test]
    fn numbers_are_brought_into_range() {
        let with = |value| Config::from_numbers(|_| Some(value));
        assert_eq!(with(0).wmem_default, 4096);
        assert_eq!(with(0).mem_default, 2);
        assert_eq!(with(1 << 40).sqsize_default, u16::MAX);
        assert_eq!(with(1000).iomap_size, 768);
    }
}
