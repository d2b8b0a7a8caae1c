//! `weft nvme read`, `write` and `compare`: blocks of a connected namespace, by a controller of this command's own. The errors
//! are the target's, not those of the block device in between.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use weft_client::Which;
use weft_nvme::limits::QUEUE_ENTRIES_MAX;
use weft_nvme::{HostConfig, Operation, RequestFailure};
use weft_tool::{errln, errno};

use crate::host::{Driver, Target};
use crate::identity;
use crate::limits::COMMAND_BYTES_MAX;
use crate::registry::{ControllerState, Registry};

/// The only request of the command.
const REQUEST: u64 = 0;

/// Direction of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the namespace to a file.
    Read,
    /// From a file to the namespace.
    Write,
    /// The namespace is compared with a file.
    Compare,
}

impl Direction {
    fn name(self) -> &'static str {
        match self {
            Direction::Read => "read",
            Direction::Write => "write",
            Direction::Compare => "compare",
        }
    }
}

/// Options of `weft nvme read`, `write` and `compare`.
#[derive(Args, Debug)]
pub struct TransferArgs {
    /// Namespace, such as nvme0n1; `weft nvme list` shows those that are connected
    device: String,
    /// First block
    #[arg(short = 's', long, value_name = "LBA", default_value_t = 0)]
    start_block: u64,
    /// Number of blocks, less one
    #[arg(short = 'c', long, value_name = "N", default_value_t = 0)]
    block_count: u16,
    /// Bytes of data; fewer than the blocks have are rounded up
    #[arg(short = 'z', long, value_name = "BYTES")]
    data_size: u64,
    /// File with the data [default: standard input or output]
    #[arg(short = 'd', long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Complete only when the data survives a power failure
    #[arg(short = 'f', long)]
    force_unit_access: bool,
}

/// Transfers blocks.
///
/// # Errors
/// The device is not connected, the file cannot be used, or the target refuses.
pub fn run(args: &TransferArgs, direction: Direction) -> Result<()> {
    ensure!(args.data_size > 0, "--data-size is 0; it is the length of the data in bytes");
    let (controller, namespace, block_bytes) = find(&args.device)?;
    let length = (u64::from(args.block_count) + 1) * u64::from(block_bytes);
    ensure!(length.max(args.data_size) <= COMMAND_BYTES_MAX, "more than {COMMAND_BYTES_MAX} bytes at a time");
    if args.data_size < length {
        errln!("Rounding data size to fit block count ({length} bytes)");
    }
    let data = match direction {
        Direction::Read => Vec::new(),
        Direction::Write | Direction::Compare => input(args.data.as_deref(), length as usize)?,
    };
    let offset = args.start_block.checked_mul(block_bytes.into()).context("--start-block is too large")?;
    let operation = operation(direction, offset, length as u32, args.force_unit_access);
    let data = execute(&controller, namespace, operation, data)?;
    if direction == Direction::Read {
        ensure!(data.len() as u64 == length, "the target left {} of {length} bytes", data.len());
        let kept = data.get(..data.len().min(args.data_size as usize)).unwrap_or_default();
        output(args.data.as_deref(), kept)?;
    }
    errln!("{}: Success", direction.name());
    Ok(())
}

fn operation(direction: Direction, offset: u64, length: u32, durable: bool) -> Operation {
    match direction {
        Direction::Read => Operation::Read { offset, length },
        Direction::Write => Operation::Write { offset, length, durable },
        Direction::Compare => Operation::Compare { offset, length },
    }
}

/// Finds the controller of a namespace's device, and the size of its blocks.
fn find(device: &str) -> Result<(ControllerState, u32, u32)> {
    let name = device.strip_prefix("/dev/").unwrap_or(device);
    for controller in Registry::open()?.all() {
        let found = controller.namespaces.iter().find(|namespace| controller.namespace_device(namespace.id) == name);
        if let Some((id, block_bytes)) = found.map(|namespace| (namespace.id, namespace.block_bytes)) {
            return Ok((controller, id, block_bytes));
        }
    }
    bail!("no namespace `{device}` is connected; `weft nvme list` shows those that are, `weft nvme connect` connects")
}

/// Reads the data; zeros fill it up.
fn input(file: Option<&Path>, length: usize) -> Result<Vec<u8>> {
    let mut data = Vec::new();
    let most = length as u64;
    match file {
        Some(path) => {
            let name = || path.display().to_string();
            let file = File::open(path).map_err(|error| anyhow::anyhow!("{}: {}", name(), errno::text(&error)))?;
            file.take(most).read_to_end(&mut data).with_context(name)?
        }
        None => std::io::stdin().take(most).read_to_end(&mut data).context("standard input")?,
    };
    data.resize(length, 0);
    Ok(data)
}

fn output(file: Option<&Path>, data: &[u8]) -> Result<()> {
    match file {
        Some(path) => {
            let name = || path.display().to_string();
            let mut file =
                File::create(path).map_err(|error| anyhow::anyhow!("{}: {}", name(), errno::text(&error)))?;
            file.write_all(data).with_context(name)
        }
        None => {
            weft_tool::output::print_bytes(data);
            Ok(())
        }
    }
}

/// Executes an operation by a controller that lives as long. Any loss of the connection is an error.
fn execute(controller: &ControllerState, namespace: u32, operation: Operation, data: Vec<u8>) -> Result<Vec<u8>> {
    let host = identity::host(Some(&controller.host_nqn), Some(&controller.host_id))?;
    let which = if controller.system { Which::System } else { Which::Ours };
    let target = Target { which, address: controller.address.clone(), service: controller.service };
    let at = || format!("{}, port {}", target.address, target.service);
    let config = HostConfig {
        host,
        subsystem: controller.subsystem.clone(),
        io_queues: 1,
        queue_entries: QUEUE_ENTRIES_MAX,
        keep_alive: Duration::ZERO,
        reconnect_delay: Duration::from_secs(1),
        controller_loss: Some(Duration::ZERO),
    };
    let mut driver = Driver::new(&target, config).with_context(at)?;
    driver.wait_ready().with_context(at)?;
    driver.submit(REQUEST, namespace, operation, data);
    let result = loop {
        if let Some((_, result)) = driver.take_finished().pop() {
            break result.map(|data| data.to_bytes());
        }
        driver.wait()?;
    };
    let lost = driver.ended().map(ToString::to_string);
    driver.shutdown();
    while driver.ended().is_none() {
        driver.wait()?;
    }
    result.map_err(|failure| match (failure, lost) {
        (RequestFailure::Status(status), _) => anyhow::anyhow!("NVMe status: {status}"),
        (_, Some(lost)) => anyhow::anyhow!("{}: {lost}", at()),
        (failure, None) => anyhow::anyhow!("{}: {failure}", at()),
    })
}
