//! `sminfo`: shows or sets a subnet manager's SMInfo.

use std::ffi::OsString;
use std::process::ExitCode;

use serde_json::json;

use super::Tool;
use crate::ib::fields::subn::sm_info;
use crate::ib::number;
use crate::ib::options::{CommandLine, SMP_CLASSES, Spec, opt_arg};
use crate::ib::port::Port;
use crate::ib::report::{End, Outcome};
use crate::ib::smp;
use crate::output;

/// The tool.
pub const TOOL: Tool = Tool { name: "sminfo", about: "show or set a subnet manager's state", run };

const SPEC: Spec = Spec {
    program: TOOL.name,
    options: &[
        opt_arg("state", 's', "<0-3>", "set SM state"),
        opt_arg("priority", 'p', "<0-15>", "set SM priority"),
        opt_arg("activity", 'a', "<val>", "set activity count"),
    ],
    exclude: "sK",
    own: "",
    usage: "<sm_lid|sm_dr_path> [modifier]",
    examples: &[],
};

const STATES: &[&str] = &["SMINFO_NOTACT", "SMINFO_DISCOVER", "SMINFO_STANDBY", "SMINFO_MASTER"];
/// The default state to send: standby.
const STATE_SENT: u64 = 2;

fn run(args: &[OsString]) -> ExitCode {
    SPEC.main(args, work)
}

fn work(line: &CommandLine) -> Outcome<()> {
    let mut port = Port::open(&line.common, SMP_CLASSES)?;
    let to = match line.operands.first() {
        Some(text) => {
            let to = line.common.destination(&mut port, text)?;
            to.ok_or_else(|| End::failed(format!("can't resolve destination port {text}")))?
        }
        None => line.common.own_sm()?.ok_or_else(|| End::failed("can't resolve sm port (null)"))?,
    };
    let modifier = line.operands.get(1).map_or(0, |text| number::leading_decimal(text)) as u32;
    let told = |letter: char, otherwise: u64| line.arg(letter).map_or(otherwise, number::number);
    let mut data = [0; smp::DATA_LEN];
    sm_info::SM_ACTIVITY.set(&mut data, told('a', 0));
    sm_info::SM_PRIORITY.set(&mut data, told('p', 0));
    sm_info::SM_STATE.set(&mut data, told('s', STATE_SENT));
    let timeout_ms = line.common.timeout_ms.unwrap_or(0);
    let answer = match modifier {
        0 => port.smp_query_with(&to, smp::SM_INFO, 0, &data, timeout_ms),
        modifier => port.smp_set_within(&to, smp::SM_INFO, modifier, &data, timeout_ms),
    };
    let info = answer.map_err(|_| End::failed("query"))?;
    if line.common.json {
        output::print(&format!("{}\n", json(to.lid, &info)));
    } else {
        output::print(&text(to.lid, &info));
    }
    Ok(())
}

fn state(info: &smp::Data) -> (u64, &'static str) {
    let state = sm_info::SM_STATE.value(info);
    (state, STATES.get(state as usize).copied().unwrap_or("???"))
}

fn text(lid: u16, info: &smp::Data) -> String {
    let (number, state) = state(info);
    format!(
        "sminfo: sm lid {lid} sm guid 0x{:x}, activity count {} priority {} state {number} {state}\n",
        sm_info::SM_INFO_GUID.value(info),
        sm_info::SM_ACTIVITY.value(info),
        sm_info::SM_PRIORITY.value(info),
    )
}

fn json(lid: u16, info: &smp::Data) -> serde_json::Value {
    json!({
        "lid": lid,
        "guid": sm_info::SM_INFO_GUID.text(info),
        "activity_count": sm_info::SM_ACTIVITY.value(info),
        "priority": sm_info::SM_PRIORITY.value(info),
        "state": state(info).1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_is_printed_as_the_original_does() {
        let mut info = [0; smp::DATA_LEN];
        sm_info::SM_INFO_GUID.set(&mut info, 0x0002_c903_0a00_0001);
        sm_info::SM_ACTIVITY.set(&mut info, 244);
        sm_info::SM_PRIORITY.set(&mut info, 14);
        sm_info::SM_STATE.set(&mut info, 3);
        assert_eq!(
            text(1, &info),
            "sminfo: sm lid 1 sm guid 0x2c9030a000001, activity count 244 priority 14 state 3 SMINFO_MASTER\n"
        );
        sm_info::SM_STATE.set(&mut info, 9);
        assert!(text(1, &info).ends_with("state 9 ???\n"));
    }
}
