//! The files of a manager: opensm.conf and those that it names, read; LIDs, kept.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use weft_sm::manager::{Level, Manager, Setup};
use weft_sm::options::{self, DIRECTORIES, FILE_LEN_MAX, Options, Remark};

use super::args::RunArgs;
use super::journal::Journal;

/// Where OpenSM keeps LIDs, unless `OSM_CACHE_DIR` says otherwise.
const CACHE_DIRECTORY: &str = "/var/cache/opensm";

/// Everything that a manager reads.
pub struct Files {
    args: RunArgs,
    path: Option<PathBuf>,
    options: Options,
    remarks: Vec<Remark>,
    cache: Option<PathBuf>,
}

impl Files {
    /// Reads the configuration file that is named, or the first that there is.
    ///
    /// # Errors
    /// A file that was named cannot be read, or the command line has mistakes.
    pub fn load(args: &RunArgs) -> Result<Files> {
        let mut files = Files {
            args: args.clone(),
            path: find(args),
            options: Options::default(),
            remarks: Vec::new(),
            cache: (!args.no_config).then(cache_directory),
        };
        files.reload()?;
        Ok(files)
    }

    /// Reads them again.
    ///
    /// # Errors
    /// As [`Files::load`].
    pub fn reload(&mut self) -> Result<()> {
        let mut options = match &self.path {
            Some(path) => Options::of_directory(&path.parent().unwrap_or(Path::new(".")).to_string_lossy()),
            None => Options::default(),
        };
        let mut remarks = Vec::new();
        if self.args.no_config {
            self.forget_defaults(&mut options);
        }
        if let Some(path) = &self.path {
            let text = read(path)?;
            (options, remarks) = options::parse(&text, &path.to_string_lossy(), options);
        }
        for (name, value) in self.args.overrides().map_err(anyhow::Error::msg)? {
            let Some(option) = options::option(&name) else { bail!("no option is called {name}") };
            (option.set)(&mut options, &value).map_err(|wrong| anyhow::anyhow!("{name}: {wrong}"))?;
        }
        (self.options, self.remarks) = (options, remarks);
        Ok(())
    }

    /// Of a manager that reads nothing that was not named.
    fn forget_defaults(&self, options: &mut Options) {
        options.partitions.partition_config_file = None;
        options.qos.qos_policy_file = None;
        options.routing.torus_config = None;
        options.misc.prefix_routes_file = None;
        options.log.per_module_logging_file = None;
        options.log.log_file = None;
        options.log.dump_files_dir = None;
    }

    /// What they say.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// What is to be said of them.
    pub fn remarks(&self) -> &[Remark] {
        &self.remarks
    }

    /// The port that the file names.
    pub fn guid(&self) -> Option<u64> {
        Some(self.options.device.guid).filter(|guid| *guid != 0)
    }

    /// Where the log goes; standard output is none.
    pub fn log_path(&self) -> Option<PathBuf> {
        self.options.log.log_file.as_ref().filter(|name| *name != "stdout").map(PathBuf::from)
    }

    /// What the log tells.
    pub fn log_flags(&self) -> u8 {
        self.options.log.log_flags
    }

    /// How long it may become.
    pub fn log_len_max_mib(&self) -> u64 {
        self.options.log.log_max_size.into()
    }

    /// Whether it goes on where an earlier one ended.
    pub fn accumulates(&self) -> bool {
        self.options.log.accum_log_file
    }

    /// Where dump files go.
    pub fn dump_dir(&self) -> String {
        self.options.log.dump_files_dir.clone().unwrap_or_else(|| std::env::temp_dir().to_string_lossy().into_owned())
    }

    /// All options that are in force, as a file.
    pub fn shown(&self) -> String {
        options::create_config(&self.options)
    }

    /// What the manager on a port works by. What is wrong with the files that options name is said on standard error.
    pub fn setup(&self, guid: u64) -> Setup {
        let mut text = |path: &str| read(Path::new(path)).map_err(|error| format!("{:#}", error.root_cause()));
        let (mut setup, remarks) = Setup::configured(guid, &self.options, &mut text);
        for remark in remarks {
            eprintln!("weft sm: {remark}");
        }
        setup.guid2lid = self.lids_path().and_then(|path| read(&path).ok()).unwrap_or_default();
        if let Some(path) = &self.options.routing.sa_db_file {
            setup.sa_db = read(Path::new(path)).unwrap_or_default();
        }
        setup.never_master |= self.args.never_master;
        setup.yields |= self.args.yields;
        setup
    }

    fn lids_path(&self) -> Option<PathBuf> {
        self.cache.as_ref().map(|directory| directory.join("guid2lid"))
    }

    /// Keeps the LIDs that are given, so that they stay the same.
    pub fn keep_lids(&self, manager: &Manager, journal: &mut Journal) {
        let Some(path) = self.lids_path() else { return };
        if let Err(error) = replace(&path, &manager.guid2lid()) {
            journal.line(Level::Error, &format!("cannot keep the LIDs in {}: {error}", path.display()));
        }
    }
}

impl Files {
    /// Keeps what the administrator knows, if that is wanted.
    pub fn keep_data_base(&self, manager: &mut Manager, journal: &mut Journal) {
        if !self.options.routing.sa_db_dump {
            return;
        }
        let path = Path::new(&self.dump_dir()).join("opensm-sa.dump");
        if let Err(error) = replace(&path, &manager.sa_db()) {
            journal.line(Level::Error, &format!("cannot keep the data base in {}: {error}", path.display()));
        }
    }
}

/// Writes a file beside, then puts it in place: a reader sees the old one or the new one.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let beside = path.with_extension("tmp");
    std::fs::write(&beside, text)?;
    std::fs::rename(&beside, path)
}

fn find(args: &RunArgs) -> Option<PathBuf> {
    if args.no_config {
        return None;
    }
    let known = || DIRECTORIES.iter().map(|directory| Path::new(directory).join("opensm.conf"));
    args.config.clone().or_else(|| known().find(|path| path.exists()))
}

fn cache_directory() -> PathBuf {
    std::env::var_os("OSM_CACHE_DIR").map_or_else(|| PathBuf::from(CACHE_DIRECTORY), PathBuf::from)
}

/// A file's text, as much as a configuration may have.
pub fn read(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    file.take(FILE_LEN_MAX as u64)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
