//! `weft doctor`: what it says of machines with and without faults, and of programs that Weft cannot serve.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use weft_interop::{Ended, Lab, Shape, Table, Who, product, skip};

const STATIC_PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/loader/static.c");
const TIME: Duration = Duration::from_secs(60);

#[test]
fn the_doctor_finds_what_keeps_weft_from_working() {
    if !skip::have("weft doctor", &["ip", "cc", "ibv_devinfo"]) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("doctor");
    for who in Who::BOTH {
        table.case(&format!("{who:?}: a machine that is well"), || {
            let ended = doctor(&lab, who, &["--", "ibv_devinfo"])?.success()?;
            ensure!(ended.text.contains("Weft works here"), "{}", ended.text);
            ensure!(!ended.text.contains("error "), "{}", ended.text);
            Ok(())
        });
    }
    table.case("JSON", || {
        let ended = doctor(&lab, Who::Root, &["--json"])?.success()?;
        let report: Value = serde_json::from_str(&ended.text).with_context(|| ended.report())?;
        ensure!(report["works"] == true, "{report}");
        let state = |name: &str| state_of(&report, name);
        for check in ["kernel", "libraries", "daemon", "devices", "namespaces", "memory"] {
            ensure!(state(check).as_deref() == Some("ok"), "{check}: {report}");
        }
        Ok(())
    });
    table.case("a program that does not exist", || {
        let ended = doctor(&lab, Who::Root, &["--", "/nonexistent/tool"])?;
        ensure!(failed(&ended) && ended.text.contains("there is no program /nonexistent/tool"), "{}", ended.text);
        Ok(())
    });
    table.case("a statically linked program with verbs", || {
        let program = lab.file("static");
        compile(Path::new(STATIC_PROGRAM), &program)?;
        let ended = doctor(&lab, Who::Ordinary, &["--", utf8(&program)?])?;
        ensure!(failed(&ended) && ended.text.contains("brings its own verbs"), "{}", ended.text);
        Ok(())
    });
    table.case("weft run names a static program, and is quiet on request", || {
        let (source, program) = (lab.file("nothing.c"), lab.file("nothing"));
        std::fs::write(&source, "int main(void) { return 0; }\n")?;
        compile(&source, &program)?;
        let program = utf8(&program)?;
        let run = |options: &[&str]| {
            let words = [&["run"], options, &["--", program]].concat();
            lab.weft(lab.client(), Who::Ordinary, &[], &words)?.success()
        };
        let said = run(&[])?.text;
        ensure!(
            said.contains("it is statically linked, so no loader gives it Weft's") && said.lines().count() == 1,
            "{said}"
        );
        let quiet = run(&["-q"])?.text;
        ensure!(quiet.is_empty(), "{quiet}");
        let ended = doctor(&lab, Who::Ordinary, &["--", program])?.success()?;
        ensure!(ended.text.contains("programs that it starts are served"), "{}", ended.text);
        Ok(())
    });
    table.case("no namespaces: a warning, not an error", || {
        let ended = doctor_without_namespaces(&lab)?.success()?;
        ensure!(ended.text.contains("cannot make a private mount namespace"), "{}", ended.text);
        Ok(())
    });
    table.finish();
}

#[test]
fn the_doctor_names_a_program_on_the_port() {
    if !skip::have("weft doctor and the port", &["ip", "python3"]) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("doctor: UDP 4791");
    table.case("another program has it", || {
        let script = "import socket,time\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\ns.bind(('',4791))\n\
                      print('bound',flush=True)\ntime.sleep(60)";
        let mut holder = lab.start_bare(lab.client(), Who::Root, &["python3", "-c", script])?;
        ensure!(holder.wait_until(TIME, |holder| holder.text().contains("bound")), "{}", holder.text());
        let ended = doctor(&lab, Who::Root, &[])?;
        let named = format!("process {})", holder.pid());
        ensure!(failed(&ended) && ended.text.contains("python3") && ended.text.contains(&named), "{}", ended.text);
        drop(holder);
        doctor(&lab, Who::Root, &[])?.success()?;
        Ok(())
    });
    table.finish();
}

#[test]
fn the_doctor_compares_the_libraries() {
    if !skip::have("weft doctor and the libraries", &["ip", "cp"]) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("doctor: libraries");
    table.case("a library that is not Weft's", || {
        let weft = product::weft()?;
        let dir = weft.parent().context("the command has a directory")?.join("rdma");
        let copy = lab.file("libraries");
        std::fs::create_dir_all(&copy)?;
        for soname in ["libibverbs.so.1", "librdmacm.so.1"] {
            std::fs::copy(dir.join(soname), copy.join(soname))?;
        }
        std::fs::copy("/bin/true", copy.join("libibumad.so.3"))?;
        let env = [("WEFT_LIB_DIR", utf8(&copy)?)];
        let ended = lab.weft(lab.client(), Who::Root, &env, &["doctor"])?;
        ensure!(failed(&ended) && ended.text.contains("libibumad.so.3 is not a library of Weft"), "{}", ended.text);
        ensure!(!ended.text.contains("libibverbs.so.1 is"), "{}", ended.text);
        Ok(())
    });
    table.finish();
}

fn doctor(lab: &Lab, who: Who, words: &[&str]) -> Result<Ended> {
    lab.weft(lab.client(), who, &[], &[&["doctor"], words].concat())
}

/// Exit status 1 means that Weft does not work.
fn failed(ended: &Ended) -> bool {
    ended.status.and_then(|status| status.code()) == Some(1)
}

fn state_of(report: &Value, check: &str) -> Option<String> {
    let finding = report["findings"].as_array()?.iter().find(|finding| finding["check"] == check)?;
    finding["state"].as_str().map(str::to_owned)
}

/// Runs it in a chroot, where the kernel makes no user namespaces.
fn doctor_without_namespaces(lab: &Lab) -> Result<Ended> {
    let words = lab.in_a_chroot(&format!("{} doctor", product::weft()?.display()))?;
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    Ok(lab.start_bare(lab.client(), Who::Root, &words)?.wait(TIME))
}

fn compile(source: &Path, program: &Path) -> Result<()> {
    let status = Command::new("cc").args(["-static", "-O1", "-o"]).arg(program).arg(source).status()?;
    ensure!(status.success(), "{} does not compile", source.display());
    Ok(())
}

fn utf8(path: &Path) -> Result<&str> {
    path.to_str().context("a path in UTF-8")
}
