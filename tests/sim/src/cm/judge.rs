//! The checks at the end of a run: every owner learned how its attempt ended, and the two ends of each attempt agree.

use weft_cm::ib::RejectReason;

use super::app::Apps;
use super::plan::Mood;
use super::side::{Role, Side};
use super::world::CmWorld;

/// Describes every broken rule.
pub fn judge(apps: &Apps) -> Result<(), String> {
    for side in &apps.sides {
        if !side.is_over() {
            return Err(format!("never told how it ended: {side:?}"));
        }
    }
    for (number, attempt) in apps.plan.attempts.iter().enumerate() {
        let Some(active) = apps.sides.iter().find(|s| s.role == Role::Active && s.attempt == number) else { continue };
        let passive: Vec<&Side> = apps.passive_of(number).map(|p| &apps.sides[p]).collect();
        let fail = |why: &str| Err(format!("attempt {number}: {why}: {attempt:?}\n  {active:?}\n  {passive:?}"));
        if passive.iter().filter(|p| p.stood()).count() > 1 {
            return fail("it stood twice");
        }
        if active.partner.is_some_and(|p| !apps.sides[p].agreed) {
            return fail("the answer came from one who gave none");
        }
        if passive.iter().any(|p| p.stood()) && !active.agreed {
            return fail("it stood on one side only");
        }
        match active.reason {
            Some(RejectReason::INVALID_SERVICE_ID) if attempt.is_listened() => return fail("somebody does listen"),
            Some(RejectReason::CONSUMER_DEFINED) if !passive.iter().any(|p| p.refused || p.destroyed) => {
                return fail("nobody refused");
            }
            Some(RejectReason::NO_RESOURCES) => return fail("there was room"),
            _ => {}
        }
        if !attempt.is_listened() && !passive.is_empty() {
            return fail("nobody listens there");
        }
        if apps.plan.mood != Mood::Wild {
            tame(active, &passive, attempt.is_listened(), attempt.datagram).or_else(|why| fail(&why))?;
        }
    }
    Ok(())
}

/// Checks a run without faults that retries cannot fix: exactly one outcome is possible.
fn tame(active: &Side, passive: &[&Side], listened: bool, datagram: bool) -> Result<(), String> {
    if datagram {
        return if active.told == ["SidrRep"] { Ok(()) } else { Err("no answer about the service".into()) };
    }
    if !listened {
        let right = active.told == ["Rej"] && active.reason == Some(RejectReason::INVALID_SERVICE_ID);
        return if right { Ok(()) } else { Err("not rejected for the service ID".into()) };
    }
    let [passive] = passive else { return Err("not one request".into()) };
    // A DREQ proves as well as the lost RTU that the active side was ready.
    if !active.stood() || !(passive.stood() || passive.was_told("Dreq")) {
        return Err("it did not stand".into());
    }
    let ended = |s: &Side| (s.was_told("Drep") || s.was_told("Dreq")) && s.was_told("TimewaitExit");
    if !ended(active) || !ended(passive) || [active, passive].iter().any(|s| s.was_told("DreqError")) {
        return Err("it did not end in order".into());
    }
    Ok(())
}

/// Checks that nothing is left once every owner destroyed its connections.
pub fn leftovers(apps: &Apps, world: &CmWorld) -> Result<(), String> {
    for (number, host) in world.hosts.iter().enumerate() {
        if !host.cm.is_idle() {
            return Err(format!("host {number} keeps something at {:?}: {:#?}", world.now, host.cm));
        }
    }
    for side in apps.sides.iter().filter(|s| !s.crashed) {
        if let Some(state) = world.hosts[side.host].cm.state(side.conn) {
            return Err(format!("still there, in state {state:?}: {side:?}"));
        }
    }
    Ok(())
}
