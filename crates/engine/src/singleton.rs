//! The one engine of a process. A forked child gets another one, in the next entry of a list: a thread that the child
//! does not have may have locked the parent's.

use std::sync::OnceLock;

use parking_lot::Mutex;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::fork;

/// Maximum fork depth at which a process may use devices.
const FORK_DEPTH_MAX: usize = 256;

struct Place {
    engine: OnceLock<Box<Engine>>,
    making: Mutex<()>,
}

static PLACES: [Place; FORK_DEPTH_MAX] =
    [const { Place { engine: OnceLock::new(), making: Mutex::new(()) } }; FORK_DEPTH_MAX];

/// Returns the engine of this process; the first call makes it and connects to the daemon. An error is not kept: the
/// next call tries again.
///
/// # Errors
/// The daemon cannot be reached or started, or is of another version.
pub fn engine() -> Result<&'static Engine, EngineError> {
    fork::watch();
    let place = PLACES.get(fork::depth()).ok_or_else(|| {
        EngineError::new(EngineError::ENODEV, "too many forks in a row; execute a program anew to use devices")
    })?;
    if let Some(engine) = place.engine.get() {
        return Ok(engine);
    }
    let _making = place.making.lock();
    if let Some(engine) = place.engine.get() {
        return Ok(engine);
    }
    let engine = Engine::connect()?;
    Ok(place.engine.get_or_init(|| Box::new(engine)))
}

/// Makes a regular exit of the process flush everything that still waits to be sent.
pub fn flush_at_exit() {
    fn flush() {
        if let Some(engine) = PLACES.get(fork::depth()).and_then(|place| place.engine.get()) {
            engine.flush_in_time();
        }
    }
    if let Err(error) = weft_sys::exit::at_exit(flush) {
        crate::log::note(&format!("acknowledgements may be lost at the end: {error}"));
    }
}
