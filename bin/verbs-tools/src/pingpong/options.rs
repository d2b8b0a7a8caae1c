//! Options of the pingpong tools, with the originals' letters, long names and defaults.

use std::ffi::OsString;
use std::fmt::Write;

use super::device_choice::DeviceChoice;
use crate::getopt::{self, Opt, flag, number, value};

/// Properties that differ from tool to tool.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Its name.
    pub name: &'static str,
    /// The letters of its options; every tool also has `--system`.
    pub letters: &'static str,
    /// Default message size.
    pub size: usize,
    /// Default path MTU in bytes.
    pub mtu: u32,
    /// Default number of messages each way.
    pub iters: u32,
    /// Help lines that differ from the common ones: long name, line.
    pub help: &'static [(&'static str, &'static str)],
}

/// A parsed command line.
#[derive(Clone, Debug)]
pub struct Options {
    /// TCP port.
    pub port: u16,
    /// Device, port and GID index.
    pub device: DeviceChoice,
    /// Bytes of a message.
    pub size: usize,
    /// Path MTU, as `enum ibv_mtu`.
    pub mtu: u32,
    /// Number of receive requests to keep posted.
    pub rx_depth: u32,
    /// Messages each way.
    pub iters: u32,
    /// Sleep until the next event.
    pub events: bool,
    /// Register memory for on-demand paging.
    pub odp: bool,
    /// Register all memory for on-demand paging.
    pub iodp: bool,
    /// Prefetch pages.
    pub prefetch: bool,
    /// Use completions with timestamps.
    pub ts: bool,
    /// Check the received data.
    pub chk: bool,
    /// Use device memory.
    pub dm: bool,
    /// Send with `ibv_wr_*` instead of `ibv_post_send`.
    pub new_send: bool,
    /// Number of queue pairs.
    pub num_qp: u32,
    /// Number of clients that the server waits for.
    pub clients: u32,
    /// The server to connect to; `None` on the server.
    pub server: Option<String>,
}

/// An option; `SIZE` and `MTU` in its help line stand for the tool's defaults.
struct Known {
    letter: char,
    opt: Opt,
    help: &'static str,
}

/// Options by letter. `c` and `n` differ in ibv_xsrq_pingpong, which spells them `C` and `T` here.
const KNOWN: &[Known] = &[
    Known {
        letter: 'p',
        opt: value('p', "port"),
        help: "-p, --port=<port>      listen on/connect to port <port> (default 18515)",
    },
    Known {
        letter: 'd',
        opt: value('d', "ib-dev"),
        help: "-d, --ib-dev=<dev>     use IB device <dev> (default first device found)",
    },
    Known {
        letter: 'i',
        opt: value('i', "ib-port"),
        help: "-i, --ib-port=<port>   use port <port> of IB device (default 1)",
    },
    Known {
        letter: 's',
        opt: value('s', "size"),
        help: "-s, --size=<size>      size of message to exchange (default SIZE)",
    },
    Known { letter: 'm', opt: value('m', "mtu"), help: "-m, --mtu=<size>       path MTU (default MTU)" },
    Known { letter: 'q', opt: value('q', "num-qp"), help: "-q, --num-qp=<num>     number of QPs to use (default 16)" },
    Known {
        letter: 'r',
        opt: value('r', "rx-depth"),
        help: "-r, --rx-depth=<dep>   number of receives to post at a time (default 500)",
    },
    Known { letter: 'n', opt: value('n', "iters"), help: "-n, --iters=<iters>    number of exchanges (default 1000)" },
    Known {
        letter: 'C',
        opt: value('c', "clients"),
        help: "-c, --clients=<n>      number of clients (on server only, default 1)",
    },
    Known {
        letter: 'T',
        opt: value('n', "num_tests"),
        help: "-n, --num_tests=<n>    number of tests per client (default 5)",
    },
    Known { letter: 'l', opt: value('l', "sl"), help: "-l, --sl=<sl>          service level value" },
    Known { letter: 'e', opt: flag('e', "events"), help: "-e, --events           sleep on CQ events (default poll)" },
    Known { letter: 'g', opt: value('g', "gid-idx"), help: "-g, --gid-idx=<gid index> local port gid index" },
    Known { letter: 'o', opt: flag('o', "odp"), help: "-o, --odp\t\t    use on demand paging" },
    Known { letter: 'O', opt: flag('O', "iodp"), help: "-O, --iodp\t\t    use implicit on demand paging" },
    Known { letter: 'P', opt: flag('P', "prefetch"), help: "-P, --prefetch\t    prefetch an ODP MR" },
    Known { letter: 't', opt: flag('t', "ts"), help: "-t, --ts\t            get CQE with timestamp" },
    Known { letter: 'c', opt: flag('c', "chk"), help: "-c, --chk              validate received buffer" },
    Known { letter: 'j', opt: flag('j', "dm"), help: "-j, --dm\t            use device memory" },
    Known { letter: 'N', opt: flag('N', "new_send"), help: "-N, --new_send            use new post send WR API" },
];

fn known_of(spec: &Spec) -> impl Iterator<Item = &'static Known> + use<'_> {
    KNOWN.iter().filter(|known| spec.letters.contains(known.letter))
}

/// The help text.
pub fn usage(spec: &Spec) -> String {
    let name = spec.name;
    let mut out = format!(
        "Usage:\n  {name}            start a server and wait for connection\n  {name} <host>     connect to server at <host>\n\nOptions:\n"
    );
    for known in known_of(spec) {
        let own = spec.help.iter().find(|(long, _)| *long == known.opt.long);
        let line = own
            .map_or(known.help, |(_, line)| line)
            .replace("SIZE)", &format!("{})", spec.size))
            .replace("MTU)", &format!("{})", spec.mtu));
        let _ = writeln!(out, "  {line}");
    }
    out.push_str("      --system           use the system's libibverbs instead of Weft's\n");
    out
}

/// Parses a command line.
///
/// # Errors
/// The error message, if there is one; the help text should follow.
pub fn read(spec: &Spec, args: &[OsString]) -> Result<Options, Option<String>> {
    let mut opts: Vec<Opt> = known_of(spec).map(|known| known.opt).collect();
    opts.push(flag('\0', "system"));
    let parsed = getopt::parse(args, &opts).map_err(Some)?;
    let mut options = defaults(spec);
    for (name, text) in &parsed.options {
        apply(&mut options, name, text)?;
    }
    match parsed.operands.as_slice() {
        [] => {}
        [server] => options.server = Some(server.clone()),
        _ => return Err(None),
    }
    Ok(options)
}

fn defaults(spec: &Spec) -> Options {
    Options {
        port: 18515,
        device: DeviceChoice::default(),
        size: spec.size,
        mtu: mtu_to_enum(spec.mtu).unwrap_or(3),
        rx_depth: 500,
        iters: spec.iters,
        events: false,
        odp: false,
        iodp: false,
        prefetch: false,
        ts: false,
        chk: false,
        dm: false,
        new_send: false,
        num_qp: 16,
        clients: 1,
        server: None,
    }
}

fn apply(options: &mut Options, name: &str, text: &str) -> Result<(), Option<String>> {
    match name {
        "port" => options.port = within(name, text, 1, 65535)? as u16,
        "ib-dev" => options.device.name = Some(text.to_owned()),
        "ib-port" => options.device.port = within(name, text, 1, 255)? as u8,
        "size" => options.size = within(name, text, 1, 1 << 31)? as usize,
        "mtu" => {
            let bytes = within(name, text, 0, i64::from(u32::MAX))? as u32;
            options.mtu = mtu_to_enum(bytes).ok_or(None)?;
        }
        "rx-depth" => options.rx_depth = within(name, text, 1, 1 << 20)? as u32,
        "iters" | "num_tests" => options.iters = within(name, text, 1, i64::from(i32::MAX))? as u32,
        "sl" => options.device.sl = within(name, text, 0, 15)? as u8,
        "gid-idx" => options.device.gid_idx = u32::try_from(within(name, text, -1, i64::from(i32::MAX))?).ok(),
        "num-qp" => options.num_qp = within(name, text, 1, 1 << 16)? as u32,
        "clients" => options.clients = within(name, text, 1, 1 << 10)? as u32,
        "events" => options.events = true,
        "odp" => options.odp = true,
        "iodp" => (options.odp, options.iodp) = (true, true),
        "prefetch" => options.prefetch = true,
        "ts" => options.ts = true,
        "chk" => options.chk = true,
        "dm" => options.dm = true,
        "new_send" => options.new_send = true,
        _ => options.device.system = true,
    }
    Ok(())
}

fn within(name: &str, text: &str, least: i64, most: i64) -> Result<i64, Option<String>> {
    match number(text) {
        Some(n) if (least..=most).contains(&n) => Ok(n),
        _ => Err(Some(format!("--{name}={text}: must be a number from {least} to {most}"))),
    }
}

/// The `enum ibv_mtu` value of an MTU in bytes.
fn mtu_to_enum(bytes: u32) -> Option<u32> {
    [256, 512, 1024, 2048, 4096].iter().position(|&b| b == bytes).map(|at| at as u32 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RC: Spec =
        Spec { name: "ibv_rc_pingpong", letters: "pdismrnlegoOPtcjN", size: 4096, mtu: 1024, iters: 1000, help: &[] };
    const XSRQ: Spec =
        Spec { name: "ibv_xsrq_pingpong", letters: "pdismCTleog", size: 4096, mtu: 2048, iters: 5, help: &[] };

    fn run(spec: &Spec, line: &str) -> Result<Options, Option<String>> {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        read(spec, &args)
    }

    #[test]
    fn letters_mean_what_they_mean_in_each_tool() {
        let rc = run(&RC, "-d rxe0 -g 1 -n 10 -c -m 4096 10.0.0.1").unwrap();
        assert_eq!(
            (rc.device.name.as_deref(), rc.device.gid_idx, rc.iters, rc.chk, rc.mtu),
            (Some("rxe0"), Some(1), 10, true, 5)
        );
        assert_eq!(rc.server.as_deref(), Some("10.0.0.1"));
        let xsrq = run(&XSRQ, "-c 3 -n 7").unwrap();
        assert_eq!((xsrq.clients, xsrq.iters, xsrq.chk, xsrq.mtu), (3, 7, false, 4));
    }

    #[test]
    fn nonsense_is_refused() {
        for line in ["-m 1000", "a b", "-x", "-p 0", "-n 0", "-s x", "-i 0"] {
            assert!(run(&RC, line).is_err(), "{line}");
        }
    }

    #[test]
    fn the_help_names_each_option_once() {
        let text = usage(&RC);
        assert!(text.contains("\n  -s, --size=<size>      size of message to exchange (default 4096)\n"));
        assert!(text.contains("\n  -m, --mtu=<size>       path MTU (default 1024)\n"));
        assert_eq!(text.matches("--iters").count(), 1);
        assert!(!usage(&XSRQ).contains("--iters"));
    }
}
