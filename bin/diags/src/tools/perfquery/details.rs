//! The detail attributes besides the counters, one per option.

use serde_json::json;

use super::session::{MASK, Session};
use crate::ib::field::{self, Field};
use crate::ib::fields::perf::{self, extended_speeds, samples_control};
use crate::ib::fields::subn::port_info_extended;
use crate::ib::mad::SET;
use crate::ib::pma;
use crate::ib::port_info;
use crate::ib::report::{End, Outcome, warn};
use crate::ib::smp;

/// An attribute: its option, its name, its ID, and its fields after the two selections.
type Detail = (char, &'static str, u16, &'static [Field]);

const DETAILS: &[Detail] = &[
    ('X', "PortXmitDataSL", pma::XMIT_DATA_SL, &perf::XMIT_DATA_SL),
    ('S', "PortRcvDataSL", pma::RCV_DATA_SL, &perf::RCV_DATA_SL),
    ('D', "PortXmitDiscardDetails", pma::XMIT_DISCARD_DETAILS, perf::XMIT_DISCARD_DETAILS),
    ('E', "PortRcvErrorDetails", pma::RCV_ERROR_DETAILS, perf::RCV_ERROR_DETAILS),
    ('T', "", pma::EXTENDED_SPEEDS, &[]),
    ('\u{1}', "PortOpRcvCounters", pma::OP_RCV_COUNTERS, perf::OP_RCV_COUNTERS),
    ('\u{2}', "PortFlowCtlCounters", pma::FLOW_CTL_COUNTERS, perf::FLOW_CTL_COUNTERS),
    ('\u{3}', "PortVLOpPackets", pma::VL_OP_PACKETS, &perf::VL_OP_PACKETS),
    ('\u{4}', "PortVLOpData", pma::VL_OP_DATA, &perf::VL_OP_DATA),
    (
        '\u{5}',
        "PortVLXmitFlowCtlUpdateErrors",
        pma::VL_XMIT_FLOW_CTL_UPDATE_ERRORS,
        &perf::VL_XMIT_FLOW_CTL_UPDATE_ERRORS,
    ),
    ('\u{6}', "PortVLXmitWaitCounters", pma::VL_XMIT_WAIT_COUNTERS, &perf::VL_XMIT_WAIT),
    ('\u{7}', "SwPortVLCongestion", pma::SW_PORT_VL_CONGESTION, &perf::SW_PORT_VL_CONGESTION),
    ('\u{8}', "PortRcvConCtrl", pma::RCV_CON_CTRL, perf::RCV_CON_CTRL),
    ('\u{9}', "PortSLRcvFECN", pma::SL_RCV_FECN, &perf::SL_RCV_FECN),
    ('\u{a}', "PortSLRcvBECN", pma::SL_RCV_BECN, &perf::SL_RCV_BECN),
    ('\u{b}', "PortXmitConCtrl", pma::XMIT_CON_CTRL, perf::XMIT_CON_CTRL),
    ('\u{c}', "PortVLXmitTimeCong", pma::VL_XMIT_TIME_CONG, &perf::VL_XMIT_TIME_CONG),
];

/// PortInfoExtended's CapabilityMask: the port reports its forward error correction.
const EXT_CAP_FEC: u64 = 1;
/// FECModeActive of RS-FEC and its newer variant.
const RS_FEC: &[u64] = &[2, 4];

/// Handles the first option that asks for details; returns `false` if there is none.
pub fn answer(session: &mut Session<'_>) -> Outcome<bool> {
    if let Some((letter, name, attribute, fields)) = DETAILS.iter().find(|(letter, ..)| session.line.has(*letter)) {
        if *letter == 'T' {
            speeds(session)?;
        } else {
            let fields = [perf::SELECTS, fields].concat();
            if !session.resets_only() {
                query(session, name, *attribute, &fields)?;
            }
            if session.resets() {
                reset(session, name, *attribute)?;
            }
        }
        return Ok(true);
    }
    if session.line.has('c') {
        samples(session)?;
        return Ok(true);
    }
    Ok(false)
}

fn query(session: &mut Session<'_>, name: &str, attribute: u16, fields: &[Field]) -> Outcome<()> {
    let (to, number, timeout_ms) = (session.to, session.number, session.timeout_ms());
    let data = session.port.pma_get(&to, attribute, number, timeout_ms);
    let data = data.map_err(|_| End::Failed { function: "common_func", text: format!("cannot query {name}") })?;
    let lines = field::lines(fields, &data);
    let json = json!({
        "address": to.to_string(), "port": number, "attribute": name, "counters": field::json(fields, &data),
    });
    session.tell(&format!("# {name} counters: {to} port {number}\n{lines}"), json);
    Ok(())
}

fn reset(session: &mut Session<'_>, name: &str, attribute: u16) -> Outcome<()> {
    let (to, number, timeout_ms) = (session.to, session.number, session.timeout_ms());
    let mask = session.mask.unwrap_or(MASK) as u32;
    let answer = session.port.pma_reset(&to, attribute, number, mask, timeout_ms);
    answer.map_err(|_| End::Failed { function: "common_func", text: format!("cannot reset {name}") }).map(drop)
}

fn samples(session: &mut Session<'_>) -> Outcome<()> {
    let (to, number, timeout_ms) = (session.to, session.number, session.timeout_ms());
    let data = session.port.pma_get(&to, pma::SAMPLES_CONTROL, number, timeout_ms);
    let data = data.map_err(|_| End::failed("sampctlquery"))?;
    let fields = samples_control::all();
    let json = json!({
        "address": to.to_string(), "port": number, "attribute": "PortSamplesControl",
        "fields": field::json(&fields, &data),
    });
    let lines = field::lines(&fields, &data);
    session.tell(&format!("# PortSamplesControl: {to} port {number}\n{lines}"), json);
    Ok(())
}

/// Prints PortExtendedSpeedsCounters in the form for the port's error correction.
fn speeds(session: &mut Session<'_>) -> Outcome<()> {
    if !session.resets_only() {
        if has_rs_fec(session)? {
            let name = "PortExtendedSpeedsCounters with RS-FEC Active";
            query(session, name, pma::EXTENDED_SPEEDS, &extended_speeds::all_rs_fec())?;
        } else {
            query(session, "PortExtendedSpeedsCounters", pma::EXTENDED_SPEEDS, &extended_speeds::all())?;
        }
    }
    if !session.resets() {
        return Ok(());
    }
    let mut data = [0; pma::DATA_LEN];
    extended_speeds::PORT_SELECT.set(&mut data, u64::from(session.number));
    let mask = session.mask.filter(|mask| *mask != 0).unwrap_or(u64::MAX);
    extended_speeds::COUNTER_SELECT.set(&mut data, mask);
    let (to, timeout_ms) = (session.to, session.timeout_ms());
    let answer = session.port.pma(SET, &to, pma::EXTENDED_SPEEDS, &data, timeout_ms);
    answer.map_err(|_| End::failed("cannot reset PortExtendedSpeedsCounters")).map(drop)
}

fn has_rs_fec(session: &mut Session<'_>) -> Outcome<bool> {
    if session.cap_mask & pma::CAP_RSFEC == 0 {
        return Ok(false);
    }
    let (to, number) = (session.to, u32::from(session.number));
    let has = port_info::has_extended(&mut session.port, &to, number);
    if !has.map_err(|error| End::failed(error.text()))? {
        warn("is_rsfec_mode_active", "Port Info Extended not supported");
        return Ok(false);
    }
    let info = session.port.smp_get(&to, smp::PORT_INFO_EXTENDED, number);
    let info = info.map_err(|_| End::failed("smp query portinfo extended failed"))?;
    let can = port_info_extended::CAP_MASK.value(&info) & EXT_CAP_FEC != 0;
    Ok(can && RS_FEC.contains(&port_info_extended::FEC_MODE_ACTIVE.value(&info)))
}
