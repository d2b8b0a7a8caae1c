//! Weft without `weft run` around every command: `weft env` in each shell, the GitHub action's script, `--wait-port`,
//! and a container with a device of the Container Device Interface.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use weft_interop::{Lab, Shape, Side, Table, Who, product, skip};

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
fn containers_get_devices() {
    if !skip::have("weft cdi", &["podman", "runc", "tar", "ibv_devices", "ibv_rc_pingpong", "ldd"]) {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        skip::skip("weft cdi", "podman reads /var/run/cdi, where root alone may write");
        return;
    }
    let lab = Lab::new(Shape::Two { mtu: 1500 }).expect("a lab");
    let mut table = Table::new("weft cdi");
    let specification = Specification::write(&lab);
    let image = image(&lab);
    let ready = || -> Result<&str> {
        image.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))?;
        Ok(&specification.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))?.kind)
    };
    for device in ["0", "all"] {
        table.case(&format!("device {device} in podman"), || {
            let device = format!("{}={device}", ready()?);
            let text = ended(container(&lab, "none", &device, &["/usr/bin/ibv_devices"]).output()?)?;
            ensure!(text.contains("rxe_lo"), "{text}");
            Ok(())
        });
    }
    table.case("a ping-pong between two containers", || ping_pong(&lab, &format!("{}=all", ready()?)));
    table.finish();
}

/// A specification of the devices, removed when dropped.
struct Specification {
    file: PathBuf,
    /// Not the default, so that another specification on this machine does not make the name ambiguous.
    kind: String,
}

impl Specification {
    fn write(lab: &Lab) -> Result<Specification> {
        std::fs::create_dir_all("/var/run/cdi")?;
        let own = std::process::id();
        let file = PathBuf::from(format!("/var/run/cdi/weft-test-{own}.json"));
        let written = Specification { file, kind: format!("weft-test.internal/hca{own}") };
        let words = ["cdi", "--kind", &written.kind, "--output", utf8(&written.file)?];
        lab.weft(lab.client(), Who::Root, &[], &words)?.success()?;
        Ok(written)
    }
}

impl Drop for Specification {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

/// Moves data between two containers, each in a network namespace of its own.
fn ping_pong(lab: &Lab, device: &str) -> Result<()> {
    const PORT: &str = "19004";
    let start = |side: &Side, extra: &[&str]| {
        let words = [&["/usr/bin/ibv_rc_pingpong", "-g", "0", "-c", "-e", "-p", PORT], extra].concat();
        let mut podman = container(lab, &format!("ns:/run/netns/{}", side.netns), device, &words);
        podman.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
    };
    // Podman itself is outside of the namespace.
    let mut inside = lab.start_bare(lab.server(), Who::Root, &["sleep", "60"])?;
    let server = start(lab.server(), &[])?;
    let listens = inside.wait_listening(PORT.parse()?, TIME);
    let client = start(lab.client(), &[lab.server().v4])?.wait_with_output()?;
    let server = server.wait_with_output()?;
    ensure!(listens, "the server did not listen: {}", ended(server)?);
    for (text, gid) in [(ended(client)?, lab.client().v4), (ended(server)?, lab.server().v4)] {
        ensure!(text.contains(&format!("GID ::ffff:{gid}")) && text.contains("1000 iters in"), "{text}");
    }
    Ok(())
}

/// Podman's command for a container with a device.
fn container(lab: &Lab, network: &str, device: &str, words: &[&str]) -> Command {
    let mut podman = podman(lab);
    podman.args(["run", "--rm", "--network", network, "--device", device]);
    // Limits below those of the test's own process: podman's default exceeds what some sandboxes allow.
    podman.args(["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000", "weft-test"]).args(words);
    podman
}

/// Output of a command; an error unless the command succeeded.
fn ended(out: Output) -> Result<String> {
    let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "{text}");
    Ok(text)
}

/// Podman with its storage in the lab.
fn podman(lab: &Lab) -> Command {
    let mut podman = Command::new("timeout");
    podman.args(["--kill-after=5", "60", "podman", "--storage-driver", "vfs", "--runtime", "/usr/sbin/runc"]);
    podman.args(["--cgroup-manager", "cgroupfs", "--root"]).arg(lab.file("store"));
    podman.arg("--runroot").arg(lab.file("run"));
    podman
}

/// Imports an image with two programs of this machine and the libraries that they need.
fn image(lab: &Lab) -> Result<()> {
    const PROGRAMS: [&str; 2] = ["/usr/bin/ibv_devices", "/usr/bin/ibv_rc_pingpong"];
    let root = lab.file("image");
    // The command of Weft is the daemon in the container, and needs libraries, too.
    let libraries = Command::new("ldd").args(PROGRAMS).arg(product::weft()?).output()?;
    let text = String::from_utf8_lossy(&libraries.stdout);
    // A line without white space before it names the program that the next lines are about.
    let libraries = text.lines().filter(|line| line.starts_with(char::is_whitespace)).flat_map(str::split_whitespace);
    for file in libraries.filter(|word| word.starts_with('/')).chain(PROGRAMS) {
        let to = root.join(file.trim_start_matches('/'));
        std::fs::create_dir_all(to.parent().context("a directory")?)?;
        std::fs::copy(file, to)?;
    }
    for dir in ["proc", "sys", "dev", "tmp", "run", "etc"] {
        std::fs::create_dir_all(root.join(dir))?;
    }
    let tar = lab.file("image.tar");
    ensure!(Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&tar).arg(".").status()?.success(), "tar");
    ended(podman(lab).arg("import").arg(&tar).arg("weft-test").output()?).context("podman import").map(drop)
}

fn utf8(path: &Path) -> Result<&str> {
    path.to_str().context("a path in UTF-8")
}
