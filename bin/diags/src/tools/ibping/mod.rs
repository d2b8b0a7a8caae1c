//! `ibping`: checks whether a host answers, and how quickly; client and server.

mod statistics;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use self::statistics::Statistics;
use super::Tool;
use crate::ib::address::PortId;
use crate::ib::format::text_until_zero;
use crate::ib::mad::{CLASS_PING, CLASS_SUBN_ADM, GET, OUI_OPENIB};
use crate::ib::options::{CommandLine, Spec, opt, opt_arg};
use crate::ib::port::Port;
use crate::ib::report::{End, Outcome};
use crate::ib::vendor::Call;
use crate::ib::{host, number};
use crate::output;

/// The tool.
pub const TOOL: Tool = Tool { name: "ibping", about: "check whether a host on the subnet answers", run };

const SPEC: Spec = Spec {
    program: TOOL.name,
    options: &[
        opt_arg("count", 'c', "<num>", "stop after count packets"),
        opt("flood", 'f', "flood destination"),
        opt_arg("oui", 'o', "<val>", "use specified OUI number"),
        opt("Server", 'S', "start in server mode"),
    ],
    exclude: "DKy",
    own: "",
    usage: "<dest lid|guid>",
    examples: &[],
};

/// Pause between two requests.
const PAUSE: Duration = Duration::from_secs(1);
/// Maximum bytes of the name in an answer.
const NAME_LEN_MAX: usize = 215;

fn run(args: &[OsString]) -> ExitCode {
    SPEC.main(args, work)
}

fn work(line: &CommandLine) -> Outcome<()> {
    let serves = line.has('S');
    if line.operands.is_empty() && !serves {
        return Err(End::Usage);
    }
    let oui = line.arg('o').map_or(OUI_OPENIB, |text| number::number(text) as u32);
    let mut port = Port::open(&line.common, &[CLASS_SUBN_ADM])?;
    if serves {
        let cannot = |_| End::failed(format!("can't serve class {CLASS_PING} on this port"));
        port.register_server(CLASS_PING, 0, oui).map_err(cannot)?;
        return serve(&port);
    }
    let cannot = |_| End::failed(format!("can't register ping class {CLASS_PING} on this port"));
    port.register_client(CLASS_PING, 0).map_err(cannot)?;
    let address = &line.operands[0];
    let to = line.common.destination(&mut port, address)?;
    let to = to.ok_or_else(|| End::failed(format!("can't resolve destination port {address}")))?;
    ping(line, &mut port, &to, oui);
    Ok(())
}

/// Answers requests until the port fails.
fn serve(port: &Port) -> Outcome<()> {
    let mut name = host::name_and_domain().into_bytes();
    name.truncate(NAME_LEN_MAX);
    name.push(0);
    // An error also ends the original's loop and program silently.
    while let Ok(question) = port.recv(-1) {
        if question.status() == 0 {
            // The requester has left, or sends its request again.
            let _ = port.respond(&question, &name);
        }
    }
    Ok(())
}

/// Sends the requested number of requests, or until a signal comes; then prints the statistics.
fn ping(line: &CommandLine, port: &mut Port, to: &PortId, oui: u32) {
    let is_flood = line.has('f');
    let count = line.arg('c').map_or(u32::MAX, |text| number::number(text) as u32);
    let statistics = Arc::new(Mutex::new(Statistics::new(*to, Instant::now())));
    let is_json = line.common.json;
    statistics::report_on_signal(Arc::clone(&statistics), is_json);
    let lock = || statistics.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for _ in 0..count {
        lock().sent += 1;
        let start = Instant::now();
        let call = Call { class: CLASS_PING, method: GET, oui, ..Call::default() };
        match port.vendor_call(to, &call) {
            Err(_) => lock().lost += 1,
            Ok(data) => {
                let (time, name) = (start.elapsed(), text_until_zero(&data));
                if !is_flood && !is_json {
                    output::print(&format!("Pong from {name} ({to}): time {} ms\n", statistics::ms(time)));
                }
                lock().count(name, time);
            }
        }
        if !is_flood {
            std::thread::sleep(PAUSE);
        }
    }
    lock().print(Instant::now(), is_json);
}
