//! `weft check`: each planted misuse is found, and its correct twin is clean; third-party programs are clean; the command's
//! options do as its help says. `WEFT_ALL=1` runs all third-party programs, otherwise a sample of them.

#[path = "check/clean.rs"]
mod clean;
#[path = "check/command.rs"]
mod command;
#[path = "check/misuse.rs"]
mod misuse;
#[path = "check/reports.rs"]
mod reports;
