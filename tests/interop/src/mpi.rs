//! Weft's MPI program, which compares all data that it moves, under MPI implementations.

use anyhow::{Result, ensure};
use std::process::Command;
use std::time::Duration;

use crate::{Lab, Side, Who};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/applications_calls/mpi.c");
/// Time limit of the program.
const LIMIT: Duration = Duration::from_secs(30);

/// Compiles Weft's MPI program with an implementation's compiler. Returns the program's path.
pub fn compile(lab: &Lab, compiler: &str) -> Result<String> {
    let program = lab.file(compiler).with_extension("mpi").display().to_string();
    let status = Command::new(compiler).args(["-O1", "-Wall", "-Werror", "-o", &program, SOURCE]).status()?;
    ensure!(status.success(), "mpi.c does not compile");
    Ok(program)
}

/// Runs it under Open MPI: `layer` are options of mpirun, `way` are variables, of which one selects the transport.
pub fn open_mpi(lab: &Lab, who: Who, layer: &str, way: &str, processes: usize, program: &str) -> Result<()> {
    let side: &Side = lab.client();
    let devices = format!("UCX_NET_DEVICES={}:1", lab.device(side)?.name);
    // Session files need a place of their own, and home must be writable by an ordinary user.
    let place = lab.file(&format!("mpi-{who:?}")).display().to_string();
    let count = processes.to_string();
    let (home, temporary) = (format!("HOME={place}"), format!("TMPDIR={place}"));
    let made = lab.start_bare(side, who, &["mkdir", "-p", &place])?.wait(LIMIT);
    ensure!(made.ok(), "{}", made.report());
    let root = ["OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"];
    let way: Vec<_> = way.split_whitespace().collect();
    let before = [&["env", &home, &temporary, &devices], &root[..], &way, &["mpirun.openmpi"]].concat();
    let layer: Vec<_> = layer.split_whitespace().collect();
    // Only the selected transport, and no remote shell, which would have to be installed.
    let options = ["--oversubscribe", "--mca", "plm", "isolated", "--mca", "btl", "self", "-n", &count];
    let ended = lab.run(side, who, &[], &[&before[..], &options, &layer, &[program]].concat())?.success()?;
    ensure!(ended.text.contains(&format!("all {processes} right")), "{}", ended.report());
    Ok(())
}
