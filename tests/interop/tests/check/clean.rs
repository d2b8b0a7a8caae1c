//! Third-party programs as they stand: none may get a report of an error, but for the mistakes that their source shows.

use anyhow::{Context, Result, bail, ensure};
use std::process::Command;
use weft_interop::{Lab, Shape, Table, Who, mpi, skip, table};

use super::reports::{Checked, check};

/// Debian's preload library, which turns every TCP socket of a program into an rsocket.
const RSOCKET_PRELOAD: &str = "/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so";
/// Debian's own pyverbs tests.
const PYVERBS: &str = "/usr/share/doc/rdma-core/tests";
/// Modules of them: those with much traffic, unusual objects, or errors on purpose. `WEFT_ALL=1` runs these.
const PYVERBS_MODULES: &[&str] = &[
    "test_cq",
    "test_cqex",
    "test_mr",
    "test_pd",
    "test_qp",
    "test_qpex",
    "test_rdmacm",
    "test_addr",
    "test_atomic",
    "test_cq_events",
    "test_odp",
    "test_shared_pd",
    "test_parent_domain",
    "test_fork",
];
/// Mistakes that they make on purpose, to see them refused, by module.
const PYVERBS_MISTAKES: &[(&str, &[&str])] = &[
    ("test_atomic", &["atomic-misaligned", "key-unknown"]),
    // A test deregisters regions whose receives are still posted.
    ("test_odp", &["region-in-use"]),
    // One test frees the memory of a receive that is still posted.
    ("test_mr", &["remote-access-without-local", "key-wrong-pd", "buffer-unmapped"]),
    ("test_qp", &["qp-cap-beyond-device"]),
    ("test_qpex", &["post-in-wrong-state", "receive-queue-full", "too-many-sge"]),
];
/// Mistakes of other programs. qperf deallocates its protection domain before its memory regions; with the RDMA CM it
/// deregisters regions whose receives are still posted.
const MISTAKES: &[(&str, &[&str])] = &[("qperf", &["destroy-busy", "region-in-use"])];
/// Runs of a pair that ends for a reason of its own.
const TRIES: usize = 3;
/// Those reasons, as perftest prints them: it cannot measure the processor's clock; or the client connects before the server
/// listens, and perftest 4.5 then tries again with memory that it has freed.
const EXCUSES: &[&str] = &["Correlation coefficient", "RDMA_CM_EVENT_REJECTED"];
/// One in so many programs runs by default.
const ONE_IN: usize = 4;

/// A program alone: its command, with `{dev}` and `{ip}` for the device and the address.
const ALONE: &[&str] = &["ibv_devinfo -v", "ucx_info -d", "fi_info -p verbs"];

/// A server and its client, with `{dev}`, `{gid}` and `{ip}` for the device, its GID index and the address.
const PAIRS: &[(&str, &str)] = &[
    ("ibv_rc_pingpong -d {dev} -g {gid} -c -n 200", "ibv_rc_pingpong -d {dev} -g {gid} -c -n 200 {ip}"),
    ("ibv_rc_pingpong -d {dev} -g {gid} -e -n 200", "ibv_rc_pingpong -d {dev} -g {gid} -e -n 200 {ip}"),
    ("ibv_rc_pingpong -d {dev} -g {gid} -t -n 200", "ibv_rc_pingpong -d {dev} -g {gid} -N -n 200 {ip}"),
    ("ibv_uc_pingpong -d {dev} -g {gid} -n 50", "ibv_uc_pingpong -d {dev} -g {gid} -n 50 {ip}"),
    ("ibv_uc_pingpong -d {dev} -g {gid} -e -n 50", "ibv_uc_pingpong -d {dev} -g {gid} -e -n 50 {ip}"),
    ("ibv_ud_pingpong -d {dev} -g {gid} -s 900 -n 50", "ibv_ud_pingpong -d {dev} -g {gid} -s 900 -n 50 {ip}"),
    ("ibv_ud_pingpong -d {dev} -g {gid} -e -s 900 -n 50", "ibv_ud_pingpong -d {dev} -g {gid} -e -s 900 -n 50 {ip}"),
    ("ibv_srq_pingpong -d {dev} -g {gid} -n 200", "ibv_srq_pingpong -d {dev} -g {gid} -n 200 {ip}"),
    ("ibv_srq_pingpong -d {dev} -g {gid} -e -n 200", "ibv_srq_pingpong -d {dev} -g {gid} -e -n 200 {ip}"),
    ("ibv_xsrq_pingpong -d {dev} -g {gid} -n 50", "ibv_xsrq_pingpong -d {dev} -g {gid} -n 50 {ip}"),
    ("ib_send_bw -d {dev} -n 500", "ib_send_bw -d {dev} -n 500 {ip}"),
    ("ib_send_bw -d {dev} -n 500 -e", "ib_send_bw -d {dev} -n 500 -e {ip}"),
    ("ib_send_bw -d {dev} -n 200 -c UC -s 4096", "ib_send_bw -d {dev} -n 200 -c UC -s 4096 {ip}"),
    ("ib_send_bw -d {dev} -n 200 -c UD -s 1024", "ib_send_bw -d {dev} -n 200 -c UD -s 1024 {ip}"),
    ("ib_send_bw -d {dev} -n 200 --use-srq", "ib_send_bw -d {dev} -n 200 --use-srq {ip}"),
    ("ib_send_bw -d {dev} -n 200 -b -q 3", "ib_send_bw -d {dev} -n 200 -b -q 3 {ip}"),
    ("ib_send_bw -d {dev} -n 200 -R", "ib_send_bw -d {dev} -n 200 -R {ip}"),
    ("ib_send_lat -d {dev} -n 300 -s 64", "ib_send_lat -d {dev} -n 300 -s 64 {ip}"),
    ("ib_send_lat -d {dev} -n 300 -e", "ib_send_lat -d {dev} -n 300 -e {ip}"),
    ("ib_send_lat -d {dev} -n 200 -c UD -I 64 -s 64", "ib_send_lat -d {dev} -n 200 -c UD -I 64 -s 64 {ip}"),
    ("ib_write_bw -d {dev} -n 500", "ib_write_bw -d {dev} -n 500 {ip}"),
    ("ib_write_bw -d {dev} -n 200 -a", "ib_write_bw -d {dev} -n 200 -a {ip}"),
    ("ib_write_bw -d {dev} -n 500 -q 4 -b", "ib_write_bw -d {dev} -n 500 -q 4 -b {ip}"),
    ("ib_write_bw -d {dev} -n 200 -c UC", "ib_write_bw -d {dev} -n 200 -c UC {ip}"),
    ("ib_write_bw -d {dev} -n 200 -R -e", "ib_write_bw -d {dev} -n 200 -R -e {ip}"),
    ("ib_write_lat -d {dev} -n 300 -I 32 -s 32", "ib_write_lat -d {dev} -n 300 -I 32 -s 32 {ip}"),
    ("ib_write_lat -d {dev} -n 300 -R -s 8", "ib_write_lat -d {dev} -n 300 -R -s 8 {ip}"),
    ("ib_read_bw -d {dev} -n 300", "ib_read_bw -d {dev} -n 300 {ip}"),
    ("ib_read_bw -d {dev} -n 300 -R -e", "ib_read_bw -d {dev} -n 300 -R -e {ip}"),
    ("ib_read_lat -d {dev} -n 200", "ib_read_lat -d {dev} -n 200 {ip}"),
    ("ib_atomic_bw -d {dev} -n 300", "ib_atomic_bw -d {dev} -n 300 {ip}"),
    ("ib_atomic_bw -d {dev} -n 300 -A CMP_AND_SWAP", "ib_atomic_bw -d {dev} -n 300 -A CMP_AND_SWAP {ip}"),
    ("ib_atomic_lat -d {dev} -n 200 -R", "ib_atomic_lat -d {dev} -n 200 -R {ip}"),
    ("rping -s -a {ip} -C 10 -V", "rping -c -a {ip} -C 10 -V"),
    ("rping -s -a {ip} -C 3 -S 65535 -q", "rping -c -a {ip} -C 3 -S 65535 -q"),
    ("ucmatose -b {ip} -c 20 -C 20", "ucmatose -s {ip} -c 20 -C 20"),
    ("udaddy -b {ip} -c 4 -C 20 -S 900", "udaddy -s {ip} -c 4 -C 20 -S 900"),
    ("rdma_server", "rdma_client -s {ip}"),
    ("rdma_xserver -c r", "rdma_xclient -c r -s {ip}"),
    ("rdma_xserver -c x", "rdma_xclient -c x -s {ip}"),
    ("cmtime -b {ip} -c 50", "cmtime -s {ip} -c 50"),
    ("rstream -b {ip} -T v -S 5000 -C 200", "rstream -s {ip} -T v -S 5000 -C 200"),
    ("rstream -b {ip} -T n -S 300000 -C 10", "rstream -s {ip} -T n -S 300000 -C 10"),
    ("riostream -b {ip} -T v -S 5000 -C 100", "riostream -s {ip} -T v -S 5000 -C 100"),
    ("rcopy", "rcopy /usr/bin/ibv_devinfo {ip}:{file}"),
    ("qperf", "qperf {ip} -t 1 -cm 1 rc_bw rc_rdma_read_lat rc_compare_swap_mr quit"),
    ("qperf", "qperf {ip} -t 1 -cm 1 rc_lat rc_bi_bw rc_rdma_write_poll_lat quit"),
    ("env {ucx} ucx_perftest", "env {ucx} ucx_perftest {ip} -t tag_lat -n 500"),
    ("env {ucx} ucx_perftest", "env {ucx} ucx_perftest {ip} -t tag_bw -n 5 -s 8388608"),
    ("env {ucx} ucx_perftest", "env {ucx} ucx_perftest {ip} -t ucp_am_bw -n 500 -s 4096"),
    ("env {ucx} ucx_perftest", "env {ucx} ucx_perftest {ip} -t ucp_put_bw -n 50 -s 65536"),
    ("env {ucx} ucx_perftest", "env {ucx} ucx_perftest {ip} -t ucp_get -n 100 -s 65536"),
    ("env {ucx} ucx_perftest", "env {ucx} ucx_perftest {ip} -t ucp_fadd -n 200 -s 8"),
    ("env {ucx_ud} ucx_perftest", "env {ucx_ud} ucx_perftest {ip} -t tag_bw -n 200 -s 65536"),
    ("fi_pingpong -p verbs -e msg -S 900 -I 20 -c", "fi_pingpong -p verbs -e msg -S 900 -I 20 -c {ip}"),
    ("fi_pingpong -p verbs;ofi_rxm -e rdm -I 20 -c", "fi_pingpong -p verbs;ofi_rxm -e rdm -I 20 -c {ip}"),
    ("fi_pingpong -p verbs -e dgram -S 900 -I 20 -c", "fi_pingpong -p verbs -e dgram -S 900 -I 20 -c {ip}"),
];

/// Shell commands that start both ends themselves.
const SCRIPTS: &[(&str, &str)] = &[
    ("mckey", "mckey -m 239.77.0.9 -b {ip} -C 10 & sleep 1; mckey -s -m 239.77.0.9 -b {ip} -C 10 && wait"),
    ("udpong", "timeout 20 udpong -b {ip} & sleep 1; udpong -s {ip} -C 200 && kill $!"),
    (
        "iperf3 over rsockets",
        "export LD_PRELOAD=$LD_PRELOAD:{preload}; timeout 30 iperf3 -s -1 & sleep 1; iperf3 -c {ip} -n 5M && wait $!",
    ),
    (
        "curl over rsockets",
        "cd $(mktemp -d); head -c 300000 /dev/urandom > page; \
         openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=weft -keyout key -out certificate 2> /dev/null; \
         export LD_PRELOAD=$LD_PRELOAD:{preload}; \
         timeout 30 openssl s_server -accept 4433 -key key -cert certificate -WWW & sleep 1; \
         curl -sSk -m 20 -o got https://{ip}:4433/page && cmp got page && kill $!",
    ),
];

#[test]
fn third_party_programs_are_clean() {
    if !skip::have("third_party_programs_are_clean", &["ip", "ibv_rc_pingpong", "ib_write_bw", "rping"]) {
        return;
    }
    let lab = Lab::new(Shape::One).expect("a lab");
    let mut table = Table::sampling("check, third-party programs", ONE_IN, 0);
    let mut turn = 0usize;
    let mut who = || {
        turn += 1;
        Who::BOTH[(turn / ONE_IN + turn) % 2]
    };
    for line in ALONE {
        let who = who();
        table.sampled(&format!("{line}, {who:?}"), || alone(&lab, who, line));
    }
    for (server, client) in PAIRS {
        let who = who();
        table.sampled(&format!("{client}, {who:?}"), || pair(&lab, who, server, client));
    }
    for (name, script) in SCRIPTS {
        let who = who();
        table.sampled(&format!("{name}, {who:?}"), || shell(&lab, who, script));
    }
    table.finish();
}

#[test]
fn mpi_programs_are_clean() {
    if !skip::have("mpi_programs_are_clean", &["ip", "mpicc.openmpi", "mpirun.openmpi", "mpicc.mpich", "mpiexec.mpich"])
    {
        return;
    }
    let lab = Lab::new(Shape::One).expect("a lab");
    let mut table = Table::sampling("check, MPI", 2, 0);
    let open = "mpirun.openmpi --oversubscribe --mca plm isolated --mca btl self --mca pml ucx -n 2";
    for (who, compiler, launcher) in [
        (Who::Root, "mpicc.openmpi", open),
        (Who::Ordinary, "mpicc.mpich", "env MPIR_CVAR_NOLOCAL=1 mpiexec.mpich -n 2"),
        (Who::Ordinary, "mpicc.openmpi", open),
    ] {
        table.sampled(&format!("{compiler}, {who:?}"), || {
            let program = mpi::compile(&lab, compiler)?;
            // Session files need a place of their own.
            let place = lab.file(&format!("mpi-{who:?}")).display().to_string();
            lab.start_bare(lab.client(), who, &["mkdir", "-p", &place])?.wait(std::time::Duration::from_secs(5));
            let before = format!(
                "env HOME={place} TMPDIR={place} OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 {{ucx}}"
            );
            let line = filled(&lab, &format!("{before} {launcher} {program}"))?;
            let checked = watch(&lab, who, &["--timeout", "60"], &words(&line))?;
            judge(&checked, 2, &[])?;
            ensure!(checked.ended.text.contains("all 2 right"), "{}", checked.report());
            Ok(())
        });
    }
    table.finish();
}

/// Debian's pyverbs tests break rules on purpose: with keys of other protection domains, for example. Their own process
/// must end as without the checker, and reports may name nothing but what the tests do.
#[test]
fn pyverbs_tests_pass_under_the_checker() {
    if !std::path::Path::new(PYVERBS).join("run_tests.py").exists() {
        skip::skip("pyverbs_tests_pass_under_the_checker", "package python3-pyverbs is not installed");
        return;
    }
    let lab = Lab::new(Shape::One).expect("a lab");
    let at = lab.file("tests").display().to_string();
    let unpack = format!("cp -r {PYVERBS} {at} && chmod -R u+w {at} && gunzip -f {at}/*.gz && chmod -R a+rX {at}");
    assert!(Command::new("sh").args(["-c", &unpack]).status().expect("sh runs").success(), "{unpack}");
    let mut table = Table::sampling("check, pyverbs", 5, 0);
    for module in PYVERBS_MODULES.iter().filter(|module| lab.file("tests").join(format!("{module}.py")).exists()) {
        table.sampled(module, || {
            let device = &lab.device(lab.client())?.name;
            let script = format!("cd {at} && exec /usr/bin/python3 -B run_tests.py --dev {device} tests.{module}");
            let checked = watch(&lab, Who::Root, &["--timeout", "100"], &["sh", "-c", &script])?;
            judge(&checked, 1, mistakes(PYVERBS_MISTAKES, module))
        });
    }
    table.finish();
}

fn alone(lab: &Lab, who: Who, line: &str) -> Result<()> {
    let line = filled(lab, line)?;
    judge(&watch(lab, who, &[], &words(&line))?, 1, &[])
}

/// Runs a pair, the server by the command's own option.
fn pair(lab: &Lab, who: Who, server: &str, client: &str) -> Result<()> {
    let client = filled(lab, client)?;
    // The option is a shell's command line.
    let server: Vec<_> = words(&filled(lab, server)?).iter().map(|word| format!("'{word}'")).collect();
    let options = ["--server", &server.join(" "), "--timeout", "40"];
    let known = mistakes(MISTAKES, words(&client).first().copied().unwrap_or_default());
    let mut tries = 1;
    loop {
        let checked = watch(lab, who, &options, &words(&client))?;
        let text = &checked.ended.text;
        let is_retried = EXCUSES.iter().any(|excuse| text.contains(excuse));
        if is_retried && tries < TRIES && !checked.ended.ok() {
            tries += 1;
            continue;
        }
        return judge(&checked, 2, known);
    }
}

fn shell(lab: &Lab, who: Who, script: &str) -> Result<()> {
    let script = filled(lab, script)?;
    judge(&watch(lab, who, &["--timeout", "40"], &["sh", "-c", &script])?, 2, &[])
}

/// Checks a program; the exit status stays the program's.
fn watch(lab: &Lab, who: Who, options: &[&str], words: &[&str]) -> Result<Checked> {
    check(lab, who, &[&["--exit-code", "0"], options].concat(), words)
}

/// The mistakes of a program or module.
fn mistakes(list: &[(&str, &'static [&'static str])], name: &str) -> &'static [&'static str] {
    list.iter().find(|(program, _)| *program == name).map(|(_, rules)| *rules).unwrap_or_default()
}

/// The program ended well, no error is reported but known mistakes, and the checker was in so many processes with
/// verbs.
fn judge(checked: &Checked, processes: usize, known: &[&str]) -> Result<()> {
    let errors: Vec<_> = checked.errors().into_iter().filter(|rule| !known.contains(rule)).collect();
    ensure!(errors.is_empty(), "errors {errors:?}: {}", checked.report());
    ensure!(checked.ended.ok(), "{}", checked.report());
    let counted = checked.ended.text.lines().rev().find_map(|line| {
        let words = line.strip_prefix("weft check: ")?.rsplit_once(" in ")?.1;
        words.split_whitespace().next()?.parse::<usize>().ok()
    });
    match counted {
        Some(count) if count >= processes => {}
        _ => bail!("{counted:?} processes were checked, not {processes}: {}", checked.report()),
    }
    if !checked.reports.is_empty() {
        table::note(&format!("    warnings: {:?}", checked.rules()));
    }
    Ok(())
}

/// A command with the lab's own words in the places of those in braces.
fn filled(lab: &Lab, line: &str) -> Result<String> {
    let device = lab.device(lab.client())?;
    let file = lab.file("received");
    // Each user writes a file of its own.
    if file.exists() {
        std::fs::remove_file(&file)?;
    }
    let ucx = format!("UCX_NET_DEVICES={}:1 UCX_WARN_UNUSED_ENV_VARS=n UCX_FENCE_MODE=weak", device.name);
    let file = file.to_str().context("the lab's path is not UTF-8")?;
    Ok(line
        .replace("{dev}", &device.name)
        .replace("{gid}", &device.gid_v4.to_string())
        .replace("{ip}", lab.client().v4)
        .replace("{file}", file)
        .replace("{ucx}", &format!("{ucx} UCX_TLS=rc_v,self"))
        .replace("{ucx_ud}", &format!("{ucx} UCX_TLS=ud_v,self"))
        .replace("{preload}", RSOCKET_PRELOAD))
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}
