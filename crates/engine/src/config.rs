//! Options from the environment: `WEFT_FAULT`, `WEFT_PCAP`, `WEFT_LOOPBACK`, `WEFT_SHARE`, `WEFT_STRICT`, `WEFT_TRACE`,
//! `WEFT_RECORD` (and `WEFT_LOG`, see [`crate::log`]). The first open of a device reads them and fails on a value that it
//! cannot parse, so that a test that requests faults never runs without them. A program with rights that its caller lacks
//! (set-user-ID) ignores them.

use std::path::PathBuf;

use weft_ipc::FAULT_BYTES_MAX;
use weft_link::wrap::pcap::Capture;
use weft_link::{FAULTS_BYTES_MAX, FaultPlan};

use crate::error::EngineError;
use crate::share::Policy;

// The daemon shows what a program injects.
const _: () = assert!(FAULTS_BYTES_MAX <= FAULT_BYTES_MAX);

/// Returns the faults to inject.
pub fn faults() -> Result<FaultPlan, EngineError> {
    let invalid = |why| EngineError::new(EngineError::EINVAL, format!("WEFT_FAULT: {why}"));
    FaultPlan::parse(&text_of("WEFT_FAULT")?).map_err(|error| invalid(error.to_string()))
}

/// Returns the capture to write; `ib`: of InfiniBand packets.
pub fn capture(ib: bool) -> Result<Option<Capture>, EngineError> {
    let name = text_of("WEFT_PCAP")?;
    if name.is_empty() {
        return Ok(None);
    }
    Capture::create(&name, ib).map(Some).map_err(|error| {
        let errno = error.raw_os_error().unwrap_or(EngineError::EINVAL);
        EngineError::new(
            errno,
            format!("WEFT_PCAP={name}: the capture cannot be written: {error}; name a file in a directory that exists"),
        )
    })
}

/// Whether two processes of this host exchange packets, as over a network. Faults in packets, captures and strict mode imply
/// it.
pub fn loops_by_wire() -> Result<bool, EngineError> {
    let asks = |variable| text_of(variable).map(|text| !text.is_empty());
    match text_of("WEFT_LOOPBACK")?.as_str() {
        "wire" => Ok(true),
        "" | "auto" => Ok(faults()?.needs_packets() || asks("WEFT_PCAP")? || asks("WEFT_STRICT")?),
        other => Err(EngineError::new(EngineError::EINVAL, format!("WEFT_LOOPBACK: {other:?} is none of auto, wire"))),
    }
}

/// Whether registered memory may be shared with other processes.
pub fn sharing() -> Result<Policy, EngineError> {
    let text = text_of("WEFT_SHARE")?;
    Policy::parse(&text).map_err(|error| EngineError::new(EngineError::EINVAL, format!("WEFT_SHARE: {error}")))
}

/// Returns the seed of strict mode, if it is on.
pub fn strict() -> Result<Option<u64>, EngineError> {
    let text = text_of("WEFT_STRICT")?;
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = || {
        EngineError::new(EngineError::EINVAL, format!("WEFT_STRICT: {text:?} is no seed, a whole number of 64 bits"))
    };
    text.parse().map(Some).map_err(|_| wrong())
}

/// Returns the trace's destination and filter.
pub fn trace() -> Result<String, EngineError> {
    text_of("WEFT_TRACE")
}

/// Returns the directory of records, if there shall be one.
pub fn record() -> Option<PathBuf> {
    let name = std::env::var_os(weft_recorder::VARIABLE).filter(|name| !name.is_empty())?;
    (!weft_sys::process::gained_privilege()).then(|| name.into())
}

fn text_of(variable: &str) -> Result<String, EngineError> {
    if weft_sys::process::gained_privilege() {
        return Ok(String::new());
    }
    match std::env::var(variable) {
        Ok(text) => Ok(text),
        Err(std::env::VarError::NotPresent) => Ok(String::new()),
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(EngineError::new(EngineError::EINVAL, format!("{variable} is not text")))
        }
    }
}
