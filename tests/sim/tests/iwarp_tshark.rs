//! Wireshark's dissectors read our streams without complaint, with and without CRCs and markers. Skipped where tshark is
//! not installed, except in CI.

use std::process::Command;

/// Returns a capture file of TCP segments between 10.0.0.1 and 10.0.0.2.
fn pcap(segments: &[(usize, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65535, 1] {
        file.extend(word.to_le_bytes());
    }
    let mut seq = [1000_u32, 2000];
    let mut put = |side: usize, flags: u8, payload: &[u8]| {
        let ports = [[0x9c, 0x40], [0x1c, 0x06]];
        let mut frame = vec![0; 12];
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((40 + payload.len() as u16).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1 + side as u8, 10, 0, 0, 2 - side as u8]);
        frame.extend(ports[side].iter().chain(&ports[1 - side]));
        frame.extend(seq[side].to_be_bytes());
        frame.extend(seq[1 - side].to_be_bytes());
        frame.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        frame.extend(payload);
        seq[side] += payload.len() as u32 + u32::from(flags & 2 != 0);
        let len = (frame.len() as u32).to_le_bytes();
        file.extend([[0; 4], [0; 4], len, len].concat());
        file.extend(frame);
    };
    put(0, 0x02, &[]);
    put(1, 0x12, &[]);
    put(0, 0x10, &[]);
    segments.iter().for_each(|(side, payload)| put(*side, 0x18, payload));
    file
}

/// Whether tshark is on the PATH. An emulator tells of no failure to start a program.
fn is_installed() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join("tshark").is_file())
}

#[test]
fn wireshark_dissects_our_streams() {
    if !is_installed() {
        assert!(std::env::var_os("CI").is_none(), "tshark is not installed");
        eprintln!("tshark is not installed: skipped");
        return;
    }
    for (crc, markers) in [(false, false), (true, false), (false, true), (true, true)] {
        let segments = weft_sim::iwarp::record(crc, markers);
        let path = std::env::temp_dir().join(format!("weft-iwarp-{}-{crc}-{markers}.pcap", std::process::id()));
        std::fs::write(&path, pcap(&segments)).expect("a temporary file");
        let output =
            Command::new("tshark").arg("-r").arg(&path).args(["-V", "-2", "--disable-protocol", "rpcordma"]).output();
        let _ = std::fs::remove_file(&path);
        let output = output.expect("tshark runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let count = |what: &str| text.matches(what).count();
        let dissected = count("iWARP Marker Protocol data unit Aligned framing");
        assert_eq!(dissected, segments.len(), "crc {crc}, markers {markers}: {text}");
        for complaint in ["Bad CRC32", "Malformed", "does not contain the expected length", "Reject bit"] {
            assert_eq!(count(complaint), 0, "crc {crc}, markers {markers}: {complaint}: {text}");
        }
        assert_eq!(count("Good CRC32"), if crc { segments.len() - 2 } else { 0 }, "{text}");
        assert_eq!(count("OpCode: Terminate"), 1, "{text}");
    }
}
