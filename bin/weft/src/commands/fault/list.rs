//! `weft fault list`.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use weft_ipc::{FaultEntry, FaultTarget, Spawn};
use weft_tool::fabric::spell;

use super::session::connect;
use crate::{outln, output};

/// Time in which processes report the latest strikes.
const REPORTS_WITHIN: Duration = Duration::from_millis(100);

/// Prints the faults.
pub fn run(as_json: bool) -> Result<(), String> {
    let mut client = connect(Spawn::Never)?;
    let mut faults = client.list_faults().map_err(spell)?;
    if !faults.is_empty() {
        client.refresh_ledgers().map_err(spell)?;
        std::thread::sleep(REPORTS_WITHIN);
        faults = client.list_faults().map_err(spell)?;
    }
    match as_json {
        true => outln!("{}", faults.iter().map(value).collect::<Value>()),
        false if faults.is_empty() => outln!("no faults; `weft fault add SPEC` adds one"),
        false => output::print(&table(&faults)),
    }
    Ok(())
}

/// Returns the programs that a fault concerns.
fn programs(target: &FaultTarget) -> String {
    match target {
        FaultTarget::All => "all".to_owned(),
        FaultTarget::Pid(pid) => format!("pid {pid}"),
        FaultTarget::Command(name) => name.clone(),
    }
}

fn table(faults: &[FaultEntry]) -> String {
    let mut text = format!("{:>6} {:>10} {:>9}  {:<16} FAULT\n", "NUMBER", "STRUCK", "PROCESSES", "PROGRAMS");
    for fault in faults {
        let FaultEntry { number, struck, processes, target, spec, without_packets, .. } = fault;
        let note = match without_packets {
            0 => String::new(),
            count => format!("  (no effect on {count}: no packets)"),
        };
        let _ = writeln!(text, "{number:>6} {struck:>10} {processes:>9}  {:<16} {spec}{note}", programs(target));
    }
    text
}

fn value(fault: &FaultEntry) -> Value {
    json!({
        "number": fault.number,
        "struck": fault.struck,
        "processes": fault.processes,
        "without_packets": fault.without_packets,
        "programs": programs(&fault.target),
        "uid": fault.uid,
        "spec": fault.spec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_for_each_fault() {
        let fault = |number, target, without_packets| FaultEntry {
            number,
            spec: "loss=1%".into(),
            target,
            uid: 1000,
            processes: 2,
            without_packets,
            struck: 34,
        };
        let faults = [fault(101, FaultTarget::Command("ib_write_bw".into()), 0), fault(102, FaultTarget::Pid(77), 1)];
        let expected = "NUMBER     STRUCK PROCESSES  PROGRAMS         FAULT
   101         34         2  ib_write_bw      loss=1%
   102         34         2  pid 77           loss=1%  (no effect on 1: no packets)
";
        assert_eq!(table(&faults), expected);
        assert_eq!(value(&faults[1])["programs"], "pid 77");
    }
}
