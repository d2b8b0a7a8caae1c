//! The specification of faults: `loss=1%,reorder=2%,dup=1%,corrupt=0.1%,delay=1ms,seed=7`.

use std::fmt;
use std::net::IpAddr;

use weft_verbs::Duration;
use weft_wire::pcapng::Direction;

use super::scope::{PacketKinds, Scope};
use crate::units::{bits_per_second, share_ppm, time};

/// The faults to inject, and their rates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultSpec {
    /// Lost packets per million.
    pub loss_ppm: u32,
    /// Mean number of packets that are lost in a row; 0 and 1 mean that each is lost or not for itself.
    pub burst: u32,
    /// Packets per million that later ones overtake.
    pub reorder_ppm: u32,
    /// Duplicated packets per million.
    pub dup_ppm: u32,
    /// Packets per million with a flipped bit.
    pub corrupt_ppm: u32,
    /// Packets per million that arrive, or leave, with a mark of congestion (ECN).
    pub ecn_ppm: u32,
    /// Delay of every packet.
    pub delay: Duration,
    /// Maximum of a random delay beside `delay`, another one for each packet.
    pub jitter: Duration,
    /// Rate of the line; 0 is none.
    pub bits_per_second: u64,
    /// Packets that all this concerns.
    pub scope: Scope,
    /// Datagrams (UD) per million that later packets overtake, beside `reorder_ppm`. No text requests it.
    pub late_datagrams_ppm: u32,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// The longest accepted delay.
pub const DELAY_MAX: Duration = Duration::from_secs(60);
/// The latest begin and the longest duration of faults.
const SCOPE_TIME_MAX: Duration = Duration::from_secs(86_400);
/// The largest mean number of packets that are lost in a row.
const BURST_MAX: u32 = 1_000_000;

/// The largest number of a queue pair (IBA 9.2, 24 bits).
const QPN_MAX: u32 = 0x00ff_ffff;

/// The reason why a specification is invalid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FaultSpecError(String);

impl fmt::Display for FaultSpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}; a fault specification reads like loss=1%,reorder=2%,dup=1%,corrupt=0.1%,delay=1ms,seed=7",
            self.0
        )
    }
}

impl std::error::Error for FaultSpecError {}

impl FaultSpec {
    /// Parses a specification. An empty text requests no faults.
    ///
    /// # Errors
    /// The first part that does not parse, and the reason.
    pub fn parse(text: &str) -> Result<FaultSpec, FaultSpecError> {
        let mut spec = FaultSpec::default();
        for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| FaultSpecError(format!("\"{part}\" has no value: write {part}=...")))?;
            spec.set(key.trim(), value.trim())?;
        }
        spec.makes_sense()?;
        Ok(spec)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), FaultSpecError> {
        let wrong = |why: String| FaultSpecError(format!("{key}={value}: {why}"));
        let number =
            |what: &str| value.parse::<u64>().map_err(|_| wrong(format!("{what} is a whole number of 64 bits")));
        match key {
            "loss" => self.loss_ppm = share_ppm(value).map_err(wrong)?,
            "burst" => {
                let burst = value.parse().ok().filter(|burst| (1..=BURST_MAX).contains(burst));
                self.burst = burst.ok_or_else(|| wrong(format!("a mean number of packets, 1 to {BURST_MAX}")))?;
            }
            "reorder" => self.reorder_ppm = share_ppm(value).map_err(wrong)?,
            "dup" => self.dup_ppm = share_ppm(value).map_err(wrong)?,
            "corrupt" => self.corrupt_ppm = share_ppm(value).map_err(wrong)?,
            "ecn" => self.ecn_ppm = share_ppm(value).map_err(wrong)?,
            "delay" => self.delay = time(value, DELAY_MAX).map_err(wrong)?,
            "jitter" => self.jitter = time(value, DELAY_MAX).map_err(wrong)?,
            "rate" => self.bits_per_second = bits_per_second(value).map_err(wrong)?,
            "after" => self.scope.after = time(value, SCOPE_TIME_MAX).map_err(wrong)?,
            "for" => self.scope.lasting = time(value, SCOPE_TIME_MAX).map_err(wrong)?,
            "from" => self.scope.from = number("a packet's number")?,
            "count" => self.scope.count = number("a number of packets")?,
            "only" => self.scope.kinds = PacketKinds::parse(value).map_err(wrong)?,
            "dir" => self.scope.direction = direction(value).map_err(wrong)?,
            "peer" => self.scope.flow.peer = Some(address(value).map_err(wrong)?),
            "to" => self.scope.flow.local = Some(address(value).map_err(wrong)?),
            "qp" => self.scope.flow.qpn = Some(queue_pair(value).map_err(wrong)?),
            "seed" => self.seed = number("a seed")?,
            _ => {
                return Err(FaultSpecError(format!(
                    "\"{key}\" is no fault: there are loss, burst, reorder, dup, corrupt, ecn, delay, jitter and rate, which \
                     dir, after, for, from, count, only, peer, to and qp limit, and seed"
                )));
            }
        }
        Ok(())
    }

    /// Refuses keys that would do nothing.
    fn makes_sense(&self) -> Result<(), FaultSpecError> {
        if self.burst > 1 && self.loss_ppm == 0 {
            return Err(FaultSpecError("burst without loss does nothing: add loss=1%".to_owned()));
        }
        if self.scope != Scope::default() && self.is_none() {
            let keys = "dir, after, for, from, count, only, peer, to and qp say when faults strike; without one they do nothing: add loss=1%";
            return Err(FaultSpecError(keys.to_owned()));
        }
        Ok(())
    }

    /// Returns how many packets per million like this one (BTH first) later ones overtake.
    pub(super) fn late_ppm(&self, ib: &[u8]) -> u32 {
        const DATAGRAM: u8 = 0b011;
        match ib.first() {
            Some(opcode) if opcode >> 5 == DATAGRAM => self.reorder_ppm.saturating_add(self.late_datagrams_ppm),
            _ => self.reorder_ppm,
        }
    }

    /// Whether no faults are requested.
    pub fn is_none(&self) -> bool {
        *self == FaultSpec { seed: self.seed, scope: self.scope, ..FaultSpec::default() }
    }
}

fn direction(text: &str) -> Result<Direction, String> {
    match text {
        "in" => Ok(Direction::Inbound),
        "out" => Ok(Direction::Outbound),
        _ => Err("in for packets that the program receives, out for those that it sends".to_owned()),
    }
}

fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| "an address is one of IPv4 or IPv6, such as 10.0.0.2".to_owned())
}

/// Parses the number of a queue pair as tools print it, in decimal or with 0x.
fn queue_pair(text: &str) -> Result<u32, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.ok().filter(|number| *number <= QPN_MAX).ok_or_else(|| "a queue pair's number has 24 bits".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::scope::FlowSet;
    use super::*;

    #[test]
    fn a_full_specification_is_understood() {
        let spec = FaultSpec::parse("loss=1%, reorder=2%,dup=10000ppm,corrupt=0.1%,ecn=3%,delay=1ms,seed=7").unwrap();
        let want = FaultSpec {
            loss_ppm: 10_000,
            reorder_ppm: 20_000,
            dup_ppm: 10_000,
            corrupt_ppm: 1_000,
            ecn_ppm: 30_000,
            delay: Duration::from_millis(1),
            seed: 7,
            ..FaultSpec::default()
        };
        assert_eq!(spec, want);
        let limited =
            FaultSpec::parse("loss=1%,burst=10,jitter=20us,rate=10Gbit,after=2s,for=300ms,from=5,count=7,only=ack");
        let want_limited = FaultSpec {
            loss_ppm: 10_000,
            burst: 10,
            jitter: Duration::from_micros(20),
            bits_per_second: 10_000_000_000,
            scope: Scope {
                direction: Direction::Inbound,
                after: Duration::from_secs(2),
                lasting: Duration::from_millis(300),
                from: 5,
                count: 7,
                kinds: PacketKinds::parse("ack").unwrap(),
                flow: FlowSet::default(),
            },
            ..FaultSpec::default()
        };
        assert_eq!(limited, Ok(want_limited));
        let flow = FaultSpec::parse("loss=1%,peer=10.0.0.2,to=fd77::1,qp=0x4123").unwrap().scope.flow;
        let addresses = (flow.peer.unwrap().to_string(), flow.local.unwrap().to_string());
        assert_eq!((addresses, flow.qpn), (("10.0.0.2".to_owned(), "fd77::1".to_owned()), Some(0x4123)));
        let direction = |text| FaultSpec::parse(text).unwrap().scope.direction;
        assert_eq!((direction("loss=1%,dir=in"), direction("loss=1%")), (Direction::Inbound, Direction::Inbound));
        assert_eq!(direction("dir=out,loss=1%"), Direction::Outbound);
        assert!(FaultSpec::parse("").unwrap().is_none());
        assert!(FaultSpec::parse("seed=9").unwrap().is_none());
        assert!(!spec.is_none());
    }

    #[test]
    fn errors_name_the_part_and_the_fix() {
        for (text, part) in [
            ("loss", "loss=..."),
            ("loss=x", "loss=x"),
            ("loss=1", "loss=1: a share needs its unit; write 1% or 1ppm"),
            ("dup=0.01", "needs its unit"),
            ("loss=101%", "0% and 100%"),
            ("loss=-1%", "0% and 100%"),
            ("loss=NaN", "a number with a unit"),
            ("lost=1%", "\"lost\" is no fault"),
            ("delay=5", "unit"),
            ("delay=100s", "60s"),
            ("delay=infs", "60s"),
            ("seed=-1", "whole number"),
            ("loss=1%,burst=0", "1 to 1000000"),
            ("burst=5", "add loss"),
            ("after=1s,seed=4", "when faults strike"),
            ("loss=1%,only=nak", "no kind of packet"),
            ("loss=1%,dir=up", "dir=up: in for packets that the program receives"),
            ("dir=out", "add loss"),
            ("loss=1%,peer=node2", "peer=node2: an address is one of IPv4"),
            ("loss=1%,qp=0x1000000", "24 bits"),
            ("to=10.0.0.1", "add loss"),
            ("rate=10", "write 10Mbit or 10Gbit"),
            ("loss=1%,from=x", "whole number"),
        ] {
            let error = FaultSpec::parse(text).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("loss=1%"), "{text}: {error}");
        }
    }
}
