//! Options of `weft replay`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use weft_replay::Speed;

use crate::pingpong::DeviceChoice;

/// Options of `weft replay`.
#[derive(Args, Clone, Debug)]
pub struct ReplayArgs {
    /// File of weft record
    pub file: PathBuf,
    /// Peer: a host for the RDMA connection manager and --exchange pingpong; else the queue pair, as LID:QPN:PSN:GID in
    /// hexadecimal, or - to read that from standard input
    #[arg(required_unless_present = "listen", conflicts_with = "listen")]
    pub peer: Option<String>,
    /// Wait for the peer to connect, as the recorded program did
    #[arg(short, long)]
    pub listen: bool,
    /// Exchange addresses as a client of this program does
    #[arg(long, value_enum, value_name = "PROGRAM")]
    pub exchange: Option<Exchange>,
    /// Port of the peer, or to listen on (default: 7471 for the connection manager, 18515 for pingpong)
    #[arg(short, long)]
    pub port: Option<u16>,
    /// Queue pair to replay [default: the only one]
    #[arg(long, value_name = "QPN", value_parser = parse_u32)]
    pub qp: Option<u32>,
    /// Pace: a factor of the recorded one, or max
    #[arg(long, default_value = "1", value_parser = parse_speed)]
    pub speed: Speed,
    /// Address of the peer's memory, in place of the lowest that the program used
    #[arg(long, value_name = "ADDR", value_parser = parse_u64, requires = "remote_key")]
    pub remote_addr: Option<u64>,
    /// R_Key of the peer's memory
    #[arg(long, value_name = "KEY", value_parser = parse_u32, requires = "remote_addr")]
    pub remote_key: Option<u32>,
    /// Seconds to wait for the connection, and for a completion
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub timeout: u64,
    /// Seed of the payload
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Device, without the connection manager [default: the first]
    #[arg(short = 'd', long = "ib-dev", value_name = "DEV")]
    pub ib_dev: Option<String>,
    /// Port of the device
    #[arg(short = 'i', long = "ib-port", value_name = "PORT", default_value_t = 1)]
    pub ib_port: u8,
    /// Row of the GID table (default: the first routable one)
    #[arg(short = 'g', long = "gid-idx", value_name = "INDEX")]
    pub gid_idx: Option<u32>,
    /// Print JSON
    #[arg(short, long)]
    pub json: bool,
    /// Use the system's libraries instead of Weft's
    #[arg(long)]
    pub system: bool,
}

/// A program whose exchange of addresses is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Exchange {
    /// `ibv_rc_pingpong` and `ibv_uc_pingpong`, over TCP
    Pingpong,
}

impl ReplayArgs {
    pub(super) fn device(&self) -> DeviceChoice {
        DeviceChoice {
            name: self.ib_dev.clone(),
            port: self.ib_port,
            gid_idx: self.gid_idx,
            system: self.system,
            ..DeviceChoice::default()
        }
    }
}

fn parse_speed(text: &str) -> Result<Speed, String> {
    if text == "max" {
        return Ok(Speed::Max);
    }
    let factor: Option<f64> = text.parse().ok().filter(|factor: &f64| (1e-3..=1e6).contains(factor));
    factor.map(Speed::Times).ok_or_else(|| "a factor from 0.001 to 1000000, or max".to_owned())
}

fn parse_u64(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "a number, such as 17 or 0x11".to_owned())
}

fn parse_u32(text: &str) -> Result<u32, String> {
    u32::try_from(parse_u64(text)?).map_err(|_| "a number of 32 bits".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_a_factor_or_max() {
        assert_eq!((parse_speed("max"), parse_speed("0.5")), (Ok(Speed::Max), Ok(Speed::Times(0.5))));
        for text in ["0", "-1", "nan", "inf", "1e9", "fast", ""] {
            assert!(parse_speed(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_are_decimal_or_hexadecimal() {
        assert_eq!((parse_u64("0xffffffffffffffff"), parse_u32("17")), (Ok(u64::MAX), Ok(17)));
        assert!(parse_u32("0x100000000").is_err() && parse_u64("x").is_err());
    }
}
