//! QEMU's command line: a small machine without KVM, booted from an ELF kernel, with one network card on a tap.

use super::agent;
use super::kernel::Kernel;

/// The emulator.
pub const QEMU: &str = "qemu-system-x86_64";

/// The largest MTU that the guest's card takes.
pub const MTU_MAX: u32 = 9000;

/// Memory, in MiB: 192 are too few to boot, and with Weft and its symbols in the image even 512 are.
const MEMORY_MIB: u32 = 1024;

/// On a single processor, two polling programs would take turns of 4 ms.
const PROCESSORS: u32 = 2;

/// Kernel command line: skips mitigations and self-tests, ends the machine on a crash, and has entropy at once.
const KERNEL_WORDS: &str = "console=ttyS0 quiet panic=-1 oops=panic mitigations=off nokaslr audit=0 apparmor=0 \
    tsc=reliable no_timer_check clocksource=tsc rcupdate.rcu_expedited=1 random.trust_cpu=on cryptomgr.notests \
    net.ifnames=0 printk.devkmsg=on";

/// The card does no checksum or segmentation offload: captures on the tap show the packets on the wire.
const OFFLOADS_OFF: &str = "csum=off,gso=off,guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ufo=off,\
    host_tso4=off,host_tso6=off,host_ufo=off,mrg_rxbuf=on";

/// Destinations of the machine's serial lines.
#[derive(Clone, Copy, Debug)]
pub enum Lines<'a> {
    /// The control channel on QEMU's standard input and output, the console to a file.
    Control {
        /// The console's file.
        console: &'a str,
    },
    /// An interactive terminal on the console.
    Terminal,
}

/// Returns the command line of a machine.
pub fn words(kernel: &Kernel, archive: &str, tap: &str, lines: Lines<'_>) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut add = |text: &str| words.extend(text.split_whitespace().map(str::to_owned));
    // Emulated carry-less multiplication is slower than a table, so no newer processor than this one.
    add(&format!("{QEMU} -M q35 -accel tcg,thread=multi,tb-size=256 -cpu qemu64,+rdrand"));
    add(&format!("-smp {PROCESSORS} -m {MEMORY_MIB} -nodefaults -no-user-config -display none -no-reboot"));
    add(&format!("-device isa-debug-exit,iobase={:#x},iosize=4", agent::EXIT_PORT));
    add(&format!("-netdev tap,id=net,ifname={tap},script=no,downscript=no,vhost=off"));
    add(&format!("-device virtio-net-pci,netdev=net,mac=52:54:00:77:00:02,romfile=,host_mtu={MTU_MAX},{OFFLOADS_OFF}"));
    match lines {
        Lines::Control { console } => {
            add(&format!("-serial file:{console} -monitor none -device virtio-serial-pci"));
            add("-chardev stdio,id=control,signal=off -device virtserialport,chardev=control,name=weft.control");
        }
        Lines::Terminal => add("-serial mon:stdio"),
    }
    let shell = if matches!(lines, Lines::Terminal) { agent::SHELL_WORD } else { "" };
    words.extend(["-kernel".to_owned(), kernel.image.display().to_string()]);
    words.extend(["-initrd".to_owned(), archive.to_owned()]);
    words.extend(["-append".to_owned(), format!("{KERNEL_WORDS} {shell}")]);
    words
}
