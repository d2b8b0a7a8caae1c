//! Random fault schedules: links flap, switches reboot, datagrams are lost, managers die and come again. When it is over,
//! the subnet always is as it has to be. `WEFT_SIM_SUBNET` sets the number of seeds.

use weft_fabric::PortRef;
use weft_fabric::topology::NodeKind;
use weft_fabric::topology::generate::Shape;
use weft_sim::Rng;
use weft_sim::subnet::{World, check};
use weft_verbs::Duration;

/// Schedules of a run.
const SEEDS: u64 = 1000;
/// Faults of a schedule.
const FAULTS: u64 = 12;
/// Datagrams of managers that are lost, of a million.
const LOSS: u64 = 50_000;

fn shape(seed: u64) -> Shape {
    match seed % 4 {
        0 => Shape::FatTree { radix: 4, levels: 3, hosts: None, hosts_per_leaf: None },
        1 => Shape::FatTree { radix: 8, levels: 2, hosts: None, hosts_per_leaf: None },
        2 => Shape::FatTree { radix: 4, levels: 2, hosts: None, hosts_per_leaf: None },
        _ => Shape::Star { hosts: 4 },
    }
}

/// A fabric, its managers, and what may happen to them.
struct Schedule {
    world: World,
    rng: Rng,
    ports: Vec<PortRef>,
}

impl Schedule {
    fn new(seed: u64) -> Schedule {
        let mut world = World::new(shape(seed), seed);
        let mut rng = Rng::new(seed);
        world.loss_ppm = LOSS;
        let count = rng.range(1, 3) as usize;
        let ports: Vec<PortRef> = (0..count).map(|number| world.host(number)).collect();
        let mut schedule = Schedule { world, rng, ports };
        (0..count).for_each(|place| schedule.start(place));
        schedule
    }

    fn start(&mut self, place: usize) {
        let priority = self.rng.below(4) as u8;
        self.world.start(self.ports[place], |setup| {
            setup.sm_priority = priority;
            setup.sminfo_polling_timeout = Duration::from_secs(1);
        });
    }

    fn fault(&mut self) {
        let now = self.world.now;
        let time = Duration::from_micros(self.rng.range(1, 3_000_000));
        let cables: Vec<PortRef> = self.world.fabric.cables().filter(|c| c.plugged).map(|c| c.ends[0]).collect();
        match self.rng.below(10) {
            0..=4 if !cables.is_empty() => {
                let cable = self.rng.pick(&cables);
                self.world.fabric.flap(now, cable, time).expect("a cable that is plugged");
            }
            5 | 6 => {
                let count = self.world.fabric.node_count();
                let node = self.rng.below(count.into()) as u32;
                if self.world.fabric.kind(node) == Some(NodeKind::Switch) {
                    self.world.fabric.reboot(now, node, time).expect("a switch");
                }
            }
            7 => {
                let place = self.rng.below(self.ports.len() as u64) as usize;
                match self.world.managers.contains_key(&self.ports[place]) {
                    true => drop(self.world.kill(self.ports[place])),
                    false => self.start(place),
                }
            }
            _ => {
                let node = self.world.host(self.rng.below(4) as usize).node;
                if !self.world.managers.contains_key(&PortRef::new(node, 1)) {
                    self.world.fabric.reboot(now, node, time).expect("a host");
                }
            }
        }
        let pause = Duration::from_micros(self.rng.range(1, 2_000_000));
        self.world.pass(pause);
    }
}

fn run(seed: u64) {
    let mut schedule = Schedule::new(seed);
    (0..FAULTS).for_each(|_| schedule.fault());
    if schedule.world.managers.is_empty() {
        schedule.start(0);
    }
    // What is lost is lost to the end; then all has to come to rest.
    schedule.world.pass(Duration::from_secs(30));
    schedule.world.loss_ppm = 0;
    schedule.world.pass(Duration::from_secs(60));
    let world = &schedule.world;
    let [at] = world.masters()[..] else { panic!("seed {seed}: masters {:?}{}", world.masters(), world.log()) };
    let faults = check(&world.fabric, at, &world.managers[&at].manager);
    assert_eq!(faults, [], "seed {seed}:{}", world.log());
}

#[test]
fn every_schedule_ends_well() {
    let seeds = std::env::var("WEFT_SIM_SUBNET").ok().and_then(|word| word.parse().ok()).unwrap_or(SEEDS);
    let first = std::env::var("WEFT_SIM_SUBNET_FIRST").ok().and_then(|word| word.parse().ok()).unwrap_or(0);
    (first..first + seeds).for_each(run);
}
