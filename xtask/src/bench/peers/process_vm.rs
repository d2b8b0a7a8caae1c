//! The limit of a copy between processes that share no memory: process_vm_writev(2) and process_vm_readv(2).

use super::super::program::{Program, figure_of, number_before};
use super::super::room::{Room, own_words};
use super::super::unit::Unit;
use super::memcpy::{Buffer, SIZE_MAX, copy_for};
use anyhow::{Context, Result, bail, ensure};
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;
use std::io::{IoSlice, IoSliceMut, Write};
use std::time::Duration;

/// Time limit for the target to prepare its buffer.
const HOLDS_WITHIN: Duration = Duration::from_secs(10);

/// Time after which a target exits by itself.
const HOLDS_FOR: Duration = Duration::from_secs(600);

/// Options of the copy.
#[derive(clap::Args)]
pub struct Options {
    /// PID of the process that holds the other buffer.
    #[arg(long)]
    pid: i32,
    /// Address of its buffer.
    #[arg(long)]
    address: usize,
    /// Bytes in a buffer.
    #[arg(long)]
    size: usize,
    /// Copy out of the other process instead of into it.
    #[arg(long)]
    read: bool,
    /// Run time in seconds.
    #[arg(long, default_value_t = 1)]
    seconds: u64,
}

/// Options of the target.
#[derive(clap::Args)]
pub struct Target {
    /// Bytes in the buffer.
    #[arg(long)]
    size: usize,
}

/// Holds a buffer and prints its address, until the process is killed.
pub fn hold(options: &Target) -> Result<()> {
    let mut buffer = sized(options.size, 0)?;
    println!("pid {} address {}", std::process::id(), buffer.bytes().as_ptr().addr());
    std::io::stdout().flush()?;
    std::thread::sleep(HOLDS_FOR);
    // The buffer must live until here.
    drop(buffer);
    Ok(())
}

/// Copies, and prints bytes per second.
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
        bail!("size {size} is out of range; it must be 1 to {SIZE_MAX} bytes");
    }
    Ok(Buffer::new(size, fill))
}

/// A copy of this size between processes as a limit.
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

/// Reads the process and the address from a target's line, once it is complete.
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
