//! Packets that the kernels of hosts have not cut or summed (TSO, USO): the same bytes arrive on any fabric, and a capture
//! has the packets as they are on a link.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use weft_interop::user::Who;
use weft_interop::{Fabric, Lab, Proc, Shape, Table, product, skip};

const TOOLS: &[&str] = &["ip", "python3", "tshark"];
const FROM: &str = "node2";
const TO: &str = "node3";
const LIMIT: Duration = Duration::from_secs(60);

/// MTU of an interface in datagram mode, and the longest payload of an IPv6 packet there.
const MTU: u32 = 2044;
const IPV6_PAYLOAD_MAX: u32 = MTU - 40;

/// Answers each TCP connection with the digest of its bytes, and each run of datagrams with a digest of them in a row.
const SERVE: &str = r"
import hashlib, socket, threading
def streams(s):
    while True:
        c, _ = s.accept()
        digest = hashlib.sha256()
        while data := c.recv(1 << 16):
            digest.update(data)
        c.sendall(digest.digest())
        c.close()
def datagrams(s):
    parts = {}
    while True:
        data, peer = s.recvfrom(1 << 16)
        parts[data[0]] = data[1:]
        if len(parts) == 20:
            s.sendto(hashlib.sha256(b''.join(parts[at] for at in range(20))).digest(), peer)
            parts = {}
stream = socket.create_server(('::', 5008), family=socket.AF_INET6, dualstack_ipv6=True)
datagram = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
datagram.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
datagram.bind(('::', 5009))
threading.Thread(target=datagrams, args=[datagram]).start()
print('ready', flush=True)
streams(stream)
";

/// Sends random bytes to each address: a stream, and twenty datagrams in one call (`UDP_SEGMENT`).
const SEND: &str = r"
import hashlib, os, random, socket, sys
size = int(sys.argv[1])
def check(digest, data, what):
    assert digest == hashlib.sha256(data).digest(), what
    print('intact', what, flush=True)
for address in sys.argv[3:]:
    data = os.urandom(size)
    s = socket.create_connection((address, 5008), timeout=40)
    at = 0
    while at < size:
        length = random.choice([1, 700, 5000, 70000, 1 << 20])
        s.sendall(data[at:at + length])
        at += length
    s.shutdown(socket.SHUT_WR)
    check(s.recv(32, socket.MSG_WAITALL), data, 'stream ' + address)
    if sys.argv[2] == 'datagrams':
        family, kind, _, _, to = socket.getaddrinfo(address, 5009, type=socket.SOCK_DGRAM)[0]
        s = socket.socket(family, kind)
        s.settimeout(10)
        parts = [os.urandom(1200) for _ in range(19)] + [os.urandom(77)]
        s.setsockopt(socket.IPPROTO_UDP, 103, 1201)
        s.sendto(b''.join(bytes([at]) + part for at, part in enumerate(parts)), to)
        check(s.recv(32), b''.join(parts), 'datagrams ' + address)
";

/// Prints transmit checksums, scatter-gather and TSO, as ethtool(8) asks for them.
const ETHTOOL: &str = r"
import fcntl, socket, struct, array
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for command in [0x16, 0x18, 0x1e]:
    value = array.array('I', [command, 0])
    fcntl.ioctl(s, 0x8946, struct.pack('16sQ16x', b'ib0', value.buffer_info()[0]))
    print(value[1])
";

#[test]
fn packets_that_kernels_have_not_cut_arrive_intact() {
    if !skip::have("packets that kernels have not cut", TOOLS) {
        return;
    }
    let mut table = Table::new("offloads of interfaces");
    for (way, words) in [("by verdicts", &["--star", "3"][..]), ("hop by hop", &["--star", "3", "--packets"])] {
        for mode in ["datagram", "connected"] {
            let lab = Lab::new(Shape::Loopback).expect("a lab");
            let fabric = Fabric::managed(&lab, &[words, &["--ipoib-mode", mode]].concat()).expect("a fabric");
            let label = |text: &str| format!("{text}, {mode} mode, {way}");
            let _server = serve(&lab, &fabric).expect("a server");
            table.case(&label("streams and datagrams"), || talk(&fabric, 16 << 20, true));
            table.case(&label("a smaller MTU at one end"), || smaller(&fabric));
            if mode == "datagram" {
                table.case(&label("a capture"), || capture(&lab, &fabric));
            }
            table.case(&label("a lossy cable"), || lossy(&fabric, mode));
        }
    }
    table.finish();
}

fn serve(lab: &Lab, fabric: &Fabric<'_>) -> Result<Proc> {
    let mut server = lab.start_line(&fabric.words(TO, &["python3", "-c", SERVE])?, &[])?;
    let begun = server.wait_until(LIMIT, |server| server.text().contains("ready"));
    ensure!(begun, "{}", server.text());
    let defers = fabric.run(FROM, &["python3", "-c", ETHTOOL])?.success()?.text;
    ensure!(defers.split_whitespace().eq(["1"; 3]), "the kernel defers nothing: {defers}");
    Ok(server)
}

/// Returns a host's addresses, IPv4 and IPv6.
fn addresses(fabric: &Fabric<'_>) -> Result<[String; 2]> {
    let text = fabric.run(TO, &["ip", "-o", "addr", "show", "dev", "ib0"])?.success()?.text;
    let of = |family: &str| {
        let line = text.lines().find(|line| line.split_whitespace().nth(2) == Some(family));
        let with_prefix = line.and_then(|line| line.split_whitespace().nth(3));
        with_prefix.and_then(|word| word.split('/').next()).map(str::to_owned).context(text.clone())
    };
    Ok([of("inet")?, of("inet6")? + "%ib0"])
}

fn talk(fabric: &Fabric<'_>, bytes: usize, with_datagrams: bool) -> Result<()> {
    let [v4, v6] = addresses(fabric)?;
    let kind = if with_datagrams { "datagrams" } else { "streams" };
    let text = fabric.run(FROM, &["python3", "-c", SEND, &bytes.to_string(), kind, &v4, &v6])?.success()?.text;
    let count = text.matches("intact").count();
    ensure!(count == if with_datagrams { 4 } else { 2 }, "{text}");
    Ok(())
}

/// Segments have the smaller size of both ends.
fn smaller(fabric: &Fabric<'_>) -> Result<()> {
    let set = |mtu: &str| fabric.run(TO, &["ip", "link", "set", "ib0", "mtu", mtu])?.success().map(drop);
    let before = fabric.run(TO, &["cat", "/sys/class/net/ib0/mtu"])?.success()?.text;
    set("1400")?;
    let talked = talk(fabric, 4 << 20, false);
    set(before.trim())?;
    talked
}

/// Segments that the sender's kernel has repeated.
fn repeated(fabric: &Fabric<'_>) -> Result<u64> {
    let text = fabric.run(FROM, &["cat", "/proc/net/snmp"])?.success()?.text;
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp: ")).map(str::split_whitespace);
    let (names, values) = (lines.next().context("names")?, lines.next().context("values")?);
    let value = names.zip(values).find(|(name, _)| *name == "RetransSegs").map(|(_, value)| value);
    Ok(value.context(text.clone())?.parse()?)
}

/// Segments are lost and repeated. In connected mode a lost packet costs the connection.
fn lossy(fabric: &Fabric<'_>, mode: &str) -> Result<()> {
    let (share, bytes, least) = if mode == "datagram" { ("1%", 2 << 20, 1) } else { ("100ppm", 1 << 20, 0) };
    let cable = format!("{TO}:1");
    let before = repeated(fabric)?;
    fabric.weft(&["cable", "errors", &cable, "--ppm", share])?;
    let talked = talk(fabric, bytes, false);
    fabric.weft(&["cable", "errors", &cable, "--ppm", "0"])?;
    talked?;
    let repeated = repeated(fabric)? - before;
    ensure!(repeated >= least, "{repeated} segments were repeated");
    Ok(())
}

/// The fields of a packet that tshark reads.
const FIELDS: [&str; 7] = [
    "ip.len",
    "ipv6.plen",
    "ip.checksum.status",
    "tcp.checksum.status",
    "udp.checksum.status",
    "tcp.len",
    "udp.dstport",
];

/// tshark's verdicts on a checksum.
const BAD: u32 = 0;
const GOOD: u32 = 1;

/// Reads a capture with tshark. Payload is data, or tshark guesses a protocol for random bytes and calls them malformed.
fn tshark(file: &str, args: &[&str]) -> Result<String> {
    let mut command = Command::new("tshark");
    command.args(["-d", "tcp.port==5008,data", "-d", "udp.port==5009,data", "-r", file]).args(args);
    let output = command.output().context("cannot run tshark")?;
    ensure!(output.status.success(), "tshark {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the fields of each packet of IP in a capture, as far as it has them.
fn packets(file: &str) -> Result<Vec<[Option<u32>; 7]>> {
    let mut args = ["-Y", "ip || ipv6", "-T", "fields", "-E", "separator=,", "-E", "occurrence=f"].to_vec();
    for checked in ["ip.check_checksum:TRUE", "tcp.check_checksum:TRUE", "udp.check_checksum:TRUE"] {
        args.extend(["-o", checked]);
    }
    for field in FIELDS {
        args.extend(["-e", field]);
    }
    let number = |word: &str| match word.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    };
    let packet = |line: &str| {
        let mut words = line.split(',').map(number);
        std::array::from_fn(|_| words.next().flatten())
    };
    Ok(tshark(file, &args)?.lines().map(packet).collect())
}

/// Every packet of a capture is one of the MTU, with correct checksums.
fn capture(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    const BYTES: usize = 1 << 20;
    let file = lab.file("offloads.pcapng").display().to_string();
    let weft = product::weft()?.display().to_string();
    let words = lab.bare(lab.client(), Who::Root, &[&weft, "capture", "-w", &file]);
    let mut capture = lab.start_line(&words, &[])?;
    ensure!(capture.wait_until(LIMIT, |capture| capture.text().contains("capturing")), "{}", capture.text());
    talk(fabric, BYTES, true)?;
    capture.signal(Signal::INT);
    let ended = capture.wait(LIMIT).success()?;
    ensure!(ended.text.contains(", 0 dropped by the daemon"), "{}", ended.text);
    let malformed = tshark(&file, &["-Y", "_ws.malformed", "-V"])?;
    ensure!(malformed.is_empty(), "tshark objects to\n{malformed}");
    let packets = packets(&file)?;
    for packet in &packets {
        let [v4, v6, sums @ .., _, _] = *packet;
        let fits = v4.unwrap_or_default() <= MTU && v6.unwrap_or_default() <= IPV6_PAYLOAD_MAX;
        ensure!(fits && !sums.contains(&Some(BAD)), "{FIELDS:?}: {packet:?}");
    }
    // Sent and received.
    let segments = 2 * BYTES / MTU as usize;
    for version in [0, 1] {
        let of = |packet: &&[Option<u32>; 7]| packet[version].is_some();
        let tcp = |packet: &&[Option<u32>; 7]| packet[3] == Some(GOOD) && packet[5] > Some(0);
        let udp = |packet: &&[Option<u32>; 7]| packet[4] == Some(GOOD) && packet[6] == Some(5009);
        let counts = (packets.iter().filter(of).filter(tcp).count(), packets.iter().filter(of).filter(udp).count());
        ensure!(counts.0 >= segments && counts.1 >= 40, "{}: {counts:?} packets of TCP and UDP", FIELDS[version]);
    }
    Ok(())
}
