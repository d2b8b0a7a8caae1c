//! The plan of a seed: how bad the network is, which host connects to which service and when, and the other faults.

use weft_verbs::Duration;

use crate::net::Faults;
use crate::rng::Rng;

/// Number of service IDs with a listener on every host.
pub const SERVICES: u64 = 3;
/// First service ID.
pub const SERVICE_BASE: u64 = 0x0106_1c00;
/// Time at which the owners end the last connections.
pub const CURFEW: Duration = Duration::from_secs(600);

/// One attempt to connect, or to find a service.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    /// Host that sends the request.
    pub from: usize,
    /// Host that receives it.
    pub to: usize,
    /// Time of the request.
    pub at: Duration,
    /// Requested service ID.
    pub service: u64,
    /// A datagram service: SIDR.
    pub datagram: bool,
}

impl Attempt {
    /// Returns whether the service ID has a listener.
    pub fn is_listened(&self) -> bool {
        self.service < SERVICES
    }
}

/// How much goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mood {
    /// Nothing: every owner does the expected, at once or after an MRA.
    Calm,
    /// Messages are lost, but every owner waits and does the expected: no owner may notice.
    Lossy,
    /// Every kind of fault.
    Wild,
}

/// All that a seed decides before anything happens.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// IPv6 instead of IPv4.
    pub v6: bool,
    /// The network.
    pub faults: Faults,
    /// How much goes wrong.
    pub mood: Mood,
    /// The attempts.
    pub attempts: Vec<Attempt>,
    /// CM response timeout, as an exponent.
    pub timeout: u8,
    /// Retries.
    pub retries: u8,
    /// Packet lifetime, as an exponent.
    pub life_time: u8,
    /// A host that loses power: which, when, and for how long.
    pub crash: Option<(usize, Duration, Duration)>,
}

impl Plan {
    /// Derives the plan from a seed.
    pub fn of(seed: u64) -> Plan {
        let mut rng = Rng::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let mood = rng.pick(&[Mood::Calm, Mood::Lossy, Mood::Wild, Mood::Wild, Mood::Wild]);
        let attempts = (0..rng.range(1, 10)).map(|_| {
            let from = rng.below(2) as usize;
            Attempt {
                from,
                to: 1 - from,
                at: Duration::from_micros(rng.below(8_000_000)),
                service: if rng.chance(1, 8) { SERVICES + rng.below(2) } else { rng.below(SERVICES) },
                datagram: rng.chance(1, 5),
            }
        });
        let attempts = attempts.collect();
        let crash = (mood == Mood::Wild && rng.chance(1, 3)).then(|| {
            let at = Duration::from_micros(rng.below(12_000_000));
            (rng.below(2) as usize, at, Duration::from_micros(rng.below(20_000_000)))
        });
        Plan {
            seed,
            v6: rng.chance(1, 2),
            faults: match mood {
                Mood::Calm => Faults::NONE,
                Mood::Lossy => {
                    Faults { loss: rng.range(500, 1500) as u32, outage: Faults::NONE.outage, ..faults(&mut rng) }
                }
                Mood::Wild => faults(&mut rng),
            },
            mood,
            attempts,
            timeout: rng.range(14, 20) as u8,
            retries: if mood == Mood::Lossy { 15 } else { rng.range(0, 15) as u8 },
            life_time: rng.range(12, 18) as u8,
            crash,
        }
    }

    /// Returns how long one try of a message waits.
    pub fn try_time(&self) -> Duration {
        Duration::from_nanos(4096 << self.timeout)
    }
}

fn faults(rng: &mut Rng) -> Faults {
    let some = |rng: &mut Rng, most: u64| if rng.chance(1, 2) { rng.below(most) as u32 } else { 0 };
    Faults {
        loss: some(rng, 4000),
        reorder: some(rng, 3000),
        duplicate: some(rng, 3000),
        corrupt: some(rng, 500),
        jitter: Duration::from_micros(if rng.chance(1, 2) { rng.below(30_000) } else { 0 }),
        outage: if rng.chance(1, 6) { (Duration::from_millis(rng.range(50, 3000)), 3) } else { (Duration::ZERO, 0) },
        ..Faults::NONE
    }
}
