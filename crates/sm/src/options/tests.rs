//! Tests of whole files: reading, writing, comparing, and the diagnostics on mistakes.

use proptest::prelude::*;

use super::*;

fn said(text: &str) -> Vec<String> {
    let (_, diagnostics) = parse(text, "opensm.conf", Options::default());
    diagnostics.iter().map(ToString::to_string).collect()
}

fn read(text: &str) -> Options {
    parse(text, "opensm.conf", Options::default()).0
}

#[test]
fn an_administrators_file_is_read() {
    let options = read(
        "guid 0x0002c9030a000001\nsubnet_prefix 0xfe80000000000000\nsm_priority 14\nsweep_interval 10\n\
         partition_config_file ./partitions.conf\nlog_file \"./opensm.log\" # here\ndump_files_dir ./dump\n\
         log_flags 0x43\nrouting_engine updn,ftree no_fallback\nqos TRUE\nqos_ca_sl2vl 0,1,2\n",
    );
    assert_eq!((options.device.guid, options.handover.sm_priority), (0x0002_c903_0a00_0001, 14));
    assert_eq!(options.partitions.partition_config_file.as_deref(), Some("./partitions.conf"));
    assert_eq!(options.log.log_file.as_deref(), Some("./opensm.log"));
    assert_eq!(options.log.log_flags, 0x43);
    assert_eq!(options.routing.engines(), (vec!["updn", "ftree"], true));
    assert_eq!((options.qos.qos, options.lanes.ca.sl2vl.as_deref()), (true, Some("0,1,2")));
}

#[test]
fn what_is_written_is_read_without_a_word() {
    let mut options = Options::of_directory("/etc/rdma");
    options.congestion.cc_ca_cong_setting_ccti_min.0[3] = 9;
    options.misc.max_rate_enum = 18;
    options.device.guid = 7;
    let text = create_config(&options);
    let (back, diagnostics) = parse(&text, "f", Options::default());
    assert_eq!(back, options);
    let idle = diagnostics.iter().filter(|diagnostic| diagnostic.what.contains("no effect")).count();
    assert_eq!((diagnostics.len(), idle), (1, 1), "{diagnostics:?}");
    assert_eq!(said(&create_config(&Options::default())), Vec::<String>::new());
}

#[test]
fn mistakes_are_reported_with_line_and_fix() {
    assert_eq!(
        said("\nsweep_intervall 5\n"),
        [
            "opensm.conf:2:1: error: no option is called sweep_intervall; the line is passed over; is sweep_interval meant?"
        ]
    );
    assert!(
        said("logdir /var/log").first().is_some_and(|diagnostic| diagnostic.contains("log_file and dump_files_dir"))
    );
    assert_eq!(said("lmc seven"), ["opensm.conf:1:1: error: lmc: seven is not a number; fix the value; it is 0 now"]);
    assert_eq!(said("lmc 9"), ["opensm.conf:1: error: lmc cannot be 9: it is 0; write 0 to 7"]);
    assert!(said("qos yes").first().is_some_and(|diagnostic| diagnostic.contains("counts as FALSE")));
    assert!(said("lmc 1\nlmc 2").first().is_some_and(|diagnostic| diagnostic.contains("set before, in line 1")));
    assert!(
        said("dimn_ports_file x").first().is_some_and(|diagnostic| diagnostic.contains("port_search_ordering_file"))
    );
    assert!(said("routing_engine upup").first().is_some_and(|diagnostic| diagnostic.contains("upup")));
}

#[test]
fn what_has_no_effect_is_said_once_and_only_where_it_was_wanted() {
    assert_eq!(said("perfmgr FALSE\nevent_plugin_name (null)"), Vec::<String>::new());
    let said = said("perfmgr TRUE\nperfmgr TRUE\nmax_smps_timeout 5");
    assert_eq!(said.iter().filter(|diagnostic| diagnostic.contains("perfmgr has no effect: ")).count(), 1);
    assert_eq!(said.len(), 3);
}

#[test]
fn keys_with_a_lease_make_sweeps_often_enough() {
    let options = read("m_key_protection_level 1\nm_key_lease_period 30\nsweep_interval 0\n");
    assert_eq!(options.sweep.sweep_interval, 29);
    let options = read("m_key_protection_level 1\nm_key_lease_period 30\nsweep_interval 60\n");
    assert_eq!(options.device.m_key_lease_period, 61);
}

#[test]
fn smps_under_way_are_the_managers_choice_unless_said() {
    assert_eq!(read("max_wire_smps 4").timing.smps_max(), None);
    assert_eq!(read("max_wire_smps 16").timing.smps_max(), Some(16));
    assert_eq!(read("max_wire_smps 0").timing.smps_max(), Some(u32::MAX));
    assert_eq!(read("max_wire_smps2 9").timing.smps_max(), Some(9));
}

#[test]
fn a_second_reading_changes_what_can_change() {
    let old = read("lmc 1\nsweep_interval 5\nguid 0x11\n");
    let new = read("lmc 2\nsweep_interval 6\n");
    let found: Vec<_> = changes(&old, &new).iter().map(|change| (change.name, change.change)).collect();
    assert_eq!(found, [("guid", Change::Restart), ("lmc", Change::Restart), ("sweep_interval", Change::Live)]);
    let counts = reloaded(&old, &new);
    assert_eq!((counts.device.lmc, counts.device.guid, counts.sweep.sweep_interval), (1, 0x11, 6));
}

#[test]
fn every_option_has_words_and_a_name_of_its_own() {
    let mut names: Vec<_> = SECTIONS.iter().flat_map(|section| section.specs).map(|spec| spec.name).collect();
    assert!(names.len() > 150, "{}", names.len());
    assert!(option("dimn_ports_file").is_some_and(|spec| spec.name == "port_search_ordering_file"));
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all);
}

proptest! {
    #[test]
    fn no_text_panics(text in "(\\PC|\n|[a-z_]{1,8} [0-9x,:]{0,9}\n|(lmc|guid|qos|cc_cct|max_op_vls|qos_ca_vlarb_high) \\PC{0,9}\n){0,60}") {
        let (options, diagnostics) = parse(&text, "f", Options::default());
        prop_assert!(diagnostics.len() <= REMARKS_MAX + 1);
        // The result is a possible configuration.
        let (again, _) = parse(&create_config(&options), "f", Options::default());
        prop_assert_eq!(again, options);
    }
}

/// The nearest option name is searched only while the diagnostic is kept.
#[test]
fn a_hundred_thousand_unknown_names_are_passed_over_in_one_go() {
    let text: String = (0..100_000).map(|n| format!("option{n} 1\n")).collect();
    let said = said(&text);
    assert_eq!(said.len(), REMARKS_MAX + 1);
    assert!(said.last().is_some_and(|last| last.contains("99500 more diagnostics are left out")), "{:?}", said.last());
}
