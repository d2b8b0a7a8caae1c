//! The limit of a copy between processes that share nothing: process_vm_writev(2) and process_vm_readv(2).

use super::super::program::{Program, figure_of, number_before};
use super::super::room::{Room, own_words};
use super::super::unit::Unit;
use super::memcpy::{Buffer, SIZE_MAX, copy_for};
use anyhow::{Context, Result, bail, ensure};
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;
use std::io::{IoSlice, IoSliceMut, Write};
use std::time::Duration;

/// How long the target may take until it holds its buffer.
const HOLDS_WITHIN: Duration = Duration::from_secs(10);

/// A target that nobody ends ends by itself.
const HOLDS_FOR: Duration = Duration::from_secs(600);

/// What to copy.
#[derive(clap::Args)]
pub struct Options {
    /// The process that holds the other buffer.
    #[arg(long)]
    pid: i32,
    /// Where its buffer is.
    #[arg(long)]
    address: usize,
    /// Bytes in a buffer.
    #[arg(long)]
    size: usize,
    /// Out of the other process instead of into it.
    #[arg(long)]
    read: bool,
    /// How long.
    #[arg(long, default_value_t = 1)]
    seconds: u64,
}

/// What to hold.
#[derive(clap::Args)]
pub struct Target {
    /// Bytes in the buffer.
    #[arg(long)]
    size: usize,
}

/// Holds a buffer and tells where, until somebody ends it.
pub fn hold(options: &Target) -> Result<()> {
    let mut buffer = sized(options.size, 0)?;
    println!("pid {} address {}", std::process::id(), buffer.bytes().as_ptr().addr());
    std::io::stdout().flush()?;
    std::thread::sleep(HOLDS_FOR);
    // It lives until here.
    drop(buffer);
    Ok(())
}

/// Copies and prints bytes a second.
pub fn run(options: &Options) -> Result<()> {
    let size = options.size;
    let mut buffer = sized(size, 7)?;
    let (pid, remote) = (Pid::from_raw(options.pid), [RemoteIoVec { base: options.address, len: size }]);
    let speed = copy_for(Duration::from_secs(options.seconds), size, || {
        let copied = if options.read {
            process_vm_readv(pid, &mut [IoSliceMut::new(buffer.bytes())], &remote)
        } else {
            process_vm_writev(pid, &[IoSlice::new(buffer.bytes())], &remote)
        };
        let copied = copied.context("the kernel forbids copies between processes (Yama's ptrace_scope?)")?;
        ensure!(copied == size, "only {copied} of {size} bytes were copied");
        Ok(())
    })?;
    println!("{speed:.0} bytes/sec");
    Ok(())
}

fn sized(size: usize, fill: u8) -> Result<Buffer> {
    if !(1..=SIZE_MAX).contains(&size) {
        bail!("a size of {size} will not do: 1 to {SIZE_MAX} will");
    }
    Ok(Buffer::new(size, fill))
}

/// The limit of a copy of this size between processes, beside ours.
#[derive(Clone, Copy, Debug)]
pub struct ProcessVm {
    pub size: u64,
    pub read: bool,
}

impl Program for ProcessVm {
    fn name(&self) -> String {
        if self.read { "process_vm_readv" } else { "process_vm_writev" }.to_owned()
    }

    fn command(&self, _seconds: u32) -> String {
        let read = if self.read { " --read" } else { "" };
        format!("xtask bench-peer process-vm --size {}{read} --pid PID --address ADDRESS", self.size)
    }

    fn unit(&self) -> Unit {
        Unit::BytesPerSecond
    }

    fn measure(&self, room: &Room) -> Result<f64> {
        let mut target = room.serve(&own_words(&format!("process-vm-target --size {}", self.size))?, &[])?;
        target.wait_until(HOLDS_WITHIN, |p| read_target(&p.text()).is_some());
        let text = target.text();
        let (pid, address) = read_target(&text).with_context(|| format!("no target: {text}"))?;
        let read = if self.read { " --read" } else { "" };
        let arguments = format!("process-vm --size {}{read} --pid {pid} --address {address}", self.size);
        let copier = room.connect(&own_words(&arguments)?, &[])?;
        figure_of(copier, room.seconds, |text| number_before(text, "bytes/sec"))
    }
}

/// The process and the address in a target's line, once it is whole.
fn read_target(text: &str) -> Option<(i32, usize)> {
    let line = text.split_inclusive('\n').find(|line| line.starts_with("pid ") && line.ends_with('\n'))?;
    let mut words = line.split_whitespace().skip(1).step_by(2);
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_line_of_the_target_is_none() {
        assert_eq!(read_target("pid 4242 address 140198312345600\n"), Some((4242, 140_198_312_345_600)));
        assert_eq!(read_target("pid 4242 address 1401983"), None);
        assert_eq!(read_target(""), None);
    }
}
