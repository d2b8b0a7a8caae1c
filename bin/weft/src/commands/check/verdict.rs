//! The reports of a run: read, filtered, and judged.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use weft_check::{Collection, INCOMPLETE_MODE, Report, Severity, Suppressions, rules};

use super::args::{Leaks, ReportArgs};
use crate::commands::run::FAILED;

/// Largest file of reports of one process. The library writes a bounded number of reports.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// The rule about objects that are left at the end.
const LEAKS: &rules::Rule = &rules::OBJECT_LEAKED;

/// Rules and suppressions by which reports are left out.
#[derive(Debug, Default)]
pub struct Filter {
    only: Vec<String>,
    ignore: Vec<String>,
    has_leaks: bool,
    suppressions: Suppressions,
}

impl Filter {
    /// Reads the files of suppressions.
    ///
    /// # Errors
    /// No rule has a name that the options give; a file is missing or wrong.
    pub fn new(args: &ReportArgs) -> Result<Filter> {
        for name in args.only.iter().chain(&args.ignore) {
            if rules::find(name).is_none() {
                bail!("no rule is called `{name}`; `weft check --rules` lists them");
            }
        }
        let mut suppressions = Suppressions::default();
        for file in &args.suppressions {
            let named = || format!("--suppressions {}", file.display());
            let text = fs::read_to_string(file).with_context(named)?;
            suppressions.extend(Suppressions::parse(&text).with_context(named)?);
        }
        // A user who names the rule wants it.
        let has_leaks = args.leaks == Leaks::Yes || args.only.iter().any(|name| name == LEAKS.name);
        Ok(Filter { only: args.only.clone(), ignore: args.ignore.clone(), has_leaks, suppressions })
    }

    fn is_wanted(&self, report: &Report) -> bool {
        let is_only = self.only.is_empty() || self.only.contains(&report.rule);
        is_only && !self.ignore.contains(&report.rule) && (self.has_leaks || report.rule != LEAKS.name)
    }
}

/// The reports of a run that are left, and what is known of its processes.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Reports that no option and no suppression leaves out.
    pub reports: Vec<Report>,
    /// Reports that a suppression leaves out.
    pub suppressed: usize,
    /// Processes that used a device.
    pub processes: usize,
    /// Those that were killed, or still run: their leaks are unknown.
    pub unfinished: usize,
    /// Those whose reports are missing or incomplete: whether they broke a rule is unknown.
    pub incomplete: usize,
    /// Limits of the checker that the run met, and files that cannot be read.
    pub notes: Vec<String>,
}

impl Verdict {
    /// Reads the files of all processes.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn read(directory: &Path, filter: &Filter) -> Result<Verdict> {
        let mut collection = Collection::default();
        let mut verdict = Verdict::default();
        for file in files(directory).with_context(|| directory.display().to_string())? {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            verdict.processes += 1;
            match read(&file) {
                // A process that was killed may leave half a line.
                Ok((text, is_complete)) => {
                    drop(collection.add_file(&text));
                    if !is_complete {
                        verdict.lacks(format!(
                            "reports in {name} are incomplete: its process could not write them; is the disk full?"
                        ));
                    }
                }
                Err(error) => {
                    verdict.lacks(format!("reports in {name} are missing: {}", crate::errno::text(&error)));
                }
            }
        }
        verdict.unfinished = verdict.processes.saturating_sub(collection.ends().len());
        verdict.note_limits(&collection);
        for report in collection.reports().iter().filter(|report| filter.is_wanted(report)) {
            if filter.suppressions.matches(report) {
                verdict.suppressed += 1;
            } else {
                verdict.reports.push(report.clone());
            }
        }
        Ok(verdict)
    }

    fn lacks(&mut self, note: String) {
        self.incomplete += 1;
        self.notes.push(note);
    }

    fn note_limits(&mut self, collection: &Collection) {
        let total = |of: fn(&weft_check::End) -> u64| collection.ends().iter().map(of).fold(0, u64::saturating_add);
        for (count, what) in [
            (total(|end| end.untracked), "objects and requests were beyond the checker's limits"),
            (total(|end| end.reports_dropped), "reports were beyond the checker's limit"),
        ] {
            if count > 0 {
                self.notes.push(format!("{count} {what}"));
            }
        }
        let skipped = total(|end| end.buffers_skipped);
        if skipped > 0 {
            let of = skipped.saturating_add(total(|end| end.buffers_compared));
            let longer =
                format!("{skipped} of {of} send buffers were too long to compare; --snapshot BYTES raises the limit");
            self.notes.push(longer);
        }
    }

    /// Whether an error is left.
    pub fn has_errors(&self) -> bool {
        self.reports.iter().any(|report| report.severity == Severity::Error)
    }

    /// Whether there is anything to say.
    pub fn is_silent(&self) -> bool {
        self.reports.is_empty() && self.incomplete == 0
    }

    /// The exit status of this command if the program's is `code`; `of_errors` is that of errors, and 0 leaves the program's.
    pub fn exit_code(&self, code: u8, of_errors: u8) -> u8 {
        match of_errors {
            0 => code,
            _ if self.has_errors() => of_errors,
            _ if code == 0 && self.incomplete > 0 => FAILED,
            _ => code,
        }
    }
}

/// Files of processes, in the order of their names.
fn files(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Returns a file's text, and whether its process could write everything.
fn read(file: &Path) -> std::io::Result<(String, bool)> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let file = fs::File::open(file)?;
    let is_complete = file.metadata()?.mode() & INCOMPLETE_MODE == 0;
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), is_complete))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_check::{End, Line};

    fn report(rule: &rules::Rule) -> Report {
        Report {
            rule: rule.name.to_owned(),
            severity: rule.severity,
            message: "the program did it".to_owned(),
            object: "qp 0x000011".to_owned(),
            call: "ibv_post_send".to_owned(),
            stack: vec!["main (/bin/a+0x1)".to_owned()],
            history: Vec::new(),
            clause: rule.clause.to_owned(),
            advice: rule.advice.to_owned(),
            count: 1,
            program: "/bin/a".to_owned(),
            pid: 1,
            thread: 1,
        }
    }

    /// The verdict about two processes, one of which was killed in the middle of a line.
    fn verdict(args: &ReportArgs) -> Verdict {
        let dir = std::env::temp_dir().join(format!("weft-verdict-{:x}", weft_sys::random::u64()));
        fs::create_dir(&dir).unwrap();
        let reports = [&rules::KEY_STALE, &rules::TIMEOUT_ZERO, &rules::OBJECT_LEAKED].map(report);
        let mut lines = weft_check::render::json_lines(&reports);
        let end = End { buffers_compared: 1, buffers_skipped: 2, ..End::default() };
        lines += &(Line::End { end }.to_json() + "\n");
        fs::write(dir.join("1.jsonl"), lines).unwrap();
        fs::write(dir.join("2.jsonl"), "{\"rule\":\"key-").unwrap();
        fs::write(dir.join("notes.txt"), "not a process's").unwrap();
        let verdict = Verdict::read(&dir, &Filter::new(args).unwrap()).unwrap();
        fs::remove_dir_all(dir).unwrap();
        verdict
    }

    fn names(verdict: &Verdict) -> Vec<&str> {
        verdict.reports.iter().map(|report| report.rule.as_str()).collect()
    }

    #[test]
    fn reports_of_all_processes_are_judged_together() {
        let verdict = verdict(&ReportArgs::default());
        assert_eq!(names(&verdict), ["key-stale", "timeout-zero"]);
        assert_eq!((verdict.processes, verdict.unfinished, verdict.has_errors()), (2, 1, true));
        assert!(verdict.notes[0].starts_with("2 of 3 send buffers"), "{:?}", verdict.notes);
    }

    #[test]
    fn a_file_without_all_reports_is_no_clean_run() {
        use std::os::unix::fs::PermissionsExt;
        let dir = std::env::temp_dir().join(format!("weft-incomplete-{:x}", weft_sys::random::u64()));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("1.jsonl"), "").unwrap();
        fs::set_permissions(dir.join("1.jsonl"), fs::Permissions::from_mode(0o600 | INCOMPLETE_MODE)).unwrap();
        let verdict = Verdict::read(&dir, &Filter::default()).unwrap();
        fs::remove_dir_all(dir).unwrap();
        assert!(verdict.notes[0].contains("1.jsonl are incomplete"), "{:?}", verdict.notes);
        let codes = [(0, 99), (3, 99), (0, 0)].map(|(code, of_errors)| verdict.exit_code(code, of_errors));
        assert_eq!((codes, verdict.is_silent()), ([FAILED, 3, 0], false));
    }

    #[test]
    fn options_choose_rules() {
        let only = |rule: &str| ReportArgs { only: vec![rule.to_owned()], ..ReportArgs::default() };
        assert_eq!(names(&verdict(&only("timeout-zero"))), ["timeout-zero"]);
        assert_eq!(names(&verdict(&only("object-leaked"))), ["object-leaked"]);
        let ignore = ReportArgs { ignore: vec!["key-stale".to_owned()], leaks: Leaks::Yes, ..ReportArgs::default() };
        assert!(!verdict(&ignore).has_errors());
        assert_eq!(names(&verdict(&ignore)), ["timeout-zero", "object-leaked"]);
        assert!(Filter::new(&only("key-stole")).unwrap_err().to_string().contains("key-stole"));
    }

    #[test]
    fn suppressed_reports_are_counted() {
        let file = std::env::temp_dir().join(format!("weft-suppressions-{:x}.toml", weft_sys::random::u64()));
        fs::write(&file, "[[suppress]]\nrule = \"key-*\"\n").unwrap();
        let verdict = verdict(&ReportArgs { suppressions: vec![file.clone()], ..ReportArgs::default() });
        fs::remove_file(file).unwrap();
        assert_eq!((verdict.suppressed, verdict.has_errors()), (1, false));
    }
}
