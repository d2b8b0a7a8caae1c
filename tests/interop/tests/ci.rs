//! Weft without `weft run` around every command: `weft env` in each shell, the GitHub action's script, `--wait-port`,
//! and a container with a device of the Container Device Interface.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use weft_interop::{Lab, Shape, Table, Who, product, skip};

const TIME: Duration = Duration::from_secs(60);

#[test]
fn shells_take_the_variables() {
    if !skip::have("weft env in each shell", &["ip", "fish", "tcsh", "ibv_devices"]) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let weft = product::weft().expect("the product");
    let weft = weft.display();
    let mut table = Table::new("weft env");
    for (shell, script) in [
        ("sh", format!("eval $({weft} env); exec ibv_devices")),
        ("fish", format!("{weft} env --shell fish | source; exec ibv_devices")),
        ("tcsh", format!("eval `{weft} env --shell csh`; exec ibv_devices")),
    ] {
        table.case(shell, || {
            let ended = lab.start_bare(lab.client(), Who::Ordinary, &[shell, "-c", &script])?.wait(TIME).success()?;
            ensure!(ended.text.contains("rxe_lo"), "{}", ended.report());
            Ok(())
        });
    }
    table.finish();
}

#[test]
fn the_action_prepares_later_steps() {
    if !skip::have("the GitHub action's script", &["ip", "bash", "ibv_devices", "setsid"]) {
        return;
    }
    let lab = Lab::new(Shape::One).expect("a lab");
    let mut table = Table::new("action.yml");
    table.case("a device with a name, faults, a fabric", || {
        let files = ["env", "path", "output"].map(|name| lab.file(name));
        files.iter().try_for_each(|file| std::fs::write(file, "OLD=1\n"))?;
        let ended = setup(
            &lab,
            &files,
            &[
                ("INPUT_INTERFACE", "eth0"),
                ("INPUT_DEVICE_NAME", "rxe_ci"),
                ("INPUT_FAULTS", "loss=1%,seed=7"),
                ("INPUT_FABRIC", "--star 2"),
            ],
        )?
        .success()?;
        ensure!(ended.text.contains("Weft works here"), "{}", ended.report());
        let [env, path, output] = files.each_ref().map(|file| std::fs::read_to_string(file).unwrap_or_default());
        ensure!(env.starts_with("OLD=1\n") && env.contains("\nWEFT_FAULT=loss=1%,seed=7\n"), "{env}");
        ensure!(env.contains("\nLD_LIBRARY_PATH=") && env.contains("\nWEFT_BIN="), "{env}");
        ensure!(path.lines().count() == 2, "{path}");
        ensure!(output.ends_with("interface=eth0\ndevice-name=rxe_ci\n"), "{output}");
        // As the runner does for each later step.
        let later: Vec<_> = env.lines().filter_map(|line| line.split_once('=')).collect();
        let line = lab.bare(lab.client(), Who::Ordinary, &["ibv_devices"]);
        let ended = lab.start_line(&line, &later)?.wait(TIME).success()?;
        ensure!(ended.text.contains("rxe_ci"), "{}", ended.report());
        lab.weft(lab.client(), Who::Root, &[], &["run", "--host", "node1", "--", "ibv_devices"])?.success()?;
        Ok(())
    });
    table.case("an interface that does not exist, and faults without a unit", || {
        let files = ["env2", "path2", "output2"].map(|name| lab.file(name));
        let ended = setup(&lab, &files, &[("INPUT_INTERFACE", "eth7"), ("INPUT_DEVICE_NAME", "rxe_7")])?;
        ensure!(!ended.ok() && ended.text.contains("::error::Weft: no device rxe_7"), "{}", ended.report());
        let ended = setup(&lab, &files, &[("INPUT_INTERFACE", "eth0"), ("INPUT_FAULTS", "loss=1")])?;
        ensure!(!ended.ok() && ended.text.contains("::error::Weft: faults: loss=1"), "{}", ended.report());
        Ok(())
    });
    table.finish();
}

/// Runs the action's script in the lab.
fn setup(lab: &Lab, files: &[PathBuf; 3], inputs: &[(&str, &str)]) -> Result<weft_interop::Ended> {
    let script = product::root().join("dist/github/setup.sh");
    let weft = product::weft()?;
    let temp = lab.file("");
    let mut env = vec![("WEFT", utf8(&weft)?), ("RUNNER_TEMP", utf8(&temp)?)];
    for (name, file) in ["GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT"].into_iter().zip(files) {
        env.push((name, utf8(file)?));
    }
    env.extend(inputs);
    let line = lab.bare(lab.client(), Who::Root, &["bash", utf8(&script)?]);
    Ok(lab.start_line(&line, &env)?.wait(TIME))
}

#[test]
fn a_client_waits_for_its_server() {
    if !skip::have("weft run --wait-port", &["ip", "sh", "ibv_rc_pingpong", "rping"]) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let weft = product::weft().expect("the product");
    let weft = weft.display();
    let mut table = Table::new("weft run --wait-port");
    for (label, script) in [
        (
            "TCP",
            format!(
                "(sleep 0.7; exec {weft} run -- ibv_rc_pingpong -p 19001 -g 0) & \
                 {weft} run --wait-port 19001 -- ibv_rc_pingpong -p 19001 -g 0 localhost && wait"
            ),
        ),
        (
            "the RDMA connection manager",
            format!(
                "(sleep 0.7; exec {weft} run -- rping -s -a 127.0.0.1 -p 19002 -C 2) & \
                 {weft} run --wait-port 19002 -- rping -c -a 127.0.0.1 -p 19002 -C 2"
            ),
        ),
        (
            "with --detach",
            format!(
                "{weft} run --detach --wait-port 19003 -- sh -c 'sleep 0.7; exec ibv_rc_pingpong -p 19003 -g 0' \
                 && {weft} run -- ibv_rc_pingpong -p 19003 -g 0 localhost"
            ),
        ),
    ] {
        table.case(label, || {
            lab.start_bare(lab.client(), Who::Root, &["sh", "-c", &script])?.wait(TIME).success()?;
            Ok(())
        });
    }
    table.finish();
}

#[test]
fn a_container_gets_a_device() {
    if !skip::have("weft cdi", &["podman", "runc", "tar", "ibv_devices", "ldd"]) {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        skip::skip("weft cdi", "podman reads /var/run/cdi, where root alone may write");
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("weft cdi");
    let file = PathBuf::from(format!("/var/run/cdi/weft-test-{}.json", std::process::id()));
    // Not the default, so that another specification on this machine does not make the name ambiguous.
    let kind = format!("weft-test.internal/hca{}", std::process::id());
    let image = image(&lab);
    for device in ["0", "all"] {
        table.case(&format!("device {device} in podman"), || {
            image.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))?;
            std::fs::create_dir_all("/var/run/cdi")?;
            let words = ["cdi", "--kind", &kind, "--output", utf8(&file)?];
            lab.weft(lab.client(), Who::Root, &[], &words)?.success()?;
            let device = format!("{kind}={device}");
            // Limits below those of the test's own process: podman's default exceeds what some sandboxes allow.
            let run =
                ["run", "--rm", "--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"];
            let words = [&run[..], &["--device", device.as_str(), "weft-test", "/usr/bin/ibv_devices"]].concat();
            let out = podman(&lab).args(words).output()?;
            let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
            ensure!(out.status.success() && text.contains("rxe_lo"), "{text}");
            Ok(())
        });
    }
    let _ = std::fs::remove_file(&file);
    table.finish();
}

/// Podman with its storage in the lab.
fn podman(lab: &Lab) -> Command {
    let mut podman = Command::new("timeout");
    podman.args(["60", "podman", "--storage-driver", "vfs", "--runtime", "/usr/sbin/runc"]);
    podman.args(["--cgroup-manager", "cgroupfs", "--root"]).arg(lab.file("store"));
    podman.arg("--runroot").arg(lab.file("run"));
    podman
}

/// Imports an image with one program of this machine and the libraries that it needs.
fn image(lab: &Lab) -> Result<()> {
    const PROGRAM: &str = "/usr/bin/ibv_devices";
    let root = lab.file("image");
    let libraries = Command::new("ldd").arg(PROGRAM).output()?;
    // The command of Weft is the daemon in the container, and needs libraries, too.
    let command = Command::new("ldd").arg(product::weft()?).output()?;
    let texts = [libraries.stdout, command.stdout].map(|text| String::from_utf8_lossy(&text).into_owned());
    let words = texts.iter().flat_map(|text| text.split_whitespace()).filter(|word| word.starts_with('/'));
    for file in words.chain([PROGRAM]) {
        let to = root.join(file.trim_start_matches('/'));
        std::fs::create_dir_all(to.parent().context("a directory")?)?;
        std::fs::copy(file, to)?;
    }
    for dir in ["proc", "sys", "dev", "tmp", "run", "etc"] {
        std::fs::create_dir_all(root.join(dir))?;
    }
    let tar = lab.file("image.tar");
    ensure!(Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&tar).arg(".").status()?.success(), "tar");
    let out = podman(lab).arg("import").arg(&tar).arg("weft-test").output()?;
    ensure!(out.status.success(), "podman import: {}", String::from_utf8_lossy(&out.stderr));
    Ok(())
}

fn utf8(path: &Path) -> Result<&str> {
    path.to_str().context("a path in UTF-8")
}
