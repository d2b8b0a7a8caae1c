//! Debian's own pyverbs tests, unmodified: each passes, or is skipped for a reason that applies to Linux's rxe too.
//!
//! Every module runs in a process of its own, so that a crash costs only that module's results. `pyverbs-skips.txt`
//! lists the allowed skips with their reasons; any other skip fails.

use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;
use weft_interop::{Lab, Path, Shape, Table, Who, skip, table};

const SOURCE: &str = "/usr/share/doc/rdma-core/tests";

/// Modules for other hardware.
const EXCLUDED: &[&str] = &["test_mlx5", "test_efa", "test_cuda"];

/// Time limit of a module.
const MODULE_LIMIT: Duration = Duration::from_secs(180);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Ok,
    Skipped(String),
    Failed(String),
}

#[test]
fn as_root() {
    run("pyverbs as root", Path::SameHost, Who::Root);
}

#[test]
fn as_root_by_packets() {
    run("pyverbs as root, by packets", Path::Wire, Who::Root);
}

#[test]
fn as_an_ordinary_user() {
    if !table::quick() {
        run("pyverbs as an ordinary user", Path::SameHost, Who::Ordinary);
    }
}

fn run(name: &'static str, path: Path, who: Who) {
    let runner = format!("{SOURCE}/run_tests.py");
    if !std::path::Path::new(&runner).exists() {
        skip::skip(name, &format!("{runner} is missing (package python3-pyverbs)"));
        return;
    }
    let lab = Lab::new(Shape::One).expect("a lab").on(path);
    let modules = unpack(&lab).expect("Debian's tests unpack");
    let allowed = allowed_skips();
    let mut table = Table::new(name);
    for module in &modules {
        table.case(module, || {
            let device = &lab.device(lab.client())?.name;
            let dir = lab.file("tests");
            let script = format!(
                "cd {} && exec /usr/bin/python3 -B run_tests.py --dev {device} -v tests.{module}",
                dir.display()
            );
            let started = lab.start(lab.client(), who, &[], &["sh", "-c", &script])?;
            let ended = started.wait(MODULE_LIMIT);
            let verdicts = parse(&ended.text);
            let mut wrong = Vec::new();
            for (test, verdict) in &verdicts {
                match verdict {
                    Verdict::Ok => {}
                    Verdict::Skipped(why) if allowed.iter().any(|pattern| matches(pattern, test)) => {
                        table::note(&format!("    skipped as on rxe: {test}: {why}"));
                    }
                    Verdict::Skipped(why) => wrong.push(format!("{test} was skipped: {why}")),
                    Verdict::Failed(how) => wrong.push(format!("{test}: {how}")),
                }
            }
            let passed = verdicts.values().filter(|v| **v == Verdict::Ok).count();
            table::note(&format!("    {module}: {passed} of {} passed", verdicts.len()));
            ensure!(!verdicts.is_empty(), "no test ran:\n{}", ended.report());
            if !wrong.is_empty() || !ended.ok() {
                let kept = lab_log(name, module, &ended.text)?;
                bail!("{}\n      {}; all of it is in {kept}", wrong.join("\n      "), ended.how());
            }
            Ok(())
        });
    }
    table.finish();
}

/// Writes a module's output to a file that outlives the lab.
fn lab_log(name: &str, module: &str, text: &str) -> Result<String> {
    let dir = weft_interop::product::target().join("pyverbs");
    std::fs::create_dir_all(&dir)?;
    let path = dir.join(format!("{}-{module}.log", name.replace(' ', "-")));
    std::fs::write(&path, text)?;
    Ok(path.display().to_string())
}

/// Unpacks the tests, except those for other hardware, to the lab's directory `tests`. Returns the modules' names.
fn unpack(lab: &Lab) -> Result<Vec<String>> {
    let dir = lab.file("tests");
    let at = dir.display();
    let words = format!("cp -r {SOURCE} {at} && chmod -R u+w {at} && gunzip -f {at}/*.gz && chmod -R a+rX {at}");
    ensure!(Command::new("sh").args(["-c", &words]).status()?.success(), "{words}");
    let mut modules = Vec::new();
    for path in std::fs::read_dir(&dir)?.flatten().map(|e| e.path()) {
        let name = path.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        if EXCLUDED.iter().any(|prefix| name.starts_with(prefix)) {
            std::fs::remove_file(&path).with_context(|| path.display().to_string())?;
        } else if name.starts_with("test_") {
            modules.push(name);
        }
    }
    modules.sort();
    Ok(modules)
}

/// Returns the patterns of `pyverbs-skips.txt`: a test's name, or its beginning and a star.
fn allowed_skips() -> Vec<String> {
    let text = include_str!("../pyverbs-skips.txt");
    let rows = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    rows.filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
}

fn matches(pattern: &str, test: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == test, |start| test.starts_with(start))
}

/// Parses unittest's verbose output: `test_x (tests.test_cq.CQTest)`, perhaps a docstring, ` ... ok`.
fn parse(text: &str) -> BTreeMap<String, Verdict> {
    let mut verdicts = BTreeMap::new();
    let mut current: Option<String> = None;
    for line in text.lines() {
        if let Some(name) = test_name(line) {
            // Every test has a verdict before the next one begins: its line comes at its end.
            current = Some(name);
        }
        let Some((_, end)) = line.rsplit_once(" ... ").or(Some(("", line))).filter(|_| current.is_some()) else {
            continue;
        };
        let verdict = match end.trim() {
            "ok" => Verdict::Ok,
            "FAIL" | "ERROR" => Verdict::Failed(end.trim().into()),
            end => match end.strip_prefix("skipped ") {
                Some(why) => Verdict::Skipped(why.trim_matches(['\'', '"']).into()),
                None => continue,
            },
        };
        if let Some(name) = current.take() {
            verdicts.insert(name, verdict);
        }
    }
    if let Some(name) = current {
        verdicts.insert(name, Verdict::Failed("never ended: the process crashed or hung in it".into()));
    }
    verdicts
}

/// Returns `test_cq.CQTest.test_x` for `test_x (tests.test_cq.CQTest)` (newer Pythons repeat the method's name).
fn test_name(line: &str) -> Option<String> {
    let (method, rest) = line.split_once(" (")?;
    let class = rest.split_once(')')?.0.strip_prefix("tests.")?;
    let known = method.starts_with("test") || method.starts_with("setUpClass");
    if !known || method.contains(' ') || line.starts_with("ERROR:") {
        return None;
    }
    let class = class.strip_suffix(&format!(".{method}")).unwrap_or(class);
    Some(format!("{class}.{method}"))
}

#[test]
fn the_output_of_unittest_is_understood() {
    let text = "test_a (tests.test_cq.CQTest) ... ok\n\
                test_b (tests.test_cq.CQTest)\nWhat it does. ... skipped 'no such thing'\n\
                test_c (tests.test_cq.CQTest) ... FAIL\n\
                test_d (tests.test_cq.CQTest) ... chatter of the library\nok\n\
                test_e (tests.test_cq.CQTest) ... ";
    let verdicts = parse(text);
    assert_eq!(verdicts.len(), 5);
    assert_eq!(verdicts["test_cq.CQTest.test_b"], Verdict::Skipped("no such thing".into()));
    assert_eq!(verdicts["test_cq.CQTest.test_d"], Verdict::Ok);
    assert!(matches!(&verdicts["test_cq.CQTest.test_e"], Verdict::Failed(how) if how.contains("crashed")));
    assert!(matches("test_odp.*", "test_odp.OdpTestCase.test_x") && !matches("test_odp", "test_odp.X.y"));
}
