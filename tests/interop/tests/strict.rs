//! Strict mode: programs that rely on things that the specification does not promise pass without it, and fail under one of a hundred
//! seeds; Debian's programs pass under all. `WEFT_ALL=1` takes a thousand seeds for each of Debian's programs.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use weft_interop::{Lab, Pair, Shape, Table, Who, mpi, skip, table};

const NEEDED: &[&str] = &[
    "ip",
    "cc",
    "/usr/include/infiniband/verbs.h",
    "ib_write_lat",
    "ibv_rc_pingpong",
    "ss",
    "ucx_perftest",
    "mpirun.openmpi",
    "/usr/share/doc/rdma-core/tests/run_tests.py",
];
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/strict/unpromised.c");
/// Programs of the C file, and what strict mode makes them say.
const UNPROMISED: &[(&str, &str)] = &[
    ("last-byte", "the last byte came before others"),
    ("write-order", "the second WRITE came before the first"),
    ("no-receive", "RNR"),
    ("completion-order", "the second queue pair completed first"),
    ("unacknowledged", "it acknowledges events that it did not get"),
];
/// Seeds of which one must show the mistake.
const SEEDS: u64 = 100;
/// Attempts in which a program without strict mode must have luck once: threads decide.
const ATTEMPTS: usize = 20;
/// Debian's programs, which rely on nothing of the kind, and how often each repeats what it does.
const PROGRAMS: &[(&str, &str, u32)] = &[
    ("ib_send_bw", "-s 4096", 1000),
    ("ib_send_lat", "-s 64", 300),
    ("ib_write_bw", "-s 65536", 1000),
    ("ib_write_lat", "-s 8", 300),
    ("ib_read_bw", "-s 16384", 500),
    ("ib_atomic_bw", "", 500),
    ("ib_send_bw", "-c UD -s 1024", 500),
    // Not ib_send_lat -e: it takes an event of its send queue for one of its receive queue, and relies on their order.
    ("ibv_rc_pingpong", "-g 0", 200),
    ("ibv_rc_pingpong", "-g 0 -e", 200),
    ("ibv_uc_pingpong", "-g 0", 50),
    ("ibv_srq_pingpong", "-g 0", 200),
];

/// Libraries that programs use instead of verbs, as scripts of both ends: ADAPTER, ADDRESS, COUNT and TESTS (a place for Debian's
/// tests) are filled in.
const SCRIPTS: &[(&str, &str)] = &[
    (
        "UCX, connected queue pairs",
        "export UCX_TLS=rc_v,self UCX_NET_DEVICES=ADAPTER:1; ucx_perftest -p 13737 & \
         until ss -Htln | grep -q ':13737 '; do sleep 0.05; done; \
         ucx_perftest ADDRESS -p 13737 -t tag_bw -n COUNT -s 20000 | grep Final && wait $!",
    ),
    (
        "UCX, datagrams",
        "export UCX_TLS=ud_v,self UCX_NET_DEVICES=ADAPTER:1; ucx_perftest -p 13737 & \
         until ss -Htln | grep -q ':13737 '; do sleep 0.05; done; \
         ucx_perftest ADDRESS -p 13737 -t ucp_put_bw -n COUNT -s 20000 | grep Final && wait $!",
    ),
    (
        "Debian's tests of pyverbs",
        "test -d TESTS || { cp -r /usr/share/doc/rdma-core/tests TESTS; gunzip -f TESTS/*.gz; \
         find TESTS -name 'test_*' ! -name test_qpex.py -delete; }; cd TESTS; T=tests.test_qpex.QpExTestCase; \
         /usr/bin/python3 -B run_tests.py --dev ADAPTER -v $T.test_qp_ex_rc_send $T.test_qp_ex_rc_rdma_write \
         $T.test_qp_ex_rc_rdma_read $T.test_qp_ex_rc_atomic_fetch_add $T.test_qp_ex_ud_send",
    ),
];

#[test]
fn programs_that_rely_on_luck_fail() {
    if !skip::have("programs_that_rely_on_luck_fail", NEEDED) {
        return;
    }
    let mut table = Table::new("strict mode");
    let lab = Lab::new(Shape::One).expect("a lab");
    let program = compile(&lab);
    for (number, (name, says)) in UNPROMISED.iter().enumerate() {
        let who = Who::BOTH[number % 2];
        table.case(&format!("{name}, {who:?}"), || {
            let program = program.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))?;
            finds(&lab, who, program, name, says)
        });
    }
    table.case("a seed that is none is refused", || {
        let ended = lab.run(lab.client(), Who::Root, &[("WEFT_STRICT", "soon")], &["ibv_devinfo"])?;
        ensure!(ended.text.contains("WEFT_STRICT: \"soon\" is no seed"), "{}", ended.report());
        Ok(())
    });
    table.finish();
}

#[test]
fn programs_that_rely_on_promises_pass() {
    if !skip::have("programs_that_rely_on_promises_pass", NEEDED) {
        return;
    }
    let mut table = Table::new("strict mode, Debian's programs");
    let lab = Lab::new(Shape::One).expect("a lab");
    // With many seeds each run may be short.
    let (seeds, share) = if table::all() { (1000, 10) } else { (1, 1) };
    for (number, (tool, args, count)) in PROGRAMS.iter().enumerate() {
        let who = Who::BOTH[number % 2];
        table.case(&format!("{tool} {args}, {who:?}"), || {
            let args = format!("{args} -n {}", count / share);
            for seed in (1 + number as u64..).take(seeds) {
                let text = seed.to_string();
                let pair = Pair::new(tool, &args).devices(&lab)?.within(120).who(who).env("WEFT_STRICT", &text);
                pair.succeed(&lab).with_context(|| format!("seed {seed}"))?;
            }
            Ok(())
        });
    }
    for (name, script) in SCRIPTS {
        table.case(name, || {
            let (device, tests) = (&lab.device(lab.client())?.name, lab.file("tests").display().to_string());
            let script = script.replace("ADAPTER", device).replace("ADDRESS", lab.server().v4).replace("TESTS", &tests);
            let script = script.replace("COUNT", &(50 / share).to_string());
            for seed in (1..).take(seeds) {
                let seed: u64 = seed;
                let env = [("WEFT_STRICT", &seed.to_string()[..])];
                let ended = lab.run(lab.client(), Who::Root, &env, &["bash", "-c", &script])?;
                ended.success().with_context(|| format!("seed {seed}"))?;
            }
            Ok(())
        });
    }
    table.case("Open MPI", || {
        let program = mpi::compile(&lab, "mpicc.openmpi")?;
        (1..).take(seeds).try_for_each(|seed: u64| {
            let way = format!("UCX_TLS=rc_v,self WEFT_STRICT={seed}");
            mpi::open_mpi(&lab, Who::Root, "--mca pml ucx", &way, 2, &program).with_context(|| format!("seed {seed}"))
        })
    });
    table.finish();
}

/// Whether the program passes without strict mode, and fails with it as it must.
fn finds(lab: &Lab, who: Who, program: &str, name: &str, says: &str) -> Result<()> {
    let device = lab.device(lab.client())?;
    let words = [program, &device.name, &device.gid_v4.to_string(), name];
    let run = |env: &[(&str, &str)]| lab.run(lab.client(), who, env, &words);
    let is_lucky = (0..ATTEMPTS).any(|_| run(&[]).is_ok_and(|ended| ended.success().is_ok()));
    ensure!(is_lucky, "{name} never passes without strict mode: {}", run(&[])?.report());
    for seed in 1..=SEEDS {
        let ended = run(&[("WEFT_STRICT", &seed.to_string())])?;
        let code = ended.status.and_then(|status| status.code());
        if code == Some(1) {
            ensure!(ended.text.contains(says), "seed {seed}: {}", ended.report());
            table::note(&format!("strict mode: {name} fails with seed {seed}: {says}"));
            return Ok(());
        }
        ensure!(code == Some(0), "seed {seed}: {}", ended.report());
    }
    anyhow::bail!("{name} passes with {SEEDS} seeds")
}

fn compile(lab: &Lab) -> Result<String> {
    let program = lab.file("unpromised");
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Werror", "-O1", "-o"]).arg(&program).arg(SOURCE);
    let status = cc.args(["-libverbs", "-lpthread"]).status().context("cc runs")?;
    ensure!(status.success(), "unpromised.c does not compile");
    Ok(program.to_str().context("the lab's path is not UTF-8")?.to_owned())
}
