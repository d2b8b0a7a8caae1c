//! Limits of the administrator. It refuses requests beyond them.

use weft_verbs::Duration;

/// Queued requests from one LID.
pub const QUESTIONS_PER_LID_MAX: usize = 256;
/// Queued requests in all.
pub const QUESTIONS_MAX: usize = 1 << 16;
/// Response size that costs the requester one turn while others wait.
pub const ANSWER_BYTES_PER_TURN: usize = 16 << 10;
/// Largest response: the limit of a multi-packet transfer.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Response bytes after which the responses so far are sent before others are built.
pub const ANSWERS_BYTES_AT_ONCE: usize = 1 << 20;
/// Paths in one response.
pub const PATHS_MAX: usize = 1 << 18;
/// Multicast groups.
pub const GROUPS_MAX: usize = 1 << 16;
/// Members of one multicast group.
pub const MEMBERS_MAX: usize = 1 << 16;
/// Multicast group memberships that one port may request, for itself and for other ports.
pub const MEMBERSHIPS_PER_PORT_MAX: usize = 1 << 12;
/// Services.
pub const SERVICES_MAX: usize = 1 << 16;
/// Services that one port may register, for itself and for other ports.
pub const SERVICES_PER_PORT_MAX: usize = 1 << 10;
/// Subscriptions to notices.
pub const SUBSCRIPTIONS_MAX: usize = 1 << 17;
/// Subscriptions of one port.
pub const SUBSCRIPTIONS_PER_LID_MAX: usize = 128;
/// Concurrent reports in flight.
pub const REPORTS_UNDER_WAY_MAX: usize = 512;
/// Reports queued for sending; further ones are dropped.
pub const REPORTS_WAITING_MAX: usize = 1 << 18;
/// Consecutive unacknowledged reports after which a subscription is dropped.
pub const REPORTS_LOST_MAX: u32 = 8;
/// Time to wait for the acknowledgment of a report before the next try.
pub const REPORT_TIMEOUT: Duration = Duration::from_millis(500);
/// Number of times a report is sent again.
pub const REPORT_RETRIES: u32 = 3;
/// Switches on a path.
pub const HOPS_MAX: usize = 64;
/// Bytes in a line of the SA dump file.
pub const CACHE_LINE_MAX: usize = 1024;
/// Unparsable lines that are reported one by one.
pub const CACHE_ERRORS_MAX: usize = 100;
