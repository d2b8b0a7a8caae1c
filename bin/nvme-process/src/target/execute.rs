//! NVMe's operations on a namespace's store, and their failures as NVMe names them.

use std::io;

use weft_nvme::{Operation, Status};
use weft_rdma_service::{Data, Store, TurnBudget};

/// Executes an operation. A Read leaves its data in the memory.
///
/// # Errors
/// The status for the host.
pub fn execute(store: &Store, operation: &Operation, data: &Data) -> Result<(), Status> {
    let (done, fault) = match operation {
        Operation::Read { offset, length } => (store.read(*offset, *length as usize, data), Status::READ_ERROR),
        Operation::Write { offset, length, durable } => {
            let written = store.write(*offset, *length as usize, data);
            (written.and_then(|()| flush(store, *durable)), Status::WRITE_FAULT)
        }
        Operation::Compare { offset, length } => match store.compare(*offset, *length as usize, data) {
            Ok(false) => return Err(Status::COMPARE_FAILURE.final_one()),
            done => (done.map(drop), Status::READ_ERROR),
        },
        Operation::WriteZeroes { offset, length, deallocate, durable } => {
            let zeroed = store.zero(*offset, *length, *deallocate);
            (zeroed.and_then(|()| flush(store, *durable)), Status::WRITE_FAULT)
        }
        Operation::Deallocate(ranges) => {
            let freed = ranges.iter().try_for_each(|(offset, length)| store.free(*offset, *length));
            (freed, Status::WRITE_FAULT)
        }
        Operation::Flush => (store.flush(), Status::WRITE_FAULT),
    };
    done.map_err(|error| {
        store.complain("weft nvme target", &error);
        if Store::is_full(&error) { Status::CAPACITY_EXCEEDED } else { fault }
    })
}

/// Executes a short operation if that needs no waiting. Returns whether it has; [`execute`] does otherwise.
pub fn execute_at_once(store: &Store, operation: &Operation, data: &Data, budget: &mut TurnBudget) -> bool {
    match operation {
        Operation::Read { offset, length } => store.read_at_once(*offset, *length as usize, data, budget),
        Operation::Write { offset, length, durable: false } => {
            store.write_at_once(*offset, *length as usize, data, budget)
        }
        _ => false,
    }
}

fn flush(store: &Store, durable: bool) -> io::Result<()> {
    if durable { store.flush() } else { Ok(()) }
}
