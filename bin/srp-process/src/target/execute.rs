//! SCSI's operations on a logical unit's store.

use std::io;

use weft_rdma_service::{Data, Store, TurnBudget};
use weft_srp::scsi::{Fault, Operation};

/// Executes an operation. A Read leaves its data in the memory.
///
/// # Errors
/// The fault for the initiator.
pub fn execute(store: &Store, operation: &Operation, data: &Data) -> Result<(), Fault> {
    let (done, fault) = match operation {
        Operation::Read { offset, length, durable } => {
            let flushed = flush(store, *durable);
            (flushed.and_then(|()| store.read(*offset, *length as usize, data)), Fault::Read)
        }
        Operation::Write { offset, length, durable } => {
            let written = store.write(*offset, *length as usize, data);
            (written.and_then(|()| flush(store, *durable)), Fault::Write)
        }
        Operation::Verify { offset, length } => (store.verify(*offset, *length as usize), Fault::Read),
        Operation::Compare { offset, length } => match store.compare(*offset, *length as usize, data) {
            Ok(false) => return Err(Fault::Miscompare),
            done => (done.map(drop), Fault::Read),
        },
        Operation::Repeat { offset, length, block } => (store.repeat(*offset, *length, block), Fault::Write),
        Operation::WriteZeroes { offset, length, deallocate } => {
            (store.zero(*offset, *length, *deallocate), Fault::Write)
        }
        Operation::Deallocate(ranges) => {
            let freed = ranges.iter().try_for_each(|(offset, length)| store.free(*offset, *length));
            (freed, Fault::Write)
        }
        Operation::Flush => (store.flush(), Fault::Write),
    };
    done.map_err(|error| {
        store.complain("weft srp target", &error);
        if Store::is_full(&error) { Fault::NoSpace } else { fault }
    })
}

/// Executes a short operation if that needs no waiting. Returns whether it has; [`execute`] does otherwise.
pub fn execute_at_once(store: &Store, operation: &Operation, data: &Data, budget: &mut TurnBudget) -> bool {
    match operation {
        Operation::Read { offset, length, durable: false } => {
            store.read_at_once(*offset, *length as usize, data, budget)
        }
        Operation::Write { offset, length, durable: false } => {
            store.write_at_once(*offset, *length as usize, data, budget)
        }
        _ => false,
    }
}

fn flush(store: &Store, durable: bool) -> io::Result<()> {
    if durable { store.flush() } else { Ok(()) }
}
