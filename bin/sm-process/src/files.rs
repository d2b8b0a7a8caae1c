//! The files of a manager: reads opensm.conf and the files that it names, stores LIDs and keys.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use weft_sm::manager::{Level, Manager, Setup};
use weft_sm::options::{self, DIRECTORIES, Diagnostic, FILE_LEN_MAX, Options, files as named};

use super::log::{Log, LogOptions};
use super::run_args::RunArgs;
use super::unread;
use crate::named_file;

/// Where OpenSM stores LIDs, unless `OSM_CACHE_DIR` is set.
const CACHE_DIRECTORY: &str = "/var/cache/opensm";

/// Name of the M_Key file there.
const KEYS_FILE: &str = "guid2mkey";

/// The variable that sets the directory.
pub const CACHE_VARIABLE: &str = "OSM_CACHE_DIR";

/// The files and options of a manager.
pub struct Files {
    args: RunArgs,
    path: Option<PathBuf>,
    /// Directory of the files with default names, if no configuration was read.
    home: Option<&'static str>,
    options: Options,
    diagnostics: Vec<Diagnostic>,
    cache: Option<PathBuf>,
    /// Stored files whose last write failed.
    stuck: BTreeSet<PathBuf>,
}

impl Files {
    /// Reads the named configuration file, or else the first that exists in the default directories.
    ///
    /// # Errors
    /// A named file cannot be read, or the command line is wrong.
    pub fn load(args: &RunArgs) -> Result<Files> {
        Files::load_for(args, None)
    }

    /// Like [`Files::load`], but without a configuration file, default file names refer to the directory `home`.
    ///
    /// # Errors
    /// As [`Files::load`].
    pub fn load_for(args: &RunArgs, home: Option<&'static str>) -> Result<Files> {
        let mut files = Files {
            args: args.clone(),
            path: find(args),
            home,
            options: Options::default(),
            diagnostics: Vec::new(),
            cache: (!args.no_config).then(cache_directory),
            stuck: BTreeSet::new(),
        };
        files.reload()?;
        Ok(files)
    }

    /// Reads the files again. Describes the changed options, and which of them take effect only at the next start.
    ///
    /// # Errors
    /// As [`Files::load`].
    pub fn read_again(&mut self) -> Result<Vec<String>> {
        let old = self.options.clone();
        self.reload()?;
        let changed = options::changes(&old, &self.options);
        let later = |name| matches!(name, "guid" | "daemon" | "console" | "console_port");
        let said = changed.iter().map(|change| {
            let when = if later(change.name) { ", which counts from the next start on" } else { "" };
            format!("{} was {} and is {} now{when}", change.name, change.old, change.new)
        });
        Ok(said.collect())
    }

    fn reload(&mut self) -> Result<()> {
        let mut options = match &self.path {
            Some(path) => Options::of_directory(&path.parent().unwrap_or(Path::new(".")).to_string_lossy()),
            None => self.home.map_or_else(Options::default, Options::of_directory),
        };
        let mut diagnostics = Vec::new();
        if self.args.no_config {
            self.forget_defaults(&mut options);
        }
        if let Some(path) = &self.path {
            let text = read(path)?;
            (options, diagnostics) = options::parse(&text, &path.to_string_lossy(), options);
        }
        let words = self.args.overrides().map_err(anyhow::Error::msg)?;
        let said = options::set(&mut options, &words, "the command line").map_err(anyhow::Error::msg)?;
        diagnostics.extend(said);
        options.log.log_flags = self.args.more_flags(options.log.log_flags);
        (self.options, self.diagnostics) = (options, diagnostics);
        Ok(())
    }

    /// Clears the default file names, for a manager that reads only files that the user named.
    fn forget_defaults(&self, options: &mut Options) {
        options.partitions.partition_config_file = None;
        options.qos.qos_policy_file = None;
        options.routing.torus_config = None;
        options.misc.prefix_routes_file = None;
        options.log.per_module_logging_file = None;
        options.log.log_file = None;
        options.log.dump_files_dir = None;
    }

    /// The options in force.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Diagnostics about the configuration and the command line.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// The port GUID that the configuration names.
    pub fn guid(&self) -> Option<u64> {
        Some(self.options.device.guid).filter(|guid| *guid != 0)
    }

    /// The log's options, and diagnostics about its per-module file.
    pub fn log(&self) -> (LogOptions, Vec<Diagnostic>) {
        let log = &self.options.log;
        let talks = log.log_file.as_deref().is_some_and(|name| matches!(name, "stdout" | "stderr"));
        let modules = log.per_module_logging_file.as_ref().and_then(|path| Some((path, read(Path::new(path)).ok()?)));
        let (modules, diagnostics) = modules.map(|(path, text)| named::modules(&text, path)).unwrap_or_default();
        let options = LogOptions {
            path: log.log_file.as_ref().filter(|_| !talks).map(PathBuf::from),
            talks,
            flags: log.log_flags,
            modules,
            len_max: u64::from(log.log_max_size) << 20,
            prefix: log.log_prefix.clone(),
            syslog: !self.args.no_config,
        };
        (options, diagnostics)
    }

    /// Whether the log continues the earlier one.
    pub fn accumulates(&self) -> bool {
        self.options.log.accum_log_file
    }

    /// Directory of dump files.
    pub fn dump_dir(&self) -> String {
        self.options.log.dump_files_dir.clone().unwrap_or_else(|| std::env::temp_dir().to_string_lossy().into_owned())
    }

    /// All options in force, as the text of a configuration file.
    pub fn shown(&self) -> String {
        options::create_config(&self.options)
    }

    /// The setup of a manager on a port, and diagnostics about the files that options name. If the manager already runs
    /// with `former`, partitions and policy whose files cannot be used stay as in `former`.
    pub fn setup(&self, guid: u64, former: Option<&Setup>) -> (Setup, Vec<Diagnostic>) {
        let mut text = |path: &str| read(Path::new(path)).map_err(|error| format!("{:#}", error.root_cause()));
        let (mut setup, mut diagnostics) = Setup::configured(guid, &self.options, &mut text);
        let home = self.path.as_deref().and_then(Path::parent);
        diagnostics.extend(unread::files(&self.options, home, &mut text));
        diagnostics.extend(former.into_iter().flat_map(|former| unread::keep(&mut setup, former)));
        setup.guid2lid = self.lids_path().map(|path| kept(&path, false)).unwrap_or_default();
        setup.guid2mkey = self.keys_path().map(|path| kept(&path, false)).unwrap_or_default();
        if let Some(path) = &self.options.routing.sa_db_file {
            setup.sa_db = kept(Path::new(path), true);
        }
        setup.never_master |= self.args.never_master;
        setup.yields |= self.args.yields;
        (setup, diagnostics)
    }

    fn lids_path(&self) -> Option<PathBuf> {
        self.cache.as_ref().map(|directory| directory.join("guid2lid"))
    }

    fn keys_path(&self) -> Option<PathBuf> {
        self.cache.as_ref().map(|directory| directory.join(KEYS_FILE))
    }

    /// Stores the ports' M_Keys, without which the keys could not be changed later.
    pub fn keep_keys(&mut self, manager: &Manager, log: &mut Log) {
        if let Some(path) = self.keys_path() {
            self.keep(path, "the M_Keys", &manager.guid2mkey(), log);
        }
    }

    /// Stores the assigned LIDs, so that they stay the same.
    pub fn keep_lids(&mut self, manager: &Manager, log: &mut Log) {
        if let Some(path) = self.lids_path() {
            self.keep(path, "the LIDs", &manager.guid2lid(), log);
        }
    }

    /// Retries the failed writes.
    pub fn keep_again(&mut self, manager: &mut Manager, log: &mut Log) {
        if self.stuck.is_empty() {
            return;
        }
        self.keep_lids(manager, log);
        self.keep_keys(manager, log);
        self.keep_data_base(manager, log);
    }

    /// Writes a whole file. Logs the first of several failures, and the recovery.
    fn keep(&mut self, path: PathBuf, what: &str, text: &str, log: &mut Log) {
        let name = path.display();
        match replace(&path, text, self.options.misc.fsync_high_avail_files) {
            Ok(()) if self.stuck.contains(&path) => {
                log.line(Level::Info, &format!("{what} are kept in {name} again"));
                self.stuck.remove(&path);
            }
            Ok(()) => {}
            Err(error) if !self.stuck.contains(&path) => {
                let text = format!("cannot keep {what} in {name}: {error}; it is tried again after each sweep");
                log.line(Level::Error, &text);
                self.stuck.insert(path);
            }
            Err(_) => {}
        }
    }
}

impl Files {
    /// Stores the administrator's records, if the options ask for it.
    pub fn keep_data_base(&mut self, manager: &mut Manager, log: &mut Log) {
        if !self.options.routing.sa_db_dump {
            return;
        }
        let path = Path::new(&self.dump_dir()).join("opensm-sa.dump");
        let text = manager.sa_db();
        self.keep(path, "the records of subnet administration", &text, log);
    }
}

/// Writes a temporary file, then renames it: a reader sees either the old file or the new one.
fn replace(path: &Path, text: &str, sync: bool) -> std::io::Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let beside = path.with_extension("tmp");
    // Other users must not read keys.
    let mode = if path.ends_with(KEYS_FILE) { 0o600 } else { 0o644 };
    let _ = std::fs::remove_file(&beside);
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| if sync { file.sync_all() } else { Ok(()) });
    if let Err(error) = written {
        let _ = std::fs::remove_file(&beside);
        return Err(error);
    }
    std::fs::rename(&beside, path)
}

/// Reads the data that an earlier manager stored. An unreadable file counts as empty, with an error message, unless it
/// is optional and missing.
fn kept(path: &Path, must_exist: bool) -> String {
    named_file::read(path).unwrap_or_else(|error| {
        if must_exist || error.kind() != std::io::ErrorKind::NotFound {
            let fix = "fix that and restart to continue from it";
            crate::errln!("weft sm: cannot read {}: {error}: starting without its data; {fix}", path.display());
        }
        String::new()
    })
}

fn find(args: &RunArgs) -> Option<PathBuf> {
    if args.no_config {
        return None;
    }
    let known = || DIRECTORIES.iter().map(|directory| Path::new(directory).join("opensm.conf"));
    args.config.clone().or_else(|| known().find(|path| path.exists()))
}

/// Directory of the stored LIDs.
pub fn cache_directory() -> PathBuf {
    std::env::var_os(CACHE_VARIABLE).map_or_else(|| PathBuf::from(CACHE_DIRECTORY), PathBuf::from)
}

/// Reads a file, up to the size limit of a configuration.
pub fn read(path: &Path) -> Result<String> {
    named_file::read_up_to(path, FILE_LEN_MAX).with_context(|| format!("cannot read {}", path.display()))
}
