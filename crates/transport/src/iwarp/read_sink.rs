//! The tagged buffer that the answer to a READ names.

use weft_wire::iwarp::Tagged;

use crate::sq::Wqe;

/// Returns the buffer that a Read Request names for its answer: the first element of its list, from which the answer's
/// offset counts through all of them. The peer repeats it and cannot choose another.
pub(super) fn read_sink(wqe: &Wqe) -> Tagged {
    wqe.sges.first().map_or(Tagged::new(0, 0), |sge| Tagged::new(sge.lkey, sge.addr))
}
