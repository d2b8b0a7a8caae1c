//! `cargo xtask vm`: the guest that tests run against, for interactive use: `vm shell`, or `vm -- rdma link`; and
//! `vm siw`, which builds Linux's siw for it.
//!
//! The guest's card is connected to a tap in an unnamed network namespace, which ends with the guest; so nothing
//! remains, however this ends.

use crate::{cargo, packages};
use anyhow::{Context, Result, bail};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;
use weft_interop::guest::siw::{self, Build};
use weft_interop::guest::{self, Driver, Guest, Place};
use weft_interop::product;

/// Options of the guest.
#[derive(clap::Args)]
pub struct Options {
    /// Set the MTU of the cable between host and guest.
    #[arg(long, default_value_t = 1500)]
    mtu: u32,
    /// Give the guest this driver; `siw-stock` is siw without the fix for its lost first FPDUs.
    #[arg(long, value_enum, default_value_t = Drivers::Rxe)]
    driver: Drivers,
    /// `shell`, or a command for the guest, or `siw` to build siw.ko for the guest's kernel (155 MB to fetch).
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, default_value = "shell")]
    words: Vec<String>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Drivers {
    Rxe,
    Siw,
    SiwStock,
}

impl From<Drivers> for Driver {
    fn from(drivers: Drivers) -> Driver {
        match drivers {
            Drivers::Rxe => Driver::Rxe,
            Drivers::Siw => Driver::Siw(Build::Fixed),
            Drivers::SiwStock => Driver::Siw(Build::Stock),
        }
    }
}

/// Addresses of the ends of the cable: the tests use the same.
const HOST: [&str; 2] = ["10.77.0.1/24", "fd77::1/64"];
const GUEST: [&str; 2] = ["10.77.0.2/24", "fd77::2/64"];
const TAP: &str = "eth0";

/// Base of a shell's exit status for a program that a signal ended.
const BY_SIGNAL: i32 = 128;
/// Exit status if the guest or the emulator died.
const GUEST_DIED: i32 = 125;

/// Boots, runs the command, and exits with its status.
pub fn run(options: &Options) -> Result<()> {
    if !(1280..=guest::machine::MTU_MAX).contains(&options.mtu) {
        bail!("MTU {} is out of range; it must be 1280 to {}", options.mtu, guest::machine::MTU_MAX);
    }
    packages::programs()?;
    packages::kernel();
    if matches!(options.words.as_slice(), [word] if word == "siw") {
        return siw::build(&guest::kernel::find()?);
    }
    let driver = Driver::from(options.driver);
    let obstacle = if driver == Driver::Rxe { guest::obstacle() } else { siw::obstacle() };
    if let Some(why) = obstacle {
        bail!("cannot run a guest: {why}");
    }
    cargo::run(&["build", "-q", "-p", "weft-interop", "--bin", "weft-guest"], &[])?;
    let agent = product::target().join("debug/weft-guest");
    let place = place(options.mtu);
    let code = match options.words.as_slice() {
        [word] if word == "shell" => shell(&place, driver, &agent, options.mtu)?,
        words => command(&place, driver, &agent, options.mtu, words)?,
    };
    if code != 0 {
        std::process::exit(code);
    }
    Ok(())
}

/// Creates a namespace that lasts as long as its processes, with a tap whose other end is the guest's card.
fn place(mtu: u32) -> Place {
    let mut script = format!("ip link set lo up && ip tuntap add {TAP} mode tap && ip link set {TAP} mtu {mtu} up");
    for address in HOST {
        let nodad = if address.contains(':') { "nodad" } else { "" };
        script += &format!(" && ip addr add {address} dev {TAP} {nodad}");
    }
    script += " && exec \"$@\"";
    let unshare = if rustix::process::geteuid().is_root() { "-n" } else { "-Urn" };
    let enter = ["unshare", unshare, "sh", "-c", &script, "sh"].map(str::to_owned).to_vec();
    Place { enter, tap: TAP.to_owned() }
}

fn shell(place: &Place, driver: Driver, agent: &Path, mtu: u32) -> Result<i32> {
    let code = guest::shell(place, driver, agent, &GUEST, mtu, |pid| {
        eprintln!("== the host's end of the cable: nsenter -t {pid} -n (ctrl-a x ends the guest at once)\n");
    })?;
    Ok(code.map_or(0, i32::from))
}

fn command(place: &Place, driver: Driver, agent: &Path, mtu: u32, words: &[String]) -> Result<i32> {
    let guest = Guest::boot(place, driver, agent)?;
    guest.configure(&GUEST, mtu)?;
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let program = guest.start(&words);
    program.follow(&mut std::io::stdout()).context("cannot write the guest's output")?;
    let ended = program.wait(Duration::ZERO);
    let Some(status) = ended.status else {
        eprintln!("the guest died; its console said\n{}", guest.console());
        return Ok(GUEST_DIED);
    };
    Ok(status.code().unwrap_or_else(|| BY_SIGNAL + status.signal().unwrap_or(0)))
}
