//! The features' tables of requests: each request is in one of them, and its rules are true.

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error;

use super::*;
use crate::broker::dispatch;

/// Returns the names of all requests, which serde lists when it does not know one.
fn names() -> Vec<String> {
    let unknown = Request::deserialize(IntoDeserializer::<Error>::into_deserializer("no request")).unwrap_err();
    unknown.to_string().split('`').skip(1).step_by(2).skip(1).map(str::to_owned).collect()
}

/// Returns every request with the smallest content: zeros, empty lists and texts.
fn smallest() -> Vec<(String, Request)> {
    let decoded = |(index, name): (u8, String)| {
        let mut bytes = [0; 256];
        bytes[0] = index;
        let (request, _) = postcard::take_from_bytes(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, request)
    };
    (0..128).zip(names()).map(decoded).collect()
}

#[test]
fn every_request_has_a_feature() {
    let all = smallest();
    assert!(all.len() >= 30, "{all:?}");
    for (name, request) in all {
        assert!(format!("{request:?}").starts_with(&name), "{name} is not {request:?}");
        assert!(dispatch::route::<FakeHost>(request).is_some(), "no feature has a row for {name}");
    }
}

#[test]
fn only_requests_whose_rules_say_so_change_the_saved_state() {
    let slots = [Request::AllocateSlot, Request::Reattach { slot: 1, groups: Vec::new() }];
    for request in slots {
        assert!(dispatch::route::<FakeHost>(request).is_some_and(|route| route.rules.saved));
    }
    for (name, request) in smallest() {
        let mut world = World::new(false);
        let client = world.session(0);
        world.slot(client).unwrap();
        let saved = dispatch::route::<FakeHost>(request.clone()).is_some_and(|route| route.rules.saved);
        let before = world.broker.save();
        let frame = encode(&ClientFrame { id: 5, request }).unwrap();
        world.say(client, &frame, &[]);
        assert!(saved || world.broker.save() == before, "{name} changes the saved state");
    }
}
