//! A manager brings up fabrics of every shape, keeps them up through faults, and passes them on to others.

use weft_fabric::PortRef;
use weft_fabric::topology::generate::Shape;
use weft_sim::subnet::{World, check};
use weft_sm::manager::Event;
use weft_verbs::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn shapes() -> Vec<Shape> {
    vec![
        Shape::Pair,
        Shape::Star { hosts: 5 },
        Shape::FatTree { radix: 4, levels: 2, hosts: None, hosts_per_leaf: None },
        Shape::FatTree { radix: 4, levels: 3, hosts: None, hosts_per_leaf: None },
    ]
}

fn ups(world: &World) -> usize {
    world.count(|event| *event == Event::SubnetUp)
}

fn faults(world: &World, at: PortRef) -> Vec<weft_sim::subnet::Fault> {
    check(&world.fabric, at, &world.managers[&at].manager)
}

#[test]
fn every_shape_comes_up() {
    for shape in shapes() {
        let mut world = World::new(shape.clone(), 1);
        let at = world.host(0);
        world.start(at, |_| {});
        world.pass(SECOND);
        assert_eq!(world.masters(), [at], "{shape:?}");
        assert!(ups(&world) > 0, "{shape:?}: {:?}", world.events);
        assert_eq!(faults(&world, at), [], "{shape:?}: {:?}", world.events);
    }
}
