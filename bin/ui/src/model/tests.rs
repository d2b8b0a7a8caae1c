//! The model over a day, and what pages get of it.

use weft_fabric::topology::generate::{Extra, Plan, Shape};
use weft_fabric::topology::{LinkState, LiveCable, LiveNode, Picture};

use super::*;
use crate::limits::{FINE_SAMPLES_MAX, LOG_ENTRIES_MAX, LOG_TEXT_BYTES_MAX, MINUTE_SAMPLES_MAX};

fn picture(kind: &str, parameters: &str) -> Picture {
    let shape = Shape::parse(kind, parameters, Extra::default()).expect(kind);
    Picture::of(Plan::new(shape).generate().expect(kind))
}

fn state(picture: &Picture) -> LiveState {
    let cable = |cable: &weft_fabric::topology::Cable| LiveCable {
        ends: [cable.a, cable.b],
        state: LinkState::Active,
        rate_tenths: 4000,
        limited: false,
        errors_ppm: 0,
        drop_ppm: 0,
    };
    LiveState {
        nodes: vec![LiveNode { powered: true, agent_fault: false, lid: 1 }; picture.topology.nodes.len()],
        cables: picture.topology.cables.iter().map(cable).collect(),
    }
}

fn traffic(cables: u32, bytes: u64) -> Vec<CableTraffic> {
    (0..cables).map(|cable| CableTraffic { cable, bytes: [bytes, 0], ..CableTraffic::default() }).collect()
}

fn with_fabric(kind: &str, parameters: &str) -> (Model, LiveState) {
    let picture = picture(kind, parameters);
    let state = state(&picture);
    let mut model = Model::default();
    model.set_fabric(0, Some(FabricView::new(1, false, &picture, state.clone())));
    (model, state)
}

/// Bytes of everything that a page gets.
fn size(model: &Model) -> usize {
    model.snapshot().iter().map(|event| event.data.to_string().len()).sum()
}

#[test]
fn a_page_gets_every_node_and_cable_once_and_then_differences() {
    let (mut model, mut state) = with_fabric("fat-tree", "4,2");
    let whole = model.snapshot().into_iter().find(|event| event.name == "fabric").expect("a fabric").data;
    assert_eq!(whole["nodes"].as_array().map(Vec::len), Some(state.nodes.len()));
    assert_eq!(whole["cables"].as_array().map(Vec::len), Some(state.cables.len()));
    let drawn: usize =
        whole["items"].as_array().expect("items").iter().map(|item| item["n"].as_array().unwrap().len()).sum();
    assert_eq!(drawn, state.nodes.len(), "every node is drawn once");

    state.cables[3].state = LinkState::Cut;
    state.nodes[1].powered = false;
    let event = model.set_state(5, state.clone()).expect("an event");
    assert_eq!((event.name, &event.data["nodes"]), ("state", &json!([[1, 0, 1]])));
    assert_eq!(event.data["cables"], json!([[3, 6, "cut", 4000, 0, 0, 0]]));
    let texts: Vec<String> = model.log.take_new().into_iter().map(|entry| entry.text).collect();
    assert!(texts.iter().any(|text| text.ends_with("cut: the cable is unplugged")), "{texts:?}");
    assert!(texts.iter().any(|text| text.ends_with("lost power")), "{texts:?}");

    // A new cable takes a port of the cut one: pages need all of them again.
    let other = LiveCable {
        ends: [state.cables[3].ends[0], state.cables[3].ends[1]],
        state: LinkState::Init,
        ..state.cables[3]
    };
    state.cables.push(other);
    let event = model.set_state(6, state).expect("an event");
    assert_eq!((event.name, &event.data["states"][3]), ("fabric", &json!([3, -1])));
}

#[test]
fn many_changes_are_one_entry() {
    let (mut model, mut state) = with_fabric("fat-tree", "8,2");
    model.log.take_new();
    state.cables.iter_mut().for_each(|cable| cable.state = LinkState::Down);
    model.set_state(5, state.clone());
    let entries = model.log.take_new();
    assert_eq!(entries.len(), 1);
    assert!(entries[0].bad && entries[0].text.starts_with("64 links down: no link; the first is "), "{entries:?}");
}

#[test]
fn loads_come_as_differences_and_sum_up() {
    let (mut model, _) = with_fabric("star", "3");
    model.set_traffic(1000, &traffic(3, 0));
    let events = model.set_traffic(2000, &traffic(1, 5_000));
    assert_eq!((events[0].name, &events[0].data["cables"]), ("load", &json!([[0, 5000.0, 0.0, 0.0, 0.0, 0, 0]])));
    assert_eq!((events[1].name, &events[1].data["bytes"]), ("sample", &json!(5000.0)));
    let events = model.set_traffic(3000, &traffic(1, 10_000));
    assert_eq!(events[0].data["cables"], json!([]), "the same load");
}

#[test]
fn a_day_of_events_takes_bounded_memory() {
    let (mut model, mut state) = with_fabric("fat-tree", "4,2");
    let mut largest = 0;
    for second in 0..24 * 3600u64 {
        let at = second * 1000;
        let cable = (second % state.cables.len() as u64) as usize;
        let cut = state.cables[cable].state == LinkState::Cut;
        state.cables[cable].state = if cut { LinkState::Active } else { LinkState::Cut };
        model.set_state(at, state.clone());
        model.set_traffic(at, &traffic(state.cables.len() as u32, second * 1_000_000));
        model.new_entries();
        if second % 3600 == 0 {
            largest = largest.max(size(&model));
        }
    }
    assert_eq!(model.log.entries().len(), LOG_ENTRIES_MAX);
    let bound = LOG_ENTRIES_MAX * (LOG_TEXT_BYTES_MAX + 100) + (FINE_SAMPLES_MAX + MINUTE_SAMPLES_MAX) * 150 + 100_000;
    assert!(largest.max(size(&model)) < bound, "{largest} bytes of {bound}");
}

#[test]
fn large_fabrics_are_drawn_in_few_items() {
    for (kind, parameters) in
        [("fat-tree", "36,3"), ("dragonfly", "16,8,8,64"), ("torus", "8x8x8"), ("random", "600,6,1")]
    {
        let picture = picture(kind, parameters);
        let view = FabricView::new(1, false, &picture, state(&picture));
        let whole = view.whole();
        let items = whole["items"].as_array().map_or(0, Vec::len);
        assert!(items <= 2000, "{kind} {parameters}: {items} items");
        let bytes = whole.to_string().len();
        assert!(bytes < 8 << 20, "{kind} {parameters}: {bytes} bytes");
    }
}
