//! opensm's command line options for settings of opensm.conf, so that a service that starts opensm can start `weft sm`
//! with the same arguments. The common ones are in [`super::args`], with help texts.

use clap::builder::ArgAction;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

/// Heading of these options in the help.
const HEADING: &str = "Further options of opensm";

/// The value that an option sets.
#[derive(Clone, Copy)]
enum Gives {
    /// The argument that follows, with this name in the help.
    Value(&'static str),
    /// A fixed value.
    Always(&'static str),
}

use Gives::{Always, Value};

/// An option: short name, long name, aliases, the setting of opensm.conf, and its value.
type Word = (Option<char>, &'static str, &'static [&'static str], &'static str, Gives);

const WORDS: &[Word] = &[
    (None, "subnet_prefix", &[], "subnet_prefix", Value("PREFIX")),
    (None, "sm_sl", &[], "sm_sl", Value("SL")),
    (None, "do_mesh_analysis", &[], "do_mesh_analysis", Always("TRUE")),
    (None, "lash_start_vl", &[], "lash_start_vl", Value("VL")),
    (None, "nue_max_num_vls", &[], "nue_max_num_vls", Value("N")),
    (Some('A'), "ucast_cache", &[], "use_ucast_cache", Always("TRUE")),
    (Some('z'), "connect_roots", &[], "connect_roots", Always("TRUE")),
    (Some('M'), "lid_matrix_file", &[], "lid_matrix_dump_file", Value("FILE")),
    (Some('S'), "sadb_file", &[], "sa_db_file", Value("FILE")),
    (None, "port-shifting", &[], "port_shifting", Always("TRUE")),
    (None, "scatter-ports", &[], "scatter_ports", Value("SEED")),
    (Some('H'), "max_reverse_hops", &[], "max_reverse_hops", Value("HOPS")),
    (Some('X'), "guid_routing_order_file", &[], "guid_routing_order_file", Value("FILE")),
    (None, "guid_routing_order_no_scatter", &[], "guid_routing_order_no_scatter", Always("TRUE")),
    (Some('m'), "ids_guid_file", &[], "ids_guid_file", Value("FILE")),
    (Some('i'), "ignore_guids", &[], "port_prof_ignore_file", Value("FILE")),
    (Some('w'), "hop_weights_file", &[], "hop_weights_file", Value("FILE")),
    (Some('O'), "port_search_ordering_file", &["dimn_ports_file"], "port_search_ordering_file", Value("FILE")),
    (Some('x'), "honor_guid2lid", &[], "honor_guid2lid_file", Always("TRUE")),
    (None, "dump_files_dir", &[], "dump_files_dir", Value("DIRECTORY")),
    (None, "prefix_routes_file", &[], "prefix_routes_file", Value("FILE")),
    (Some('N'), "no_part_enforce", &[], "no_partition_enforcement", Always("TRUE")),
    (Some('Z'), "part_enforce", &[], "part_enforce", Value("WHERE")),
    (Some('W'), "allow_both_pkeys", &[], "allow_both_pkeys", Always("TRUE")),
    (None, "congestion_control", &["congestion-control"], "congestion_control", Always("TRUE")),
    (None, "cc_key", &["cckey"], "cc_key", Value("KEY")),
    (Some('y'), "stay_on_fatal", &[], "exit_on_fatal", Always("FALSE")),
    (Some('I'), "inactive", &[], "sm_inactive", Always("TRUE")),
    (None, "perfmgr", &[], "perfmgr", Always("TRUE")),
    (None, "perfmgr_sweep_time_s", &[], "perfmgr_sweep_time_s", Value("SECONDS")),
    (None, "consolidate_ipv6_snm_req", &[], "consolidate_ipv6_snm_req", Always("TRUE")),
    (Some('q'), "console", &[], "console", Value("WHERE")),
    (Some('C'), "console-port", &[], "console_port", Value("PORT")),
    (None, "log_prefix", &[], "log_prefix", Value("TEXT")),
];

/// The settings that `-d N` enables, by N.
const DEBUG: &[(&str, &str)] =
    &[("0", "ignore_other_sm"), ("1", "single_thread"), ("2", "force_log_flush"), ("3", "disable_multicast")];

/// The settings from such options on a command line.
#[derive(Debug, Default, Clone)]
pub struct OpensmWords {
    /// Settings and their values.
    pub options: Vec<(String, String)>,
    /// Number of `-v` options, each of which adds a log level.
    pub verbose: u8,
}

impl Args for OpensmWords {
    fn augment_args(command: Command) -> Command {
        let command = command.version(env!("CARGO_PKG_VERSION")).disable_version_flag(true);
        let command = WORDS.iter().fold(command, |command, word| command.arg(arg(word)));
        let own = |id: &'static str| Arg::new(id).help_heading(HEADING);
        command
            .arg(
                own("opensm debug")
                    .short('d')
                    .long("debug")
                    .value_name("N")
                    .action(ArgAction::Append)
                    .value_parser(DEBUG.iter().map(|(number, _)| *number).collect::<Vec<_>>())
                    .help("0 ignore_other_sm, 1 single_thread, 2 force_log_flush, 3 disable_multicast"),
            )
            .arg(
                own("opensm verbose")
                    .short('v')
                    .long("verbose")
                    .action(ArgAction::Count)
                    .help("Add the next log level; may be repeated"),
            )
            .arg(own("opensm all").short('V').action(ArgAction::SetTrue).help("As -D 0xFF -d 2"))
            .arg(own("opensm version").long("version").action(ArgAction::Version).help("Print the version"))
            .arg(own("opensm help").short('?').action(ArgAction::Help).hide(true))
    }

    fn augment_args_for_update(command: Command) -> Command {
        OpensmWords::augment_args(command)
    }
}

fn arg(&(letter, name, aliases, option, gives): &Word) -> Arg {
    let arg = Arg::new(name).long(name).visible_aliases(aliases.iter().copied()).help_heading(HEADING);
    let arg = letter.into_iter().fold(arg, Arg::short);
    match gives {
        Value(called) => arg.value_name(called).help(option),
        Always(value) => arg.action(ArgAction::SetTrue).help(format!("{option} {value}")),
    }
}

impl FromArgMatches for OpensmWords {
    fn from_arg_matches(matches: &ArgMatches) -> Result<OpensmWords, clap::Error> {
        let mut words = OpensmWords { options: Vec::new(), verbose: matches.get_count("opensm verbose") };
        for (_, name, _, option, gives) in WORDS {
            let value = match gives {
                Value(_) => matches.get_one::<String>(name).cloned(),
                Always(value) => matches.get_flag(name).then(|| (*value).to_owned()),
            };
            words.options.extend(value.map(|value| ((*option).to_owned(), value)));
        }
        let everything = matches.get_flag("opensm all");
        let said = matches.get_many::<String>("opensm debug").into_iter().flatten().map(String::as_str);
        for number in said.chain(everything.then_some("2")) {
            let option = DEBUG.iter().find(|(known, _)| *known == number).map(|(_, option)| *option);
            words.options.extend(option.map(|option| (option.to_owned(), "TRUE".to_owned())));
        }
        if everything {
            words.options.push(("log_flags".to_owned(), "0xff".to_owned()));
        }
        Ok(words)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = OpensmWords::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> OpensmWords {
        let command = OpensmWords::augment_args(Command::new("sm"));
        let matches = command.try_get_matches_from(line.split(' ')).expect("words of opensm");
        OpensmWords::from_arg_matches(&matches).expect("what they say")
    }

    #[test]
    fn every_word_sets_an_option_that_there_is() {
        for (_, name, _, option, gives) in WORDS {
            assert!(weft_sm::options::option(option).is_some(), "{name} sets {option}");
            let line = match gives {
                Value(_) => format!("sm --{name} 1"),
                Always(_) => format!("sm --{name}"),
            };
            let said = read(&line).options;
            assert_eq!((said.len(), said[0].0.as_str()), (1, *option), "{line}");
        }
        assert!(DEBUG.iter().all(|(_, option)| weft_sm::options::option(option).is_some()));
    }

    #[test]
    fn words_are_read_as_opensm_reads_them() {
        let said =
            read("sm -A -Z off -vv -q loopback -C 11000 -w /etc/weights -d 0 -d2 -y --dimn_ports_file /etc/order");
        let text: Vec<String> = said.options.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let wanted = [
            "use_ucast_cache TRUE",
            "hop_weights_file /etc/weights",
            "port_search_ordering_file /etc/order",
            "part_enforce off",
            "exit_on_fatal FALSE",
            "console loopback",
            "console_port 11000",
            "ignore_other_sm TRUE",
            "force_log_flush TRUE",
        ];
        assert_eq!((text, said.verbose), (wanted.map(str::to_owned).to_vec(), 2));
        let all = read("sm -V").options;
        assert!(all.contains(&("log_flags".to_owned(), "0xff".to_owned())), "{all:?}");
        assert!(all.contains(&("force_log_flush".to_owned(), "TRUE".to_owned())), "{all:?}");
    }
}
