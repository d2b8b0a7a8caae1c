//! Rules of completions and events.

use crate::rule::rules;

rules! { COMPLETIONS:
    CQ_NOT_DRAINED = "cq-not-drained", Error,
        "The program waits for an event of a completion queue that it has not polled since it armed it.",
        "ibv_req_notify_cq(3), ibv_get_cq_event(3); IBA vol. 1, 11.4.2.2",
        "After ibv_req_notify_cq poll until the queue is empty, then wait: earlier completions raise no event.";
    CQ_NOT_ARMED = "cq-not-armed", Warning,
        "The program waits for an event, and no completion queue of the channel is armed.",
        "ibv_req_notify_cq(3), ibv_get_cq_event(3)",
        "Call ibv_req_notify_cq before ibv_get_cq_event.";
    EVENT_UNACKNOWLEDGED = "event-unacknowledged", Error,
        "The program destroys an object with unacknowledged events, which blocks.",
        "ibv_ack_cq_events(3), ibv_ack_async_event(3)",
        "Acknowledge all events with ibv_ack_cq_events or ibv_ack_async_event before destroying the object.";
    EVENT_NOT_READ = "event-not-read", Error,
        "The program acknowledges more completion events than it has read, and the queue's destruction waits for ever.",
        "ibv_ack_cq_events(3), ibv_destroy_cq(3)",
        "Acknowledge each event that ibv_get_cq_event returns once.";
}
