//! Limits: everything that clients, the daemon or time could make this process store.

use std::time::Duration;

/// Connections served at the same time. Others are closed at once.
pub const CONNECTIONS_MAX: usize = 64;
/// Pages that get events at the same time.
pub const VIEWERS_MAX: usize = 16;
/// Events queued for one page. A page that takes them too slowly is disconnected, and starts afresh when it returns.
pub const EVENTS_QUEUED_MAX: usize = 64;
/// Time that a client has for the head of a request; also how long a connection may be idle.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes that are read ahead of one connection.
pub const READ_AHEAD_BYTES_MAX: usize = 16 << 10;
/// Longest body of a request.
pub const BODY_BYTES_MAX: usize = 4 << 10;
/// Requests for actions that wait for the daemon.
pub const ACTIONS_QUEUED_MAX: usize = 16;
/// Time that an action may take before the page gets an error.
pub const ACTION_TIMEOUT: Duration = Duration::from_secs(20);
/// Longest name of a node in an action.
pub const NAME_BYTES_MAX: usize = 128;
/// Time after which a silent stream of events gets a comment, which finds clients that are gone.
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Entries of the event log.
pub const LOG_ENTRIES_MAX: usize = 1000;
/// Longest text of an entry.
pub const LOG_TEXT_BYTES_MAX: usize = 400;
/// Changes of one kind that get an entry each. More share one entry.
pub const CHANGES_LISTED_MAX: usize = 8;
/// Samples of counters one by one: ten minutes of seconds.
pub const FINE_SAMPLES_MAX: usize = 600;
/// Samples of a minute each: a day of them.
pub const MINUTE_SAMPLES_MAX: usize = 1440;
/// Measurements of routing quality.
pub const ROUTINGS_MAX: usize = 16;
/// End ports up to which routing quality is measured after every change; beyond this, when a person asks.
pub const ROUTING_END_PORTS_MAX: u64 = 256;
/// Programs that the page lists.
pub const PROGRAMS_MAX: usize = 2048;
/// Queue pairs that the page lists, those with traffic first.
pub const QUEUE_PAIRS_MAX: usize = 256;
/// Flows that the page lists.
pub const FLOWS_MAX: usize = 256;
/// Adapters that the page lists.
pub const ADAPTERS_MAX: usize = 256;
/// Broken connections that the page lists.
pub const BREAKS_MAX: usize = 16;

/// How often the fabric is asked whether anything changed, with and without a page that looks on.
pub const STAMP_INTERVAL: [Duration; 2] = [Duration::from_millis(80), Duration::from_secs(1)];
/// How often counters of links are read.
pub const TRAFFIC_INTERVAL: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];
/// How often processes and queue pairs are read, which wakes every program for some microseconds.
pub const PROGRAMS_INTERVAL: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(20)];
/// How often subnet managers are asked for their status.
pub const MANAGERS_INTERVAL: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(20)];
/// A measurement that took a time is not repeated before this many times that time passed.
pub const COST_FACTOR: u32 = 40;
/// The same for the state of a fabric that changes all the time: a change must be seen soon.
pub const STATE_COST_FACTOR: u32 = 4;
/// How long to wait for a daemon before looking again.
pub const RECONNECT_INTERVAL: Duration = Duration::from_secs(1);
