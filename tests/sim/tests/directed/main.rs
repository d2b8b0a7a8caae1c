//! One thing at a time: each refusal, each way to give up, each event, on a network without faults unless a test adds
//! some, and between processes of one machine.
#![allow(clippy::duplicate_mod, reason = "the same tests on every path")]

#[path = "."]
mod wire {
    mod bed;
    mod big;
    mod datagrams;
    mod memory_ops;
    mod naks;
    mod peer_quotas;
    mod queues;
    mod retries;
    mod same_host;
    mod states;
    mod windows;
    mod xrc;

    use bed::*;

    const PATH: weft_sim::Path = weft_sim::Path::Wire;
}

#[path = "."]
mod direct {
    mod bed;
    mod big;
    mod datagrams;
    mod memory_ops;
    mod naks;
    mod peer_quotas;
    mod queues;
    mod retries;
    mod same_host;
    mod states;
    mod windows;
    mod xrc;

    use bed::*;

    const PATH: weft_sim::Path = weft_sim::Path::Direct;
}

#[path = "."]
mod rings {
    mod bed;
    mod big;
    mod datagrams;
    mod memory_ops;
    mod naks;
    mod peer_quotas;
    mod queues;
    mod retries;
    mod same_host;
    mod states;
    mod windows;
    mod xrc;

    use bed::*;

    const PATH: weft_sim::Path = weft_sim::Path::Rings;
}
