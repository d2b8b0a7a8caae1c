//! The bounds of the administrator: whoever asks for more is refused.

use weft_verbs::Duration;

/// Questions of one LID that wait.
pub const QUESTIONS_PER_LID_MAX: usize = 256;
/// Questions that wait.
pub const QUESTIONS_MAX: usize = 1 << 16;
/// Bytes of an answer for which its asker passes a turn if others wait.
pub const ANSWER_BYTES_PER_TURN: usize = 16 << 10;
/// Bytes of an answer: what a multi-packet transfer carries.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Bytes of answers after which those that were made are sent before others are.
pub const ANSWERS_BYTES_AT_ONCE: usize = 1 << 20;
/// Paths that one answer tells.
pub const PATHS_MAX: usize = 1 << 18;
/// Multicast groups.
pub const GROUPS_MAX: usize = 1 << 16;
/// Members of one multicast group.
pub const MEMBERS_MAX: usize = 1 << 16;
/// Memberships of multicast groups that one port asks for, its own and others'.
pub const MEMBERSHIPS_PER_PORT_MAX: usize = 1 << 12;
/// Services.
pub const SERVICES_MAX: usize = 1 << 16;
/// Services that one port registers, its own and others'.
pub const SERVICES_PER_PORT_MAX: usize = 1 << 10;
/// Subscriptions to notices.
pub const SUBSCRIPTIONS_MAX: usize = 1 << 17;
/// Subscriptions of one port.
pub const SUBSCRIPTIONS_PER_LID_MAX: usize = 128;
/// Reports under way at once.
pub const REPORTS_UNDER_WAY_MAX: usize = 512;
/// Reports that wait for their turn; what comes after is dropped.
pub const REPORTS_WAITING_MAX: usize = 1 << 18;
/// Reports that nobody acknowledged, one after another, until a subscription is given up.
pub const REPORTS_LOST_MAX: u32 = 8;
/// How long a try of a report waits for its acknowledgement.
pub const REPORT_TIMEOUT: Duration = Duration::from_millis(500);
/// How often a report is sent again.
pub const REPORT_RETRIES: u32 = 3;
/// Switches on a path.
pub const HOPS_MAX: usize = 64;
/// Bytes of a line of the dumped data base.
pub const CACHE_LINE_MAX: usize = 1024;
/// Lines of it that cannot be read and are told one by one.
pub const CACHE_ERRORS_MAX: usize = 100;
