//! A consumer takes whole slots in order, also slots that are used again.

use loom::sync::Arc;
use loom::thread;
use weft_sys::shared::Shared;

use crate::{Consumer, Counter, Layout, Producer, Stamps};

const SLOTS: u64 = 2;
const COUNT: u64 = 4;
const LAYOUT: Layout = Layout { slots_at: 192, taken_at: 128 };

fn memory() -> Arc<Shared> {
    Arc::new(Shared::private(192 + SLOTS as usize * 64).unwrap())
}

/// Writes bytes in which loom finds races.
fn write(memory: &Shared, at: usize, value: u64) {
    memory.write(at, 8, |to| {
        // SAFETY: the memory has room for a word there.
        unsafe { to.cast::<u64>().write_unaligned(value) };
    });
}

fn read(memory: &Shared, at: usize) -> u64 {
    // SAFETY: the memory has a word there.
    memory.read(at, 8, |from| unsafe { from.cast::<u64>().read_unaligned() })
}

#[test]
fn loom_counted_slots_arrive_whole_and_in_order() {
    loom::model(|| {
        let memory = memory();
        let theirs = memory.clone();
        let producer = thread::spawn(move || {
            let mut producer = Producer::<Counter, SLOTS, 8>::new(LAYOUT, Counter::at(0));
            for value in 0..COUNT {
                while producer.has_room(&theirs, 1) != Ok(true) {
                    thread::yield_now();
                }
                write(&theirs, producer.slot_at(), value);
                producer.publish(&theirs, 1);
            }
        });
        let mut consumer = Consumer::<Counter, SLOTS, 8>::new(LAYOUT, Counter::at(0));
        for value in 0..COUNT {
            while consumer.available(&memory) == Ok(0) {
                thread::yield_now();
            }
            assert_eq!(read(&memory, consumer.slot_at()), value);
            consumer.take(&memory, 1);
        }
        producer.join().unwrap();
    });
}

#[test]
fn loom_stamped_slots_arrive_whole_and_in_order() {
    loom::model(|| {
        let (memory, stamps) = (memory(), Stamps::between(3, 4));
        let theirs = memory.clone();
        let producer = thread::spawn(move || {
            let mut producer = Producer::<Stamps, SLOTS, 64>::new(LAYOUT, stamps);
            for value in 0..COUNT {
                while producer.has_room(&theirs, 1) != Ok(true) {
                    thread::yield_now();
                }
                write(&theirs, producer.slot_at() + 56, value);
                producer.publish(&theirs, 1, [value; 6]);
            }
        });
        let mut consumer = Consumer::<Stamps, SLOTS, 64>::new(LAYOUT, stamps);
        for value in 0..COUNT {
            let head = loop {
                match consumer.head(&memory) {
                    Some(head) => break head,
                    None => thread::yield_now(),
                }
            };
            assert!(head == [value; 6] && consumer.has_slot(&memory));
            assert_eq!(read(&memory, consumer.slot_at() + 56), value);
            consumer.take(&memory, 1);
        }
        producer.join().unwrap();
    });
}
