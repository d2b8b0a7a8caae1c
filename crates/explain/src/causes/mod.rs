//! Why a queue pair failed: a table of questions to a case. Each answers with a finding, or with none.

mod address;
mod network;
mod refusal;
mod silence;
mod timing;

use crate::case::Case;
use crate::finding::{Certainty, Finding};
use crate::recording::Recording;
use crate::story::QpStory;

/// The questions. Of equally sure findings the earlier one is printed first.
const QUESTIONS: &[fn(&Case<'_>) -> Option<Finding>] = &[
    refusal::receiver_not_ready,
    refusal::mtu_refused,
    refusal::by_status,
    address::wrong_qpn,
    address::wrong_gid,
    address::pkey,
    address::gone,
    network::firewall,
    network::cable,
    timing::short_timeout,
    silence::peer_gone,
    silence::mtu,
    silence::lost_on_the_way,
    silence::answers_lost,
    silence::loss,
];

/// Returns the causes of a queue pair's failure, surest first; `None` if it did not fail. If the records leave several
/// causes, all of them are there.
pub fn diagnose(qp: &QpStory, stories: &[QpStory], recordings: &[Recording]) -> Option<Vec<Finding>> {
    let case = Case::new(qp, stories, recordings)?;
    let mut findings: Vec<Finding> = QUESTIONS.iter().filter_map(|ask| ask(&case)).collect();
    if case.is_silence() && findings.iter().all(|finding| finding.certainty > Certainty::Likely) {
        findings.extend(silence::candidates(&case));
    }
    findings.sort_by_key(|finding| finding.certainty);
    let mut named = Vec::new();
    findings.retain(|finding| {
        !named.contains(&finding.cause) && {
            named.push(finding.cause);
            true
        }
    });
    // A certain cause explains what others would only be inferred from.
    if findings.first().is_some_and(|first| first.certainty == Certainty::Certain) {
        findings.retain(|finding| finding.certainty == Certainty::Certain);
    }
    Some(findings)
}

#[cfg(test)]
mod tests;
