//! Programs in sandboxes that refuse namespaces and mounts, as Docker's default seccomp profile does: an ordinary user's
//! programs find Weft's libraries and devices all the same, and no device of the kernel's.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use weft_interop::ends::Ends;
use weft_interop::proc::on_a_terminal;
use weft_interop::{Ended, Lab, Pair, Sandbox, Shape, Table, Who, mpi, product, python, skip};

const WHO: Who = Who::Ordinary;
const LIMIT: Duration = Duration::from_secs(30);
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/loader");

/// A library's name with a hash, as wheels bundle it.
const HASHED: &str = "libibverbs-1a2b3c4d.so.1.14.39";

fn lab(shape: Shape, sandbox: Sandbox) -> Lab {
    let lab = Lab::new(shape).expect("a lab");
    lab.sandboxed(sandbox, env!("CARGO_BIN_EXE_weft-sandbox")).expect("the sandbox's command")
}

fn run(lab: &Lab, words: &[&str]) -> Result<String> {
    Ok(lab.run(lab.client(), WHO, &[("WEFT_QUIET", "1")], words)?.success()?.text)
}

#[test]
fn tools_see_the_devices() {
    if !skip::have("tools without namespaces", &["ip", "ibv_devices", "ibv_devinfo", "ibstat", "ibstatus", "find"]) {
        return;
    }
    let mut table = Table::new("without namespaces: tools");
    for sandbox in Sandbox::ALL {
        let lab = lab(Shape::One, sandbox);
        let device = lab.device(lab.client()).expect("a device").name.clone();
        for (words, wanted) in [
            (&["ibv_devices"][..], device.as_str()),
            (&["ibv_devinfo", "-v"], "PORT_ACTIVE"),
            (&["ibstat", &device], "State: Active"),
            (&["ibstatus", &device], "4: ACTIVE"),
            (&["ls", "/sys/class/infiniband"], &device),
            (&["find", "/sys/class/infiniband", "-name", "port_xmit_data"], "ports/1/counters/port_xmit_data"),
            (&["lsmod"], "\nib_uverbs               4096  2 rdma_ucm,rdma_rxe\n"),
            (&["sh", "-c", "modprobe mlx5_ib && modprobe -r mlx5_ib && modinfo -F filename rdma_rxe"], "/rdma_rxe.ko"),
        ] {
            table.case(&format!("{sandbox:?}: {}", words.join(" ")), || {
                let text = run(&lab, words)?;
                ensure!(text.contains(wanted), "no {wanted:?} in\n{text}");
                Ok(())
            });
        }
        table.case(&format!("{sandbox:?}: files that programs read directly"), || files(&lab));
        table.case(&format!("{sandbox:?}: nothing else changes"), || {
            let text = run(&lab, &["sh", "-c", "cd /sys/class/infiniband/.. && /bin/pwd && cd /dev && test -c null"])?;
            ensure!(text == "/sys/class\n", "{text}");
            Ok(())
        });
        table.case(&format!("{sandbox:?}: weft doctor"), || {
            let ended = lab.weft(lab.client(), WHO, &[], &["doctor"])?.success()?;
            ensure!(ended.text.contains("(LD_PRELOAD), but not to statically linked"), "{}", ended.text);
            Ok(())
        });
    }
    table.finish();
}

/// As the family `devices` reads them in a mount namespace.
fn files(lab: &Lab) -> Result<()> {
    let device = lab.device(lab.client())?;
    let (name, gid) = (&device.name, device.gid_v4);
    let words = format!(
        "set -e; cd /sys/class/infiniband/{name}/ports/1; cat state link_layer gids/{gid} gid_attrs/types/{gid} \
         gid_attrs/ndevs/{gid}; /bin/pwd; realpath ../../device; test -c /dev/infiniband/uverbs0; \
         test -r /dev/infiniband/uverbs0; test -w /dev/infiniband/uverbs0; ls -l /dev/infiniband/"
    );
    let text = run(lab, &["sh", "-c", &words])?;
    let (pwd, device) = (format!("/infiniband/{name}/ports/1\n"), format!("\n/sys/class/infiniband/{name}/device\n"));
    for wanted in ["ACTIVE", "Ethernet", "0000:0000:0000:0000:0000:ffff:0a4d:0001", "RoCE v2", "eth0", &pwd, &device] {
        ensure!(text.contains(wanted), "no {wanted:?} in\n{text}");
    }
    Ok(())
}

#[test]
fn applications_run() {
    let tools = ["ip", "ib_write_bw", "rping", "ucx_info", "ucx_perftest", "mpicc.openmpi", "mpirun.openmpi"];
    if !skip::have("applications without namespaces", &[&tools[..], &[python::PYVERBS]].concat()) {
        return;
    }
    let mut table = Table::new("without namespaces: applications");
    for sandbox in Sandbox::ALL {
        let lab = lab(Shape::One, sandbox);
        let device = format!("{}:1", lab.device(lab.client()).expect("a device").name);
        table.case(&format!("{sandbox:?}: ib_write_bw"), || {
            Pair::new("ib_write_bw", "-s 65536 -n 1000").who(WHO).devices(&lab)?.succeed(&lab).map(drop)
        });
        table.case(&format!("{sandbox:?}: rping"), || {
            let address = lab.server().v4;
            let ends = Ends::new("rping", "-C 20 -V").each(&format!("-s -a {address}"), &format!("-c -a {address}"));
            ends.who(WHO).judged(&lab, |_, _| Ok(()))
        });
        table.case(&format!("{sandbox:?}: pyverbs"), || {
            let script = "cq = CQ(context, 10); a, b = rc(cq), rc(cq)\n\
                          connect(a, b.qp_num, gid()); connect(b, a.qp_num, gid()); print('connected')";
            let ended = python::start(&lab, lab.client(), WHO, "connected", script)?.wait(LIMIT).success()?;
            ensure!(ended.text.contains("connected"), "{}", ended.text);
            Ok(())
        });
        table.case(&format!("{sandbox:?}: ucx_info -d"), || {
            let text = run(&lab, &["ucx_info", "-d"])?;
            ensure!(text.contains("Transport: rc_verbs") && text.contains(&device), "{text}");
            Ok(())
        });
        table.case(&format!("{sandbox:?}: ucx_perftest"), || {
            let env = [("UCX_TLS", "rc_v,self"), ("UCX_NET_DEVICES", device.as_str())];
            let start = |side, test: &[&str]| {
                let words = on_a_terminal(&[&["ucx_perftest", "-p", "13737"], test].concat());
                lab.start(side, WHO, &env, &words.iter().map(String::as_str).collect::<Vec<_>>())
            };
            let mut server = start(lab.server(), &[])?;
            ensure!(server.wait_listening(13737, LIMIT), "the server does not listen: {}", server.text());
            let test = ["-t", "tag_lat", "-n", "1000", "-s", "8", lab.server().v4];
            let client = start(lab.client(), &test)?.wait(LIMIT).success()?;
            ensure!(client.text.contains("Final:"), "{}", client.text);
            server.wait(LIMIT).success().map(drop)
        });
        table.case(&format!("{sandbox:?}: Open MPI"), || {
            let program = mpi::compile(&lab, "mpicc.openmpi")?;
            mpi::open_mpi(&lab, WHO, "--mca pml ucx", "UCX_TLS=rc_v,self", 2, &program)
        });
    }
    table.finish();
}

#[test]
fn hosts_have_the_machine_s_network() {
    if !skip::have("hosts without namespaces", &["ip", "ibv_devinfo", "ibv_rc_pingpong"]) {
        return;
    }
    let mut table = Table::new("without namespaces: hosts of a fabric");
    for sandbox in Sandbox::ALL {
        let lab = lab(Shape::Loopback, sandbox);
        // The lines that come once are recorded below it.
        let told = lab.file("told");
        std::fs::create_dir_all(&told).expect("a directory");
        std::fs::set_permissions(&told, std::os::unix::fs::PermissionsExt::from_mode(0o1777)).expect("permissions");
        let env = [("TMPDIR", utf8(&told).expect("a path"))];
        let weft = |env: &[(&str, &str)], words: &[&str]| lab.weft(lab.client(), WHO, env, words)?.success();
        const TOLD: &str = "the machine's network and host name, not those of node1";
        table.case(&format!("{sandbox:?}: one line, once"), || {
            weft(&[], &["up", "--star", "2"])?;
            let run = ["run", "--host", "node1", "--", "ibv_devinfo"];
            let quiet = weft(&env, &["run", "-q", "--host", "node1", "--", "ibv_devinfo"])?;
            ensure!(!quiet.text.contains("weft run:"), "{}", quiet.report());
            let quiet = weft(&[env[0], ("WEFT_QUIET", "1")], &run)?;
            ensure!(!quiet.text.contains("weft run:"), "{}", quiet.report());
            let first = weft(&env, &run)?;
            ensure!(first.text.matches(TOLD).count() == 1 && first.text.contains("PORT_ACTIVE"), "{}", first.report());
            let second = weft(&env, &run)?;
            ensure!(!second.text.contains("weft run:") && second.text.contains("PORT_ACTIVE"), "{}", second.report());
            Ok(())
        });
        table.case(&format!("{sandbox:?}: data, by the machine's TCP"), || {
            let quiet = [("WEFT_QUIET", "1")];
            let words = ["ibv_rc_pingpong", "-c", "-n", "100"];
            weft(&quiet, &[&["run", "-d", "--host", "node2", "--"], &words[..]].concat())?;
            let client = [&["run", "--host", "node1", "--"], &words[..], &["127.0.0.1"]].concat();
            let text = weft(&quiet, &client)?.text;
            ensure!(text.contains("100 iters") && !text.contains("invalid data"), "{text}");
            Ok(())
        });
        table.case(&format!("{sandbox:?}: pingall says that it leaves IP out"), || {
            let text = weft(&[("WEFT_QUIET", "1")], &["up", "--replace", "--star", "2", "--test", "pingall"])?.text;
            ensure!(text.contains("not tested: the hosts have the machine's network"), "{text}");
            ensure!(text.ends_with("Results: 0% lost (4/4 received)\n"), "{text}");
            weft(&[], &["down"]).map(drop)
        });
    }
    table.finish();
}

#[test]
fn counters_are_live_and_the_tree_goes() {
    if !skip::have("counters without namespaces", &["ip", "ib_write_bw"]) {
        return;
    }
    let mut table = Table::new("without namespaces: the tree");
    for sandbox in Sandbox::ALL {
        let lab = lab(Shape::One, sandbox);
        table.case(&format!("{sandbox:?}: live counters"), || live_counters(&lab));
        table.case(&format!("{sandbox:?}: the tree goes with its last program"), || {
            let words = "echo $WEFT_VIEW; (exec sleep 1; true) >/dev/null 2>&1 & true";
            let dir = PathBuf::from(run(&lab, &["sh", "-c", words])?.trim());
            ensure!(dir.is_absolute(), "no tree: {}", dir.display());
            let child_sees_it = dir.exists();
            let until = std::time::Instant::now() + LIMIT;
            while dir.exists() && std::time::Instant::now() < until {
                std::thread::sleep(Duration::from_millis(50));
            }
            ensure!(child_sees_it && !dir.exists(), "{}: there before: {child_sees_it}", dir.display());
            Ok(())
        });
    }
    table.finish();
}

/// A program that was already running reads counters of later traffic.
fn live_counters(lab: &Lab) -> Result<()> {
    let name = &lab.device(lab.client())?.name;
    let signal = lab.file("go");
    let script = format!(
        "cd /sys/class/infiniband/{name}/ports/1; cat counters/port_xmit_packets hw_counters/sent_pkts; echo ready; \
         while [ ! -e {} ]; do sleep 0.05; done; cat counters/port_xmit_packets hw_counters/sent_pkts",
        signal.display()
    );
    let mut reader = lab.start(lab.client(), WHO, &[("WEFT_QUIET", "1")], &["sh", "-c", &script])?;
    ensure!(reader.wait_until(LIMIT, |reader| reader.text().contains("ready")), "{}", reader.text());
    let pair = Pair::new("ib_write_bw", "-s 65536 -n 1000").who(WHO).devices(lab)?.env("WEFT_LOOPBACK", "wire");
    pair.succeed(lab)?;
    std::fs::write(&signal, "")?;
    let ended = reader.wait(LIMIT).success()?;
    let numbers: Vec<u64> = ended.text.lines().filter_map(|line| line.parse().ok()).collect();
    let [packets_before, sent_before, packets, sent] = numbers[..] else { anyhow::bail!("{}", ended.report()) };
    // 1,000 messages of 64 KiB take more packets than messages.
    ensure!(packets > packets_before + 1000 && sent > sent_before + 1000, "{}", ended.report());
    Ok(())
}

#[test]
fn foreign_devices_are_hidden() {
    if !skip::have("foreign devices without namespaces", &["ip", "unshare", "ibv_devices"]) {
        return;
    }
    let mut table = Table::new("without namespaces: foreign devices");
    for sandbox in Sandbox::ALL {
        let lab = lab(Shape::One, sandbox);
        table.case(&format!("{sandbox:?}: mana_0 and a class of the kernel's"), || {
            let device = lab.device(lab.client())?.name.clone();
            let ended = beside_a_foreign_device(
                &lab,
                "ls /sys/class/infiniband; cd /sys/class; ls infiniband; \
                 ls /sys/class/infiniband_cm; cat /sys/class/infiniband/mana_0/node_type; ibv_devices",
            )?;
            ensure!(ended.text.matches(&device).count() == 3, "{}", ended.report());
            ensure!(!ended.text.contains("1: CA") && !ended.text.contains("issue"), "{}", ended.report());
            ensure!(ended.text.matches("No such file").count() == 2, "{}", ended.report());
            Ok(())
        });
    }
    table.finish();
}

/// Runs a script under `weft run` in the sandbox, where the kernel seems to have a device.
fn beside_a_foreign_device(lab: &Lab, script: &str) -> Result<Ended> {
    let (net, weft) = (lab.file("net"), product::weft()?);
    std::fs::create_dir_all(&net)?;
    let inner = lab.bare(lab.client(), WHO, &[]);
    let entered = inner.iter().position(|word| *word == lab.client().netns).context("no network namespace")?;
    let inner = inner[entered + 1..].join(" ");
    let setup = format!(
        "set -e; mount --rbind /sys/class/net {net}; mount -t tmpfs none /sys/class; cd /sys/class; \
         mkdir -p net infiniband/mana_0 infiniband_cm/issue; mount --rbind {net} net; \
         echo '1: CA' > infiniband/mana_0/node_type; test -d /sys/class/infiniband/mana_0; \
         exec {inner} {weft} run -q -- sh -c '{script}'",
        net = net.display(),
        weft = weft.display(),
    );
    let words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", &setup];
    Ok(lab.start_bare(lab.client(), Who::Root, &words)?.wait(LIMIT))
}

#[test]
fn copies_of_libraries_are_not_loaded() {
    let needed = ["ip", "cc", "/usr/include/infiniband/verbs.h"];
    if !skip::have("copies of libraries without namespaces", &needed) {
        return;
    }
    let mut table = Table::new("without namespaces: copies of libraries");
    for sandbox in Sandbox::ALL {
        let lab = lab(Shape::Loopback, sandbox);
        let made = copies(&lab).expect("the copies compile");
        for (kind, program) in &made.programs {
            table.case(&format!("{sandbox:?}: {kind}"), || {
                let text = run(&lab, &[utf8(program)?])?;
                ensure!(text.starts_with("1 devices by "), "{text}");
                Ok(())
            });
        }
        let (opens, path) = (utf8(&made.opens).expect("a path"), utf8(&made.hashed).expect("a path"));
        for libraries in [
            &[path][..],
            &["libibverbs.so.1", path],
            &[path, "libibverbs.so.1", path],
            // Loaded before by its path, the name alone is known to the program.
            &["librdmacm.so.1", path, HASHED],
        ] {
            table.case(&format!("{sandbox:?}: dlopen of {libraries:?}"), || {
                let text = run(&lab, &[&[opens], libraries].concat())?;
                ensure!(text.starts_with("1 devices\n") && text.matches("mapped").count() == 1, "{text}");
                Ok(())
            });
        }
    }
    table.finish();
}

/// Programs with copies of libibverbs, and a copy under a name with a hash.
struct Copies {
    programs: Vec<(&'static str, PathBuf)>,
    opens: PathBuf,
    hashed: PathBuf,
}

fn copies(lab: &Lab) -> Result<Copies> {
    let dir = lab.file("copies");
    let (lib, hashed) = (dir.join("lib"), dir.join("lib").join(HASHED));
    std::fs::create_dir_all(&lib)?;
    let map = format!("-Wl,--version-script={SOURCES}/hashed.map");
    let build = |program: &Path, source: &str, flags: &[&str]| compile(program, source, flags);
    build(&hashed, "hashed", &["-shared", "-fPIC", &format!("-Wl,-soname,{HASHED}"), &map])?;
    build(&lib.join("libibverbs.so.1"), "hashed", &["-shared", "-fPIC", "-Wl,-soname,libibverbs.so.1", &map])?;
    let origin = "-Wl,-rpath,$ORIGIN/lib";
    let search = format!("-L{}", lib.display());
    let (plain, named) = ("-l:libibverbs.so.1", format!("-l:{HASHED}"));
    let mut programs = Vec::new();
    for (kind, tags, library) in [
        ("a copy by RUNPATH", "-Wl,--enable-new-dtags", plain),
        ("a copy by RPATH", "-Wl,--disable-new-dtags", plain),
        ("a name with a hash", "-Wl,--enable-new-dtags", &named),
    ] {
        let program = dir.join(kind.replace(' ', "-"));
        build(&program, "copies", &[tags, origin, &search, library])?;
        programs.push((kind, program));
    }
    let opens = dir.join("opens");
    build(&opens, "opens", &[origin])?;
    Ok(Copies { programs, opens, hashed })
}

fn compile(program: &Path, source: &str, flags: &[&str]) -> Result<()> {
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Werror", "-O1", "-o"]).arg(program).arg(format!("{SOURCES}/{source}.c")).args(flags);
    ensure!(cc.status().context("cc runs")?.success(), "{source}.c does not compile");
    Ok(())
}

fn utf8(path: &Path) -> Result<&str> {
    path.to_str().context("a path in UTF-8")
}
