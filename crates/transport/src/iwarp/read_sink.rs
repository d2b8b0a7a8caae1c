//! The tagged buffer that the answer to a READ names.

use weft_wire::iwarp::Tagged;

use crate::sq::Wqe;

/// STag where no memory is meant: siw's choice, since some adapters treat zero in a special way.
pub(super) const NO_MEMORY: u32 = 1;

/// Returns the buffer that a Read Request names for its answer: the first element of its list, from which the answer's
/// offset counts through all of them. The peer repeats it and cannot choose another.
pub(super) fn read_sink(wqe: &Wqe) -> Tagged {
    wqe.sges.first().map_or(Tagged::new(NO_MEMORY, 0), |sge| Tagged::new(sge.lkey, sge.addr))
}
